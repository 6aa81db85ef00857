//! The invariants of sending webhooks.
//!
//! | name | holds |
//! | --- | --- |
//! | `nothing_is_lost` | every wanted event up to the cursor is accepted, or it is parked or given up and listed |
//! | `first_tries_are_in_order` | an event is first sent after its record's previous event is accepted or given up |
//! | `limits_hold` | the numbers of tries in flight, events above the cursor, parked events and listed tries |
//! | `payloads_have_no_personal_data` | a body contains no actor, e-mail address or identity |
//! | `nothing_is_sent_after_a_deletion` | no try begins more than two seconds after the endpoint is deleted |
//! | `receivers_end_with_the_stores_state` | the highest version that a receiver received is the stored record |

use std::collections::BTreeSet;

use serde_json::Value;
use subscription_core::webhooks::Delivery;

use super::receivers::{Receiver, Receivers};
use crate::simulation::invariants::Broken;

pub const NOTHING_IS_LOST: &str = "nothing_is_lost";
pub const FIRST_TRIES_ARE_IN_ORDER: &str = "first_tries_are_in_order";
pub const LIMITS_HOLD: &str = "limits_hold";
pub const PAYLOADS_HAVE_NO_PERSONAL_DATA: &str = "payloads_have_no_personal_data";
pub const NOTHING_IS_SENT_AFTER_A_DELETION: &str = "nothing_is_sent_after_a_deletion";
pub const RECEIVERS_END_WITH_THE_STORES_STATE: &str = "receivers_end_with_the_stores_state";

/// The names of all invariants.
pub const NAMES: [&str; 6] = [
    NOTHING_IS_LOST,
    FIRST_TRIES_ARE_IN_ORDER,
    LIMITS_HOLD,
    PAYLOADS_HAVE_NO_PERSONAL_DATA,
    NOTHING_IS_SENT_AFTER_A_DELETION,
    RECEIVERS_END_WITH_THE_STORES_STATE,
];

/// The stored state of an endpoint and of its deliveries.
#[derive(Debug, Default)]
pub(super) struct Standing {
    pub(super) delivery: Delivery,
    pub(super) parked: BTreeSet<u64>,
    pub(super) given_up: BTreeSet<u64>,
    /// The sequences of events that were given up at some time. Their documents may be deleted by now.
    pub(super) once_given_up: BTreeSet<u64>,
    /// True if a caller has set the cursor back.
    pub(super) is_rewound: bool,
}

pub(super) fn nothing_is_lost(
    shared: &Receivers,
    receiver: &Receiver,
    standing: &Standing,
) -> Result<(), Broken> {
    let Standing { delivery, parked, once_given_up, .. } = standing;
    let passed = shared.feed.iter().take_while(|event| event.sequence <= delivery.cursor);
    let lost = passed.filter(|event| receiver.wants(event)).find(|event| {
        let sequence = &event.sequence;
        !receiver.accepted.contains(sequence)
            && !parked.contains(sequence)
            && !once_given_up.contains(sequence)
    });
    match lost {
        Some(lost) => Err(Broken::new(NOTHING_IS_LOST, format!("{} {standing:?}", lost.sequence))),
        None => Ok(()),
    }
}

pub(super) fn limits_hold(receiver: &Receiver, standing: &Standing) -> Result<(), Broken> {
    let Standing { delivery, parked, given_up, is_rewound, .. } = standing;
    let above = receiver.accepted.range(delivery.cursor + 1..).count();
    let counts = [
        ("parked", parked.len(), 100),
        ("given up", given_up.len(), 100),
        ("recent", delivery.recent.len(), 20),
        ("accepted above the cursor", if *is_rewound { 0 } else { above }, 200),
    ];
    match counts.into_iter().find(|(_, count, most)| count > most) {
        Some((name, count, _)) => Err(Broken::new(LIMITS_HOLD, format!("{count} {name}"))),
        None => Ok(()),
    }
}

/// Compares the record that a receiver has with the stored record. `stored` is `None` if the record is deleted.
pub(super) fn is_the_stored_one(kept: &Value, stored: Option<Value>) -> Result<(), Broken> {
    // Access is not compared, because it begins and ends by the clock, without an event.
    let bare = |value: &Value| {
        let mut value = value.clone();
        if let Some(members) = value.as_object_mut() {
            members.remove("is_active");
        }
        value
    };
    let stored = stored.unwrap_or(Value::Null);
    if bare(kept) == bare(&stored) {
        return Ok(());
    }
    Err(Broken::new(RECEIVERS_END_WITH_THE_STORES_STATE, format!("{kept}, not {stored}")))
}

//! Commits a renewal by one message to SQLite's thread: a subscription is updated, a payment is inserted, and each has
//! an event.
//!
//! ```text
//! INSERT OR IGNORE INTO payments (…) SELECT … WHERE EXISTS (SELECT 1 FROM subscriptions WHERE …);
//! UPDATE subscriptions SET … WHERE … AND changes() > 0;
//! INSERT INTO events (…) SELECT … WHERE changes() > 0;
//! INSERT INTO events (…) SELECT … WHERE changes() > 0
//! ```
//!
//! The payment is ignored if one of its unique values is taken, if the subscription has another version, or if its
//! unique values move. Then nothing is written, and no savepoint is needed. `commit.rs` finds the reason.

use std::sync::LazyLock;

use sqlx::sqlite::SqliteConnection;

use super::super::commit::{event_columns, event_values};
use super::super::dialect::SqlConnection as _;
use super::super::page::Statement;
use super::super::records::EVENTS;
use super::super::table::{SqlRecord as _, placeholders};
use super::super::value::Value;
use crate::payments::Payment;
use crate::store::{ChangeSet, Record};
use crate::subscriptions::Subscription;
use crate::values::version::Version;

/// The rows that the statements write: two records and two events.
const ROWS: u64 = 4;

/// The subscription comes first, then the version before it, the payment and the events.
static TEXT: LazyLock<String> = LazyLock::new(|| {
    let (subscriptions, payments) = (Subscription::TABLE, Payment::TABLE);
    let at = |column: &str| subscriptions.columns().iter().position(|it| *it == column);
    let place = |column: &str| at(column).map_or_else(String::new, |at| format!("${}", at + 1));
    let (id, external_id) = (place("id"), place("external_subscription_id"));
    let live_key = place("live_key");
    let version = subscriptions.columns().len() + 1;
    let of_payment = placeholders(version + 1, payments.columns().len());
    let first_event = version + 1 + payments.columns().len();
    let events = [0, 1].map(|nth| {
        let count = EVENTS.columns().len() - 1;
        let places = placeholders(first_event + nth * count, count);
        format!("INSERT INTO events ({}) SELECT {places} WHERE changes() > 0", event_columns())
    });
    format!(
        "INSERT OR IGNORE INTO payments ({}) SELECT {of_payment} WHERE EXISTS (\
         SELECT 1 FROM subscriptions WHERE id = {id} AND version = ${version} \
         AND external_subscription_id IS {external_id} \
         AND ({live_key} IS NULL OR live_key IS {live_key})); \
         {} AND changes() > 0; {}",
        payments.columns().join(", "),
        subscriptions.texts.update,
        events.join("; "),
    )
});

/// Commits a change set; false if it is no renewal or is refused, and nothing was written.
pub(super) async fn commit(
    to: &mut SqliteConnection,
    changes: &ChangeSet,
) -> Result<bool, sqlx::Error> {
    let Some(values) = renewal(changes) else { return Ok(false) };
    match to.execute(Statement::new(TEXT.as_str(), values)).await? {
        0 => Ok(false),
        ROWS => Ok(true),
        rows => Err(sqlx::Error::Protocol(format!("a renewal wrote {rows} rows"))),
    }
}

/// The values of a renewal; `None` if a set has another form.
fn renewal(changes: &ChangeSet) -> Option<Vec<Value>> {
    let ChangeSet { guards, writes, deletes, events, forget_events } = changes;
    let ([Record::Subscription(subscription), Record::Payment(payment)], [first, second]) =
        (&**writes, &**events)
    else {
        return None;
    };
    let alone = guards.is_empty() && deletes.is_empty() && forget_events.is_none();
    if !alone || subscription.version == Version::FIRST || payment.version != Version::FIRST {
        return None;
    }
    let mut values = subscription.values();
    values.push(Value::version(subscription.version.previous()));
    values.extend(payment.values());
    values.extend(event_values(first));
    values.extend(event_values(second));
    Some(values)
}

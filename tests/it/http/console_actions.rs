//! `actions.json` of the console: the verbs that a subscription can take, by its manager and its status.
//!
//! Each verb is tried over the API, on a subscription for which it could make a difference: one with a scheduled
//! pause, with a failed payment, blocked or not. `INSTA_UPDATE=always` writes the file anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::json;
use subscription_core::subscriptions::ScheduledChange;
use subscription_core::{ManagedBy, Subscription, SubscriptionStatus, Timestamp};

use self::Situation::{Blocked, Plain, Scheduled};
use super::world::{HttpWorld, path_of, text};

const FILE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/subscription-http/src/console/assets/actions.json");

/// In the order of the file.
const MANAGERS: [ManagedBy; 3] = [ManagedBy::Clock, ManagedBy::Caller, ManagedBy::Provider];

/// The state of a subscription beside its manager and its status. The newest payment of each has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Situation {
    Plain,
    /// With a scheduled pause.
    Scheduled,
    Blocked,
}

/// A verb, the situations that it is tried in, its method, the end of its path, and bodies.
type Verb =
    (&'static str, &'static [Situation], &'static str, &'static str, &'static [&'static str]);

const VERBS: [Verb; 9] = [
    ("cancel", &[Plain], "POST", "/cancel", &[r#"{"effective":"period_end"}"#]),
    ("cancel_now", &[Plain], "POST", "/cancel", &[r#"{"effective":"now"}"#]),
    ("resume", &[Plain, Scheduled], "POST", "/resume", &[""]),
    ("pause", &[Plain], "POST", "/pause", &["", r#"{"resumes_at":"2025-04-01T00:00:00Z"}"#]),
    (
        "change_plan",
        &[Plain],
        "POST",
        "/change-plan",
        &[r#"{"quantity":2,"effective":"period_end"}"#],
    ),
    ("drop_scheduled_change", &[Scheduled], "DELETE", "/scheduled-change", &[""]),
    ("retry_payment", &[Plain], "POST", "/retry", &[""]),
    ("block", &[Plain], "PUT", "", &[r#"{"is_active":false}"#]),
    ("unblock", &[Blocked], "PUT", "", &[r#"{"is_active":true}"#]),
];

/// Puts a subscription of the clock, whose first period runs, into another state.
fn put(
    subscription: &mut Subscription,
    (by, status): (ManagedBy, SubscriptionStatus),
    situation: Situation,
) {
    let month_end: Timestamp = "2025-02-28T00:00:00Z".parse().unwrap();
    subscription.managed_by = by;
    subscription.status = status;
    subscription.blocked = situation == Blocked;
    let billing = subscription.billing.as_mut().unwrap();
    billing.past_due_since = None;
    // A cancellation drops it.
    let is_over = matches!(status, SubscriptionStatus::Cancelled | SubscriptionStatus::Expired);
    if situation == Scheduled && !is_over {
        billing.scheduled_change = Some(ScheduledChange::Pause { resumes_at: None });
    }
    match status {
        SubscriptionStatus::Pending => {
            subscription.starts_at = month_end;
            billing.current_period_start = None;
        }
        SubscriptionStatus::OnTrial => billing.trial_ends_at = Some(month_end),
        SubscriptionStatus::Cancelled => subscription.ends_at = Some(month_end),
        SubscriptionStatus::Expired => subscription.ends_at = Some(subscription.starts_at),
        SubscriptionStatus::Active
        | SubscriptionStatus::PastDue
        | SubscriptionStatus::Unpaid
        | SubscriptionStatus::Paused => {}
    }
}

/// True if the API takes the verb in one of its situations, and the record has changed then.
async fn is_taken(world: &HttpWorld, state: (ManagedBy, SubscriptionStatus), verb: Verb) -> bool {
    let (name, situations, method, end, bodies) = verb;
    let tries =
        situations.iter().flat_map(|situation| bodies.iter().map(|body| (*situation, *body)));
    for (nth, (situation, body)) in tries.enumerate() {
        let (by, status) = state;
        let user = format!("{by}-{status}-{name}-{nth}").replace('_', "-");
        let made = world.on_clock(&user, &json!({})).await;
        let payment = world.report(&made, "failed").await;
        world.rewrite(&made, |subscription| put(subscription, state, situation)).await;
        let path = match name {
            "retry_payment" => format!("/subscription-payments/{}", text(&payment["id"])),
            _ => path_of(&made),
        };
        let before = world.server("GET", &path, &[], "").await.json();

        let answer = world.server(method, &format!("{path}{end}"), &[], body).await;

        let what = format!("{name} of {situation:?} {by} {status}");
        assert!([200, 204, 404, 409, 422].contains(&answer.status), "{what}: {answer:?}");
        let after = world.server("GET", &path, &[], "").await.json();
        assert!(answer.status < 300 || after == before, "{what} was refused and done");
        if answer.status < 300 && after != before {
            return true;
        }
    }
    false
}

/// The file as it should be, one line a status.
async fn written() -> String {
    let world = HttpWorld::new().await;
    let mut text = "{\n".to_owned();
    for (nth, by) in MANAGERS.into_iter().enumerate() {
        let mut rows = Vec::new();
        for status in SubscriptionStatus::all() {
            let mut verbs = Vec::new();
            for verb in VERBS {
                if is_taken(&world, (by, status), verb).await {
                    verbs.push(format!("\"{}\"", verb.0));
                }
            }
            rows.push(format!("    \"{status}\": [{}]", verbs.join(", ")));
        }
        let end = if nth + 1 == MANAGERS.len() { "" } else { "," };
        writeln!(text, "  \"{by}\": {{\n{}\n  }}{end}", rows.join(",\n")).unwrap();
    }
    text + "}\n"
}

#[tokio::test]
async fn the_actions_of_the_console_are_those_that_the_api_takes() {
    let written = written().await;

    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(FILE, &written).unwrap();
    }
    assert_eq!(std::fs::read_to_string(FILE).unwrap(), written);
    let actions: BTreeMap<String, BTreeMap<String, Vec<String>>> =
        serde_json::from_str(&written).unwrap();
    let has = |by: &str, status: &str, verb: &str| actions[by][status].iter().any(|it| it == verb);
    assert!(has("clock", "active", "cancel") && has("clock", "cancelled", "resume"));
    assert!(has("clock", "past_due", "retry_payment") && !has("caller", "active", "change_plan"));
    for (status, verbs) in &actions["provider"] {
        let of_access = |verb: &String| verb == "block" || verb == "unblock";
        assert!(verbs.iter().all(of_access), "{status}: {verbs:?}");
    }
}

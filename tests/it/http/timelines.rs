//! The timelines of subscriptions: what the clock does, and what it would do.

use serde_json::{Value, json};

use super::world::{HttpWorld, path_of, problem, text};

#[tokio::test]
async fn a_timeline_is_what_then_happens() {
    let world = HttpWorld::new().await;
    let held = world.on_clock("ann", &json!({})).await;
    let path = format!("{}/timeline", path_of(&held));

    let year = world.server("GET", &path, &[], "").await.json();
    let two = world.server("GET", &format!("{path}?limit=2"), &[], "").await.json();
    let far = format!("{path}?until=9999-12-31T00:00:00Z&limit=200");
    let far = world.server("GET", &far, &[], "").await.json();

    let steps = year["data"].as_array().unwrap();
    // A reminder and a renewal each month.
    assert_eq!((steps.len(), &year["has_more"]), (24, &json!(false)), "{year}");
    assert_eq!((&two["data"], &two["has_more"]), (&json!(steps[..2]), &json!(true)));
    assert_eq!((far["data"].as_array().unwrap().len(), &far["has_more"]), (200, &json!(true)));
    world.report(&held, "succeeded").await;
    for step in &steps[..6] {
        let at = text(&step["at"]).parse().unwrap();
        world.auth.clock.set(at);
        world.billing.advance(10).await.unwrap();
        let now = world.server("GET", &path_of(&held), &[], "").await.json();
        assert_eq!(now["status"], step["status"], "{step}");
        if step["ask"].is_null() {
            assert_eq!(step["step"], "reminded");
            continue;
        }
        let asked = world.newest_payment(&held).await;
        for (name, value) in step["ask"].as_object().unwrap() {
            assert_eq!(asked[name], *value, "{name}");
        }
        world.report(&held, "succeeded").await;
    }
    let of_caller = world.subscription("ben", &json!({})).await;
    let refused = world.server("GET", &format!("{}/timeline", path_of(&of_caller)), &[], "").await;
    assert_eq!(refused.problem(), problem(409, "managed_by_caller"));
}

#[tokio::test]
async fn a_timeline_has_the_retries_of_a_failed_payment_and_what_follows_the_last() {
    let world = HttpWorld::new().await;
    let held = world.on_clock("ann", &json!({})).await;
    let path = format!("{}/timeline?limit=200", path_of(&held));
    let steps = async || {
        let read = world.server("GET", &path, &[], "").await.json();
        read["data"].as_array().unwrap().clone()
    };
    let of_dunning = |steps: &[Value]| -> Vec<_> {
        let dunning =
            |step: &&Value| ["payment_retried", "dunning_ended"].contains(&&*text(&step["step"]));
        let shown = |step: &Value| {
            format!("{} {} {}", text(&step["at"]), text(&step["step"]), text(&step["status"]))
        };
        steps.iter().filter(dunning).map(shown).collect()
    };
    assert_eq!(of_dunning(&steps().await), [""; 0]);
    world.report(&held, "failed").await;

    let coming = steps().await;

    assert!(coming.is_sorted_by_key(|step| text(&step["at"])), "{coming:?}");
    let ahead = of_dunning(&coming);
    let days: Vec<_> = ahead.iter().map(|it| it.split_once('T').unwrap().0).collect();
    assert_eq!(days, ["2025-02-01", "2025-02-04", "2025-02-09", "2025-02-14", "2025-02-14"]);
    assert!(ahead[..4].iter().all(|it| it.ends_with("payment_retried past_due")), "{ahead:?}");
    assert!(ahead[4].ends_with("dunning_ended unpaid"), "{ahead:?}");
    // So it happens.
    for (at, left) in
        coming.iter().filter(|step| step["step"] == "payment_retried").zip([4, 3, 2, 0])
    {
        world.auth.clock.set(text(&at["at"]).parse().unwrap());
        world.billing.advance(10).await.unwrap();
        world.report(&held, "failed").await;
        world.billing.advance(10).await.unwrap();
        let now = of_dunning(&steps().await);
        assert_eq!(now, ahead[ahead.len() - left..], "{at}");
    }
    let now = world.server("GET", &path_of(&held), &[], "").await.json();
    assert_eq!(now["status"], "unpaid");
}

#[tokio::test]
async fn a_timeline_has_no_retry_after_the_end_of_the_subscription() {
    let world = HttpWorld::new().await;
    let held = world.on_clock("ann", &json!({ "ends_at": "2025-02-05T00:00:00Z" })).await;
    world.report(&held, "failed").await;
    let steps = async || {
        let path = format!("{}/timeline?limit=200", path_of(&held));
        let read = world.server("GET", &path, &[], "").await.json();
        let steps = read["data"].as_array().unwrap().clone();
        steps.iter().map(|step| text(&step["step"])).collect::<Vec<_>>()
    };

    // The third retry would be on 9 February.
    assert_eq!(steps().await, ["payment_retried", "payment_retried", "ended"]);
    world.auth.clock.set("2025-02-06T00:00:00Z".parse().unwrap());
    world.billing.advance(10).await.unwrap();

    let now = world.server("GET", &path_of(&held), &[], "").await.json();
    assert_eq!(now["status"], "expired");
    assert_eq!(steps().await, [""; 0]);
}

#[tokio::test]
async fn a_timeline_read_in_parts_has_every_step_once() {
    let world = HttpWorld::new().await;
    let held = world.on_clock("ann", &json!({})).await;
    let pause = json!({ "resumes_at": "2025-04-01T00:00:00Z" }).to_string();
    world.server("POST", &format!("{}/pause", path_of(&held)), &[], pause).await;
    let path = format!("{}/timeline?until=2025-12-31T00:00:00Z", path_of(&held));
    let read =
        async |query: &str| world.server("GET", &format!("{path}{query}"), &[], "").await.json();

    let whole = read("").await;
    let mut parts = Vec::new();
    let mut part = read("&limit=1").await;
    loop {
        parts.extend(part["data"].as_array().unwrap().iter().cloned());
        if part["has_more"] == false {
            break;
        }
        let after = text(&parts.last().unwrap()["at"]);
        part = read(&format!("&limit=1&after={after}")).await;
    }

    // The pause ends and a period starts at the same moment.
    assert_eq!(parts[1]["at"], parts[2]["at"]);
    assert_eq!(json!(parts), whole["data"]);
}

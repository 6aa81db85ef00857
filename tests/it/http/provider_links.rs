//! Payment providers over HTTP: links of customers and subscriptions, and syncs.

use std::time::Duration;

use serde_json::json;

use super::providers::{SUBSCRIPTION, event, sold};
use super::world::{HttpWorld, problem, text};

#[tokio::test]
async fn a_customer_is_bound_once_and_its_event_can_be_replayed() {
    let world = HttpWorld::new().await;
    sold(&world).await;
    let [ann, ben] = [world.sign_up("ann").await.id, world.sign_up("ben").await.id];
    world.webhook(&event("evt_1", SUBSCRIPTION)).await;
    let events = world.server("GET", "/provider-events", &[], "").await.json();
    let replay = format!("/provider-events/{}/replay", text(&events["data"][0]["id"]));
    let waits = world.server("POST", &replay, &[], "").await.json();
    assert_eq!(
        (&waits["state"], &waits["reason"]),
        (&json!("waiting"), &json!("unknown_customer"))
    );
    let bind = |user: &str| json!({ "source": "stripe", "customer": "cus_1", "user_id": user });

    assert_eq!(world.link(&bind(&ann)).await.status, 201);

    assert_eq!(world.link(&bind(&ann)).await.status, 201);
    assert_eq!(world.link(&bind(&ben)).await.problem(), problem(409, "customer_conflict"));
    let applied = world.server("POST", &replay, &[], "").await.json();
    assert_eq!(applied["state"], "applied", "{applied}");
    let path = format!("/subscriptions/{}", text(&applied["subscription_id"]));
    let followed = world.server("GET", &path, &[], "").await.json();
    assert_eq!((&followed["user_id"], &followed["managed_by"]), (&json!(ann), &json!("provider")));
    assert_eq!((&followed["quantity"], &followed["status"]), (&json!(2), &json!("active")));
    let released = world.server("PUT", &path, &[], r#"{"managed_by":"caller"}"#).await;
    assert_eq!(released.status, 200, "{released:?}");
    let attach = json!({ "source": "stripe", "subscription_id": followed["id"] });
    assert_eq!(world.link(&attach).await.status, 201);
}

#[tokio::test]
async fn a_customer_whose_account_is_deleted_is_bound_anew_but_not_to_one_that_is_closing() {
    let world = HttpWorld::new().await;
    let [ann, ben] = [world.sign_up("ann").await, world.sign_up("ben").await];
    let bind = |user: &str| json!({ "source": "stripe", "customer": "cus_1", "user_id": user });
    assert_eq!(world.link(&bind(&ann.id)).await.status, 201);
    assert_eq!(world.link(&bind(&ben.id)).await.problem(), problem(409, "customer_conflict"));
    let path = format!("/authentication/delete-my-account/{}", ann.id);
    assert_eq!(world.person("DELETE", &path, &ann.bearer).await.status, 204);

    assert_eq!(world.link(&bind(&ben.id)).await.status, 201);

    world.auth.close(ben.id.parse().unwrap()).await;
    let new = json!({ "source": "stripe", "customer": "cus_2", "user_id": ben.id });
    assert_eq!(world.link(&new).await.faults(), ["user_id unknown_reference"]);
}

#[tokio::test]
async fn a_link_and_a_sync_are_refused_with_all_of_their_faults() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await.id;
    for (body, faults) in [
        (json!({}), &["source required", "customer required", "user_id required"][..]),
        (
            json!({ "source": "paypal", "customer": "a/b", "user_id": 1, "x": 1 }),
            &[
                "source unknown_reference",
                "customer bad_format",
                "user_id wrong_type",
                "x unknown_field",
            ],
        ),
        (
            json!({ "source": "stripe", "subscription_id": "x", "customer": "cus_1" }),
            &["customer not_allowed_value", "subscription_id bad_format"],
        ),
        (
            json!({ "source": "stripe", "customer": "cus_1", "user_id": "01940000-0000-7000-8000-000000000000" }),
            &["user_id unknown_reference"],
        ),
    ] {
        assert_eq!(world.link(&body).await.faults(), faults, "{body}");
    }
    for (body, faults) in [
        (json!({}), &["source required"][..]),
        (json!({ "source": "My Shop" }), &["source bad_format"]),
        (
            json!({ "source": "paypal", "subscription": "sub_1/.." }),
            &["source unknown_reference", "subscription bad_format"],
        ),
        (
            json!({ "source": "stripe", "subscription": "sub_1", "checkout_session": "cs_1" }),
            &["checkout_session not_allowed_value"],
        ),
        (json!({ "source": "stripe", "order": "1" }), &["order not_allowed_value"]),
        (
            json!({ "source": "lemons", "checkout_session": "cs_1" }),
            &["checkout_session not_allowed_value"],
        ),
        (json!({ "source": "stripe", "user_id": ann }), &["user_id not_allowed_value"]),
        (
            json!({ "source": "stripe", "subscription": null, "x": 1 }),
            &["subscription null_not_allowed", "x unknown_field"],
        ),
    ] {
        assert_eq!(world.sync(&body).await.faults(), faults, "{body}");
    }
    let unknown =
        json!({ "source": "stripe", "subscription_id": "01940000-0000-7000-8000-000000000000" });
    assert_eq!(world.link(&unknown).await.problem(), problem(404, "not_found"));
}

#[tokio::test]
async fn links_are_listed_by_each_filter_and_page_by_page() {
    let world = HttpWorld::new().await;
    sold(&world).await;
    let [ann, ben] = [world.sign_up("ann").await.id, world.sign_up("ben").await.id];
    let one = json!({ "source": "stripe", "subscription": SUBSCRIPTION, "user_id": ann });
    let subscription = text(&world.sync(&one).await.json()["id"]);
    for (source, customer, user) in [("stripe", "cus_2", &ann), ("lemons", "31", &ben)] {
        world.link(&json!({ "source": source, "customer": customer, "user_id": user })).await;
    }
    let page = async |query: &str| {
        let page = world.server("GET", &format!("/provider-links?{query}"), &[], "").await.json();
        let links = page["data"].as_array().unwrap().iter();
        let mut objects: Vec<_> = links.map(|link| text(&link["object"]["id"])).collect();
        objects.sort();
        (objects, page)
    };
    for (query, objects) in [
        (String::new(), &["31", "cus_1", "cus_2", SUBSCRIPTION][..]),
        ("source=stripe".into(), &["cus_1", "cus_2", SUBSCRIPTION]),
        ("source=lemons".into(), &["31"]),
        ("source=paypal".into(), &[]),
        (format!("user_id={ann}"), &["cus_1", "cus_2"]),
        (format!("user_id={ben}&source=stripe"), &[]),
        (format!("user_id={subscription}"), &[]),
        (format!("subscription_id={subscription}"), &[SUBSCRIPTION]),
        (format!("subscription_id={subscription}&source=lemons"), &[]),
        (format!("subscription_id={subscription}&user_id={ann}"), &[]),
        (format!("subscription_id={ann}"), &[]),
    ] {
        let (found, page) = page(&query).await;
        assert_eq!(found, objects, "{query}: {page}");
    }

    for filter in ["", "&source=stripe", &format!("&user_id={ann}")] {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let (found, page) = page(&format!("limit=1{filter}{cursor}")).await;
            seen.extend(found);
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
            let path = format!("/provider-links?limit=1&source=lemons{cursor}");
            let other = world.server("GET", &path, &[], "").await;
            assert_eq!(other.problem(), problem(400, "invalid_cursor"));
        }
        seen.sort();
        assert_eq!(seen, page(filter.trim_start_matches('&')).await.0, "{filter}");
    }
    for query in [
        "source=My%20Shop",
        "user_id=ann",
        "user_id=",
        "subscription_id=1",
        "object=sub_1",
        "limit=0",
        "limit=201",
        "cursor=x",
        "source=stripe&source=stripe",
    ] {
        let refused = world.server("GET", &format!("/provider-links?{query}"), &[], "").await;
        let code = if query == "cursor=x" { "invalid_cursor" } else { "invalid_query" };
        assert_eq!(refused.problem(), problem(400, code), "{query}");
    }
}

#[tokio::test]
async fn five_syncs_a_second_are_answered() {
    let world = HttpWorld::new().await;
    let body = json!({ "source": "stripe", "subscription": "sub_none" });
    let mut statuses = Vec::new();
    for _ in 0..20 {
        statuses.push(world.sync(&body).await.status);
    }
    assert!(statuses.starts_with(&[202; 5]), "{statuses:?}");
    assert_eq!(statuses.last(), Some(&429), "{statuses:?}");

    let refused = world.sync(&body).await;

    assert_eq!(refused.problem(), problem(429, "rate_limited"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    world.auth.clock.advance(Duration::from_secs(1));
    assert_eq!(world.sync(&body).await.status, 202);
}

//! Lists: pages, orders, filters, and cursors that fit nothing else.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use subscription_core::auth::ClientKind;

use super::world::{Answer, HttpWorld, WEB, add, plan_body, problem, text};

const PLANS: &str = "/subscription-plans";
const SUBSCRIPTIONS: &str = "/subscriptions";

async fn plan(world: &HttpWorld, slug: &str, more: &Value) -> Value {
    let mut body = plan_body(slug);
    add(&mut body, more);
    world.auth.clock.advance(std::time::Duration::from_secs(1));
    world.made(PLANS, &body).await
}

async fn three_plans(world: &HttpWorld) {
    plan(world, "a", &json!({ "tier": 2, "price": 9, "name": "B", "product_id": "p" })).await;
    plan(world, "b", &json!({ "tier": 1, "price": 10, "name": "C", "most_popular": true })).await;
    let yearly = json!({ "tier": 3, "price": 8.5, "name": "A", "billing_cycle": "yearly" });
    plan(world, "c", &yearly).await;
    world.server("PUT", "/subscription-plans/c", &[], r#"{"is_active":false}"#).await;
}

async fn names(world: &HttpWorld, list: &str, query: &str, name: &str) -> String {
    let page = world.server("GET", &format!("{list}?{query}"), &[], "").await;
    assert_eq!(page.status, 200, "{query} {page:?}");
    let body = page.json();
    assert_eq!((&body["has_more"], &body["next_cursor"]), (&json!(false), &Value::Null));
    body["data"].as_array().unwrap().iter().map(|record| text(&record[name])).collect()
}

fn is_refused(answer: &Answer, parameter: &str, what: &str) {
    assert_eq!(answer.problem(), problem(400, "invalid_query"), "{what}");
    assert_eq!(answer.json()["parameter"], parameter, "{what}");
    assert!(text(&answer.json()["detail"]).contains(parameter), "{what}");
}

#[tokio::test]
async fn plans_are_sorted_and_filtered_as_asked() {
    let world = HttpWorld::new().await;
    assert_eq!(
        world.server("GET", PLANS, &[], "").await.text(),
        r#"{"data":[],"has_more":false,"next_cursor":null}"#
    );
    three_plans(&world).await;

    for (query, slugs) in [
        ("", "bac"),
        ("sort=tier", "bac"),
        ("sort=-tier", "cab"),
        ("sort=price", "cab"),
        ("sort=-price", "bac"),
        ("sort=name", "cab"),
        ("sort=-name", "bac"),
        ("sort=created_at", "abc"),
        ("sort=-created_at", "cba"),
        ("is_active=true", "ba"),
        ("is_active=false", "c"),
        ("billing_cycle=yearly", "c"),
        ("billing_cycle=P1M", "ba"),
        ("product_id=p", "a"),
        ("tier=3", "c"),
        ("most_popular=true", "b"),
        ("most_popular=false&is_active=true", "a"),
        ("limit=200&&", "bac"),
    ] {
        assert_eq!(names(&world, PLANS, query, "slug").await, slugs, "{query}");
    }
}

#[tokio::test]
async fn subscriptions_are_sorted_and_filtered_as_asked() {
    let world = HttpWorld::new().await;
    let made = |name: &'static str, more: Value| {
        world.auth.clock.advance(std::time::Duration::from_secs(1));
        let world = &world;
        async move { world.subscription(name, &more).await }
    };
    let outside = |id: &str, renews_at: &str| json!({ "external_subscription_id": id, "renews_at": renews_at });
    let a = made("ann", outside("a", "2025-03-03T00:00:00.000000Z")).await;
    made("ben", outside("b", "2025-03-01T00:00:00.000000Z")).await;
    let mut paused = outside("c", "2025-03-02T00:00:00.000000Z");
    paused["status"] = json!("paused");
    made("cat", paused).await;

    for (query, found) in [
        ("", "cba"),
        ("sort=-created_at", "cba"),
        ("sort=created_at", "abc"),
        ("sort=renews_at", "bca"),
        ("sort=-renews_at", "acb"),
        (&*format!("user_id={}", text(&a["user_id"])), "a"),
        (&*format!("subscription_plan_id={}", text(&a["subscription_plan_id"])), "a"),
        ("status=paused", "c"),
        ("status=paused&status=active", "cba"),
        ("status=expired", ""),
        ("is_active=false", "c"),
        ("is_active=true", "ba"),
        ("external_subscription_id=b", "b"),
        ("renews_before=2025-03-02T00:00:00.000000Z", "b"),
        ("renews_after=2025-03-02T00:00:00.000000Z", "ca"),
        ("renews_after=2025-03-02T01:00:00%2B01:00&renews_before=2025-03-03T00:00:00.000000Z", "c"),
    ] {
        let told = names(&world, SUBSCRIPTIONS, query, "external_subscription_id").await;
        assert_eq!(told, found, "{query}");
    }
}

#[tokio::test]
async fn parameters_that_are_unknown_repeated_or_wrong_are_refused_by_name() {
    let world = HttpWorld::new().await;
    let limits = ["0", "-1", "201", "18446744073709551616", "x", "", "1.0", "1e1"];
    let both = limits.map(|limit| (format!("limit={limit}"), "limit"));
    let mut cases: Vec<(&str, String, &str)> = Vec::new();
    for list in [PLANS, SUBSCRIPTIONS] {
        cases.extend(both.iter().map(|(query, name)| (list, query.clone(), *name)));
        for (query, name) in [
            ("offset=1", "offset"),
            ("Limit=1", "Limit"),
            ("limit=1&limit=1", "limit"),
            ("sort=id", "sort"),
            ("sort=", "sort"),
            ("sort=--created_at", "sort"),
            ("sort=created_at;drop", "sort"),
            ("is_active=1", "is_active"),
            ("is_active=True", "is_active"),
            ("cursor=a&cursor=a", "cursor"),
            ("is_active=%ff", "is_active"),
            ("is_active=true%00", "is_active"),
        ] {
            cases.push((list, query.into(), name));
        }
    }
    for (query, name) in [
        ("billing_cycle=often", "billing_cycle"),
        ("product_id=", "product_id"),
        ("tier=-1", "tier"),
        ("tier=10001", "tier"),
        ("most_popular=yes", "most_popular"),
        ("user_id=x", "user_id"),
        ("is_active=true&is_active=true", "is_active"),
    ] {
        cases.push((PLANS, query.into(), name));
    }
    for (query, name) in [
        ("user_id=x", "user_id"),
        ("subscription_plan_id=1", "subscription_plan_id"),
        ("status=sleeping", "status"),
        ("status=active&status=", "status"),
        ("external_subscription_id=", "external_subscription_id"),
        ("renews_before=tomorrow", "renews_before"),
        ("renews_after=2025-02-30T00:00:00.000000Z", "renews_after"),
        ("tier=1", "tier"),
    ] {
        cases.push((SUBSCRIPTIONS, query.into(), name));
    }

    for (list, query, name) in cases {
        let refused = world.server("GET", &format!("{list}?{query}"), &[], "").await;
        is_refused(&refused, name, &format!("{list} {query}"));
    }
}

#[tokio::test]
async fn routes_that_are_no_lists_take_no_parameters() {
    let world = HttpWorld::new().await;
    world.plan("pro").await;

    for (method, path, body) in [
        ("GET", "/subscription-plans/pro", ""),
        ("PUT", "/subscription-plans/pro", r#"{"tier":1}"#),
        ("DELETE", "/subscription-plans/pro", ""),
        ("POST", "/subscription-plans", r#"{"name":"x"}"#),
        ("POST", "/authentication/sign-in", "{}"),
    ] {
        let refused = world.server(method, &format!("{path}?dry_run=true"), &[], body).await;
        is_refused(&refused, "dry_run", method);
    }
    let after = world.server("GET", "/subscription-plans/pro", &[], "").await;
    assert_eq!(after.json()["version"], 1);
}

/// The first cursor of a list of one record a page.
async fn cursor(world: &HttpWorld, list: &str, query: &str) -> String {
    let page = world.server("GET", &format!("{list}?limit=1{query}"), &[], "").await;
    assert_eq!(page.json()["has_more"], true, "{page:?}");
    text(&page.json()["next_cursor"])
}

#[tokio::test]
async fn pages_give_every_record_once_whatever_their_size() {
    let world = HttpWorld::new().await;
    for nth in 0..7 {
        plan(&world, &format!("p{nth}"), &json!({ "tier": nth / 3 })).await;
    }

    for sort in ["", "&sort=-price", "&sort=name", "&sort=-created_at"] {
        for limit in 1..=8 {
            let mut found = BTreeSet::new();
            let (mut seen, mut more) = (0, String::new());
            loop {
                let path = format!("{PLANS}?limit={limit}{sort}{more}");
                let page = world.server("GET", &path, &[], "").await.json();
                let data = page["data"].as_array().unwrap();
                assert!(data.len() <= limit);
                seen += data.len();
                found.extend(data.iter().map(|plan| text(&plan["slug"])));
                assert_eq!(page["has_more"], page["next_cursor"].is_string());
                let Some(next) = page["next_cursor"].as_str() else { break };
                more = format!("&cursor={next}");
            }
            assert_eq!((seen, found.len()), (7, 7), "{sort} {limit}");
        }
    }
}

#[tokio::test]
async fn a_cursor_is_for_one_list_one_client_and_its_filters() {
    let world = HttpWorld::new().await;
    three_plans(&world).await;
    world.subscription("ann", &json!({})).await;
    world.subscription("ben", &json!({})).await;
    let other = world.client("other", ClientKind::Confidential, |_| true).await;
    let cursor = cursor(&world, PLANS, "&is_active=true").await;
    let path = |list: &str, query: &str| format!("{list}?{query}&cursor={cursor}");

    let fits = world.server("GET", &path(PLANS, "limit=9&is_active=true"), &[], "").await;
    assert_eq!(fits.status, 200, "{fits:?}");

    for (list, query) in [
        (PLANS, ""),
        (PLANS, "is_active=false"),
        (PLANS, "is_active=true&tier=1"),
        (PLANS, "is_active=true&sort=-tier"),
        (SUBSCRIPTIONS, "is_active=true"),
    ] {
        let refused = world.server("GET", &path(list, query), &[], "").await;
        assert_eq!(refused.problem(), problem(400, "invalid_cursor"), "{list} {query}");
    }
    for client in [WEB, &other] {
        let headers = [("client-id", client)];
        let refused = world.call("GET", &path(PLANS, "is_active=true"), &headers, "").await;
        assert_eq!(refused.problem(), problem(400, "invalid_cursor"), "{client}");
    }
}

#[tokio::test]
async fn a_cursor_with_any_other_byte_is_refused() {
    let world = HttpWorld::new().await;
    three_plans(&world).await;
    world.subscription("ann", &json!({})).await;
    world.subscription("ben", &json!({})).await;

    for list in [PLANS, SUBSCRIPTIONS] {
        let genuine = cursor(&world, list, "").await;
        let mut forged = vec![String::new(), "x".into(), format!("{genuine}A"), "%2e%2e".into()];
        forged.push(format!("{genuine}="));
        for (at, byte) in genuine.char_indices() {
            for other in ['A', 'b', '9', '-', '_'].into_iter().filter(|other| *other != byte) {
                let mut text = genuine.clone();
                text.replace_range(at..=at, &other.to_string());
                forged.push(text);
            }
            forged.push(genuine[..at].to_owned());
        }
        for cursor in forged {
            let refused =
                world.server("GET", &format!("{list}?limit=1&cursor={cursor}"), &[], "").await;
            assert_eq!(refused.problem(), problem(400, "invalid_cursor"), "{cursor}");
        }
    }
}

//! `/subscription-plans/{slug}/checkout-link` and `/me/checkout-link`: where people pay.

use serde_json::{Value, json};
use subscription_core::CheckoutProvider;

use super::world::{Answer, HttpWorld, add, plan_body, problem, text};

const NOBODY: &str = "01940000-0000-7000-8000-000000000000";

async fn plan_at(world: &HttpWorld, slug: &str, href: &Value) -> Value {
    let mut plan = plan_body(slug);
    add(&mut plan, &json!({ "href": href }));
    world.made("/subscription-plans", &plan).await
}

async fn link(world: &HttpWorld, slug: &str, query: &str) -> Answer {
    let path = format!("/subscription-plans/{slug}/checkout-link{query}");
    world.server("GET", &path, &[], "").await
}

#[tokio::test]
async fn a_server_and_the_person_get_the_same_link() {
    let hosts = [("pay.shop.example", CheckoutProvider::Stripe)];
    let world = HttpWorld::new().await.paying_at(&hosts);
    let ann = world.sign_up("ann").await;
    for (nth, (href, expected)) in [
        (
            json!("https://s.lemonsqueezy.com/buy/abc?embed=1&checkout[custom][user_id]=x#top"),
            "\"https://s.lemonsqueezy.com/buy/abc?embed=1&checkout%5Bcustom%5D%5Buser_id%5D=U#top\"",
        ),
        (json!("https://buy.stripe.com/t_1"), "\"https://buy.stripe.com/t_1?client_reference_id=U\""),
        (json!("https://pay.shop.example/t"), "\"https://pay.shop.example/t?client_reference_id=U\""),
        (json!("https://shop.example/pay?"), "\"https://shop.example/pay?user_id=U\""),
        (Value::Null, "null"),
    ]
    .into_iter()
    .enumerate()
    {
        let slug = format!("plan-{nth}");
        let plan = plan_at(&world, &slug, &href).await;

        let link = link(&world, &slug, &format!("?user_id={}", ann.id)).await;
        let mine = format!("/me/checkout-link?plan={slug}");
        let mine = world.person("GET", &mine, &ann.bearer).await;

        let expected = format!(
            r#"{{"url":{},"user_id":"{}","plan":{{"id":"{}","slug":"{slug}","name":"Pro"}}}}"#,
            expected.replace("=U", &format!("={}", ann.id)),
            ann.id,
            text(&plan["id"]),
        );
        assert_eq!((link.status, link.text()), (200, &*expected));
        assert_eq!((mine.status, mine.body), (200, link.body));
        assert_eq!(mine.headers["cache-control"], "no-store");
    }
}

#[tokio::test]
async fn what_cannot_be_bought_or_nobody_can_buy_is_refused() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    plan_at(&world, "pro", &json!("https://shop.example")).await;
    plan_at(&world, "old", &Value::Null).await;
    world.server("PUT", "/subscription-plans/old", &[], r#"{"is_active":false}"#).await;
    let user = format!("?user_id={}", ann.id);

    for (slug, query, expected) in [
        ("none", &*user, problem(404, "not_found")),
        ("P", &*user, problem(404, "not_found")),
        ("old", &*user, problem(409, "plan_inactive")),
        ("pro", "", problem(400, "invalid_query")),
        ("pro", "?user_id=", problem(400, "invalid_query")),
        ("pro", "?user_id=42", problem(400, "invalid_query")),
        ("pro", &*format!("{user}&user_id={NOBODY}"), problem(400, "invalid_query")),
        ("pro", &*format!("{user}&plan=pro"), problem(400, "invalid_query")),
    ] {
        assert_eq!(link(&world, slug, query).await.problem(), expected, "{slug} {query}");
    }
    let missing = link(&world, "pro", "").await.json();
    assert_eq!(missing["parameter"], "user_id", "{missing}");
    for (query, expected) in [
        ("?plan=none", problem(404, "not_found")),
        ("?plan=old", problem(409, "plan_inactive")),
        ("", problem(400, "invalid_query")),
        ("?plan=", problem(400, "invalid_query")),
        ("?plan=Pro!", problem(400, "invalid_query")),
        ("?plan=pro&plan=old", problem(400, "invalid_query")),
        ("?plan=pro&user_id=1", problem(400, "invalid_query")),
    ] {
        let path = format!("/me/checkout-link{query}");
        let refused = world.person("GET", &path, &ann.bearer).await;
        assert_eq!(refused.problem(), expected, "{query}");
    }
}

#[tokio::test]
async fn a_user_must_have_an_account_where_users_are_accounts() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    plan_at(&world, "pro", &json!("https://shop.example")).await;
    let nobody = format!("?user_id={NOBODY}");

    assert_eq!(link(&world, "pro", &nobody).await.problem(), problem(404, "not_found"));
    let user = format!("?user_id={}", ann.id);
    assert_eq!(link(&world, "pro", &user).await.status, 200);
    world.auth.close(ann.id.parse().unwrap()).await;
    assert_eq!(link(&world, "pro", &user).await.problem(), problem(409, "account_closing"));
    let world = world.with_users_of_others();
    assert_eq!(link(&world, "pro", &nobody).await.status, 200);
}

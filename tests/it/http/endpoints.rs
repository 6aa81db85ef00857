//! Snapshots of the successful answer of every endpoint.

use std::time::Duration;

use serde_json::{Value, json};
use subscription_http::RateLimits;

use super::documented::operations;
use super::my_plan;
use super::plan_changes::Shop;
use super::rates::limited;
use super::snapshots::{Snapshots, exchange, name_of};
use super::world::{Answer, HttpWorld, Person, WEB, path_of, payment_body, plan_body, text};

/// The ends of the paths of billing.
const BILLING: [&str; 9] = [
    "/discount",
    "/cancel",
    "/resume",
    "/pause",
    "/scheduled-change",
    "/change-plan",
    "/preview",
    "/timeline",
    "/retry",
];

/// Answers of one endpoint, each with what it shows.
pub(super) type Shown = Vec<(&'static str, Answer)>;

const PLANS: &str = "/subscription-plans";
const PRO: &str = "/subscription-plans/pro";
const PLAN: &str = r#"{"name":"Pro","slug":"pro","price":19.90,"billing_cycle":"monthly","product_id":"prod_17","variants":["pro-eur","pro-usd"],"href":"https://example.com/plans/pro","description":"For teams.","node_quota":10,"features":"api, sso, audit log","most_popular":true,"tier":2}"#;
const KEY: [(&str, &str); 1] = [("idempotency-key", "order-1")];
const KNOWN: [(&str, &str); 1] = [("if-none-match", "\"1\"")];
const UNCHANGED: [(&str, &str); 1] = [("if-match", "\"1\"")];

#[tokio::test]
async fn every_endpoint_answers_as_its_snapshot_has_it() {
    let mut snapshots = Snapshots::of("endpoints");
    for (method, pattern, _) in operations() {
        let route = format!("{method} {pattern}");
        let answers = answers_of(&route).await;
        let answers = answers.unwrap_or_else(|| panic!("no case for {route}"));

        let told = answers.iter().map(|(shows, answer)| {
            assert!(answer.status < 400, "{route}: {shows}: {answer:?}");
            exchange(shows, answer)
        });
        let told = told.collect::<Vec<_>>().join("\n\n");
        snapshots.check(&name_of(&method, pattern), &told);
    }
    snapshots.all_hold();
}

/// Answers of a route; `None` if there is no case for it.
async fn answers_of(route: &str) -> Option<Shown> {
    let world = HttpWorld::new().await;
    let (_, path) = route.split_once(' ')?;
    match path.split('/').nth(1)? {
        _ if path.ends_with("/checkout-link") => about_access(&world, route).await,
        "users" if path.ends_with("/payments") => about_subscriptions(&world, route).await,
        "due-payments" => about_billing(&world, route).await,
        "subscriptions" | "subscription-payments"
            if BILLING.iter().any(|end| path.ends_with(end)) =>
        {
            about_billing(&world, route).await
        }
        "authentication" => about_people(&world, route).await,
        "subscription-plans" => about_plans(&world, route).await,
        "subscriptions" => about_subscriptions(&world, route).await,
        "subscription-payments" => about_payments(&world, route).await,
        "users" if !path.ends_with("entitlement") => about_users(&world, route).await,
        "users" | "me" => about_access(&world, route).await,
        "events" => Some(about_events(&world).await),
        first if first.starts_with("provider") => {
            Some(super::providers::shown(&world, route).await)
        }
        "webhook-endpoints" => super::webhooks::shown(&world, route).await,
        "stats" => Some(super::stats::shown(&world, route).await),
        "clock" => Some(about_the_clock(&world, route).await),
        _ => about_the_service(&world, route).await,
    }
}

async fn about_the_clock(world: &HttpWorld, route: &str) -> Shown {
    if route == "GET /clock" {
        return vec![(
            "The time that the clock shows.",
            world.call("GET", "/clock", &[], "").await,
        )];
    }
    let advance = |body: &'static str| world.call("POST", "/clock/advance", &[], body);
    vec![
        ("To a moment.", advance(r#"{"to":"2025-02-01T00:00:00Z"}"#).await),
        ("By a month.", advance(r#"{"by":"P1M","payments":"succeed"}"#).await),
    ]
}

async fn about_people(world: &HttpWorld, route: &str) -> Option<Shown> {
    let (method, path) = route.split_once(' ')?;
    if path.ends_with("sign-up") {
        return Some(vec![(
            "A new account with its first session.",
            enter(world, path, "ann").await,
        )]);
    }
    let ann = world.sign_up("ann").await;
    let call = |path: &str| {
        let path = path.replace("{auth_id}", &ann.id);
        let headers = [("client-id", WEB), ("authorization", &*ann.bearer)];
        async move { world.call(method, &path, &headers, "").await }
    };
    Some(match path.strip_prefix("/authentication/")? {
        "sign-in" => signed_in(world, path).await,
        "refresh-token" => refreshed(world, path, &ann).await,
        "user-logged-in" => vec![("Whose token this is.", call(path).await)],
        "delete-my-account/{auth_id}" => vec![("The account is gone.", call(path).await)],
        "tokens" => {
            world.auth.clock.advance(Duration::from_mins(5));
            enter(world, "/authentication/sign-in", "ann").await;
            vec![("The live sessions, newest first.", call(path).await)]
        }
        "tokens/logout" => {
            let out = call(path).await;
            vec![("The session has ended.", out), ("It had ended before.", call(path).await)]
        }
        "tokens/revoke-all" | "tokens/revoke-all-except-current" => {
            world.sign_in("ann").await;
            vec![("How many sessions have ended, of two.", call(path).await)]
        }
        _ => return None,
    })
}

/// Somebody's own sign-in or sign-up, with a browser and through a proxy.
async fn enter(world: &HttpWorld, path: &str, name: &str) -> Answer {
    let headers =
        [("client-id", WEB), ("user-agent", "Firefox/140.0"), ("x-forwarded-for", "203.0.113.7")];
    world.call("POST", path, &headers, world.proof(name, |_| {})).await
}

async fn signed_in(world: &HttpWorld, path: &str) -> Shown {
    let limited = limited(&RateLimits::production()).await;
    limited.sign_up("ann").await;
    vec![
        ("One more session.", enter(world, path, "ann").await),
        ("The same where sign-ins are limited.", enter(&limited, path, "ann").await),
    ]
}

async fn refreshed(world: &HttpWorld, path: &str, ann: &Person) -> Shown {
    world.auth.clock.advance(Duration::from_mins(10));
    let body = json!({ "refresh_token": ann.refresh_token }).to_string();
    let fresh = world.call("POST", path, &[("client-id", WEB)], body.clone()).await;
    let again = world.call("POST", path, &[("client-id", WEB)], body).await;
    vec![
        ("New tokens for the same session.", fresh),
        ("The same request again, its answer having been lost: the same refresh token.", again),
    ]
}

async fn about_plans(world: &HttpWorld, route: &str) -> Option<Shown> {
    if route == "POST /subscription-plans" {
        let least = plan_body("least").to_string();
        return Some(created(world, PLANS, &least, PLAN).await);
    }
    world.server("POST", PLANS, &[], PLAN).await;
    Some(match route {
        "GET /subscription-plans" => {
            world.plan("basic").await;
            listed(world, &format!("{PLANS}?is_active=true&sort=-tier&limit=1")).await
        }
        "GET /subscription-plans/{slug}" => read(world, PRO).await,
        "PUT /subscription-plans/{slug}" => {
            let body = r#"{"price":24.90,"most_popular":false}"#;
            changed(world, PRO, body).await
        }
        "DELETE /subscription-plans/{slug}" => deleted(world, PRO).await,
        _ => return None,
    })
}

async fn about_subscriptions(world: &HttpWorld, route: &str) -> Option<Shown> {
    if route == "POST /subscriptions" {
        let (user, plan) = (world.sign_up("ann").await.id, world.plan("pro").await);
        let least = json!({ "user_id": user, "subscription_plan_id": plan["id"] }).to_string();
        let all = format!(
            r#"{},"external_subscription_id":"sub_1","billing_cycle":"yearly","status":"on_trial","is_active":true,"renews_at":"2025-02-14T12:00:00.000000Z","starts_at":"2025-01-30T12:00:00.5+01:00","ends_at":null}}"#,
            least.trim_end_matches('}')
        );
        return Some(created(world, "/subscriptions", &least, &all).await);
    }
    let made = world.subscription("ann", &json!({})).await;
    let path = format!("/subscriptions/{}", text(&made["id"]));
    Some(match route {
        "GET /subscriptions" => {
            world.subscription("ben", &json!({ "status": "paused" })).await;
            listed(world, "/subscriptions?status=active&status=paused&limit=1").await
        }
        "GET /subscriptions/{id}" => read(world, &path).await,
        "GET /subscriptions/{id}/payments" => {
            for _ in 0..2 {
                world.auth.clock.advance(Duration::from_mins(5));
                world.made("/subscription-payments", &payment_body(&made)).await;
            }
            listed(world, &format!("{path}/payments?limit=1")).await
        }
        "GET /users/{user_id}/payments" => {
            for _ in 0..2 {
                world.auth.clock.advance(Duration::from_mins(5));
                world.made("/subscription-payments", &payment_body(&made)).await;
            }
            listed(world, &format!("/users/{}/payments?limit=1", text(&made["user_id"]))).await
        }
        "PUT /subscriptions/{id}" => changed(world, &path, r#"{"status":"cancelled"}"#).await,
        "DELETE /subscriptions/{id}" => deleted(world, &path).await,
        _ => return None,
    })
}

async fn about_payments(world: &HttpWorld, route: &str) -> Option<Shown> {
    if route == "POST /subscription-payments" {
        let subscription = world.subscription("ann", &json!({})).await;
        let least = payment_body(&subscription).to_string();
        let all = format!(
            r#"{},"external_payment_id":"pay_1","status":"succeeded"}}"#,
            least.trim_end_matches('}')
        );
        return Some(created(world, "/subscription-payments", &least, &all).await);
    }
    let made = world.payment("ann", &json!({})).await;
    let path = format!("/subscription-payments/{}", text(&made["id"]));
    Some(match route {
        "GET /subscription-payments/{payment_id}" => read(world, &path).await,
        "PUT /subscription-payments/{payment_id}" => {
            changed(world, &path, r#"{"status":"succeeded","external_payment_id":"pay_1"}"#).await
        }
        "DELETE /subscription-payments/{payment_id}" => deleted(world, &path).await,
        _ => return None,
    })
}

async fn about_plan_changes(route: &str) -> Shown {
    let shop = Shop::new().await;
    let (upgrade, end) = (shop.to_pro(&json!({})).to_string(), route.rsplit("{id}/").next());
    let post =
        async |headers: &[(&str, &str)], body: &str| shop.post(end.unwrap(), headers, body).await;
    let later = r#"{"quantity":3,"billing_cycle":"yearly","effective":"period_end"}"#;
    if route.ends_with("/preview") {
        return vec![
            ("An upgrade at once.", post(&[], &upgrade).await),
            ("More seats and another cycle, when the period ends.", post(&[], later).await),
        ];
    }
    let agreed = json!({ "at": "2026-04-11T00:00:00Z", "amount_due": "13.33" });
    let agreed = shop.to_pro(&agreed).to_string();
    let (first, again) = (post(&KEY, &agreed).await, post(&KEY, &agreed).await);
    vec![
        ("An upgrade for the amount of its preview.", first),
        ("The same request again.", again),
        ("It is scheduled for the end of the period.", post(&[], later).await),
    ]
}

async fn about_discounts(world: &HttpWorld, route: &str, path: &str) -> Shown {
    let give =
        async |headers: &[(&str, &str)], body| world.server("POST", path, headers, body).await;
    if route.starts_with("DELETE") {
        give(&[], r#"{"amount":5,"periods":null}"#).await;
        return vec![("It is removed.", world.server("DELETE", path, &[], "").await)];
    }
    let half = r#"{"percent":50,"periods":3}"#;
    vec![
        ("Half the price for three periods.", give(&KEY, half).await),
        ("The same request again.", give(&KEY, half).await),
    ]
}

async fn about_billing(world: &HttpWorld, route: &str) -> Option<Shown> {
    if route.contains("/change-plan") {
        return Some(about_plan_changes(route).await);
    }
    let held = world.on_clock("ann", &json!({})).await;
    let path = path_of(&held);
    if route.ends_with("/discount") {
        return Some(about_discounts(world, route, &format!("{path}/discount")).await);
    }
    let post = async |path: &str, headers: &[(&str, &str)], body: &str| {
        world.server("POST", path, headers, body).await
    };
    let (cancel, pause) = (format!("{path}/cancel"), format!("{path}/pause"));
    let resume = format!("{path}/resume");
    let now = r#"{"effective":"now"}"#;
    Some(match route {
        "POST /subscriptions/{id}/cancel" => vec![
            ("It ends with its period.", post(&cancel, &UNCHANGED, "").await),
            ("It ends at once.", post(&cancel, &KEY, now).await),
            ("The same request again.", post(&cancel, &KEY, now).await),
        ],
        "POST /subscriptions/{id}/resume" => {
            post(&cancel, &[], "").await;
            vec![
                ("The cancellation is undone.", post(&resume, &[], "").await),
                ("Again: nothing changes.", post(&resume, &[], "{}").await),
            ]
        }
        "POST /subscriptions/{id}/pause" => {
            let until = r#"{"resumes_at":"2025-04-01T00:00:00Z"}"#;
            vec![
                ("It pauses when its period ends.", post(&pause, &[], until).await),
                ("It pauses at once.", post(&pause, &[], now).await),
            ]
        }
        "DELETE /subscriptions/{id}/scheduled-change" => {
            post(&pause, &[], "").await;
            let path = format!("{path}/scheduled-change");
            vec![("The pause is dropped.", world.server("DELETE", &path, &[], "").await)]
        }
        "GET /subscriptions/{id}/timeline" => {
            let path = format!("{path}/timeline");
            let query = "?after=2025-02-26T00:00:00Z&until=2025-04-30T00:00:00Z&limit=2";
            let part = world.server("GET", &format!("{path}{query}"), &[], "").await;
            let pause_until = r#"{"resumes_at":"2025-04-01T00:00:00Z"}"#;
            post(&pause, &[], pause_until).await;
            let short = format!("{path}?until=2025-04-15T00:00:00Z");
            vec![
                ("Steps of some time, and more to come.", part),
                ("A pause and its end.", world.server("GET", &short, &[], "").await),
            ]
        }
        "GET /due-payments" => {
            world.auth.clock.advance(Duration::from_mins(5));
            world.on_clock("ben", &json!({})).await;
            listed(world, "/due-payments?before=2025-02-01T00:00:00Z&limit=1").await
        }
        "POST /subscription-payments/{payment_id}/retry" => {
            let failed = world.report(&held, "failed").await;
            world.auth.clock.advance(Duration::from_mins(5));
            let path = format!("/subscription-payments/{}/retry", text(&failed["id"]));
            vec![
                ("It is asked for again.", post(&path, &KEY, "").await),
                ("The same request again.", post(&path, &KEY, "").await),
            ]
        }
        _ => return None,
    })
}

async fn about_my_plan() -> Shown {
    let shop = my_plan::Shop::new().await;
    let agreed = shop.agreed(&shop.pro).await;
    vec![
        ("It is changed when its payment succeeds.", shop.send(&KEY, &agreed).await),
        ("The same request again.", shop.send(&KEY, &agreed).await),
    ]
}

async fn about_access(world: &HttpWorld, route: &str) -> Option<Shown> {
    if route == "POST /me/subscriptions/{id}/change-plan" {
        return Some(about_my_plan().await);
    }
    world.server("POST", PLANS, &[], PLAN).await;
    let (ann, plan) = (world.sign_up("ann").await, world.server("GET", PRO, &[], "").await);
    let body = json!({ "user_id": ann.id, "subscription_plan_id": plan.json()["id"] });
    let made = world.made("/subscriptions", &body).await;
    let (method, path) = route.split_once(' ')?;
    let mine = |path: String| {
        let path = path.replace("{id}", made["id"].as_str().unwrap());
        let headers = [("client-id", WEB), ("authorization", &*ann.bearer)];
        async move { world.call(method, &path, &headers, "").await }
    };
    Some(match route {
        "GET /subscription-plans/{slug}/checkout-link" => {
            let path = format!("{PRO}/checkout-link?user_id={}", ann.id);
            vec![("Where a user pays.", world.server("GET", &path, &[], "").await)]
        }
        "GET /me/checkout-link" => {
            world.plan("basic").await;
            let (pro, basic) = (format!("{path}?plan=pro"), format!("{path}?plan=basic"));
            vec![
                ("Where the caller pays.", mine(pro).await),
                ("The plan has no link.", mine(basic).await),
            ]
        }
        "GET /me/entitlement" => {
            let asked = format!("{path}?feature=sso");
            vec![
                ("What the caller has.", mine(path.to_owned()).await),
                ("And whether that has a feature.", mine(asked).await),
            ]
        }
        "GET /me/subscriptions" => {
            vec![("The caller's subscriptions.", mine(format!("{path}?status=active")).await)]
        }
        "GET /me/payments" => {
            world.made("/subscription-payments", &payment_body(&made)).await;
            vec![("The caller's payments.", mine(path.to_owned()).await)]
        }
        "POST /me/subscriptions/{id}/cancel" => vec![
            ("It ends with its period.", mine(path.to_owned()).await),
            ("Again: nothing changes.", mine(path.to_owned()).await),
        ],
        "POST /me/subscriptions/{id}/resume" => {
            mine(path.replace("resume", "cancel")).await;
            vec![("The cancellation is undone.", mine(path.to_owned()).await)]
        }
        "GET /users/{user_id}/entitlement" => {
            let path = format!("/users/{}/entitlement", ann.id);
            let asked = format!("{path}?feature=audit%20log");
            let nobody = "/users/01940000-0000-7000-8000-000000000000/entitlement";
            vec![
                ("What a user has.", world.server("GET", &path, &[], "").await),
                ("And whether that has a feature.", world.server("GET", &asked, &[], "").await),
                ("A user who is unknown has nothing.", world.server("GET", nobody, &[], "").await),
            ]
        }
        _ => return None,
    })
}

async fn about_events(world: &HttpWorld) -> Shown {
    let plan = world.server("POST", PLANS, &[], PLAN).await.json();
    world.server("PUT", PRO, &[], r#"{"tier":3}"#).await;
    let ann = world.sign_up("ann").await;
    let body = json!({ "user_id": ann.id, "subscription_plan_id": plan["id"] });
    let subscription = world.made("/subscriptions", &body).await;
    let path = format!("/subscriptions/{}", text(&subscription["id"]));
    world.server("PUT", &path, &[], r#"{"status":"cancelled"}"#).await;
    let get = async |query: &str| world.server("GET", &format!("/events{query}"), &[], "").await;
    let history = format!("?subject_id={}", text(&plan["id"]));
    vec![
        ("The oldest events.", get("?limit=4").await),
        ("Those of one record.", get(&history).await),
        ("Those of one type.", get("?type=subscription.status_changed.cancelled&limit=1").await),
        ("None of this type up to the end.", get("?after=5&type=payment.*&wait=0").await),
    ]
}

async fn about_users(world: &HttpWorld, route: &str) -> Option<Shown> {
    let (method, path) = route.split_once(' ')?;
    for name in ["ann", "ben"] {
        enter(world, "/authentication/sign-up", name).await;
        world.auth.clock.advance(Duration::from_mins(5));
    }
    let ben = text(&enter(world, "/authentication/sign-in", "ben").await.json()["auth_id"]);
    let path = path.replace("{user_id}", &ben);
    let get = async |query: &str| world.server(method, &format!("{path}{query}"), &[], "").await;
    Some(match route {
        "GET /users" => {
            let mut pages = listed(world, "/users?limit=1").await;
            pages.push(("The user with an address.", get("?email=ANN%40example.com").await));
            let some = "?email_starts_with=ann&limit=10";
            pages.push(("The users whose address begins so.", get(some).await));
            pages.push(("The users with these ids.", get(&format!("?id={ben}&id={ben}")).await));
            pages
        }
        "GET /users/{user_id}" => {
            let mut answers = read(world, &path).await;
            let known = [("if-none-match", "\"2\"")];
            answers[1] = ("It has not changed.", world.server(method, &path, &known, "").await);
            answers
        }
        "GET /users/{user_id}/sessions" => {
            vec![("The live sessions, newest first.", get("").await)]
        }
        "POST /users/{user_id}/portal-links" => {
            vec![("A link that is valid for half an hour.", get("").await)]
        }
        "POST /users/{user_id}/revoke-sessions" => {
            let first = get("").await;
            vec![("How many sessions have ended.", first), ("Again: none.", get("").await)]
        }
        _ => return None,
    })
}

async fn about_the_service(world: &HttpWorld, route: &str) -> Option<Shown> {
    let (method, path) = route.split_once(' ')?;
    let shows = match path {
        "/health/live" => "The process answers.",
        "/health/ready" => "The store takes writes.",
        "/.well-known/jwks.json" => "The keys that access tokens are checked with.",
        "/metrics" => {
            let limited = limited(&RateLimits::production()).await;
            return Some(vec![("What was counted and timed.", metrics(&limited).await)]);
        }
        "/openapi.json" => "The description of all this.",
        "/docs" => "The same for people.",
        _ => return None,
    };
    let first = world.call(method, path, &[], "").await;
    let tag = first.header("etag").map(str::to_owned);
    let mut answers = vec![(shows, first)];
    if let Some(tag) = tag {
        let again = world.call(method, path, &[("if-none-match", &tag)], "").await;
        answers.push(("It has not changed.", again));
    }
    Some(answers)
}

/// The metrics after a list was read, and one sign-in too many refused.
async fn metrics(world: &HttpWorld) -> Answer {
    world.server("GET", PLANS, &[], "").await;
    for _ in 0..=30 {
        world.call("POST", "/authentication/sign-in", &[("client-id", WEB)], "{}").await;
    }
    world.call("GET", "/metrics", &[], "").await
}

async fn created(world: &HttpWorld, path: &str, least: &str, all: &str) -> Shown {
    vec![
        ("All that it has.", world.server("POST", path, &KEY, all).await),
        ("The same request again: the same answer.", world.server("POST", path, &KEY, all).await),
        ("The least that it takes.", world.server("POST", path, &[], least).await),
    ]
}

async fn read(world: &HttpWorld, path: &str) -> Shown {
    vec![
        ("The record.", world.server("GET", path, &[], "").await),
        ("It has not changed.", world.server("GET", path, &KNOWN, "").await),
        ("The head of it alone.", world.server("HEAD", path, &[], "").await),
        ("What else the path takes.", world.server("OPTIONS", path, &[], "").await),
    ]
}

async fn changed(world: &HttpWorld, path: &str, body: &str) -> Shown {
    world.auth.clock.advance(Duration::from_mins(5));
    vec![
        ("Only what is sent changes.", world.server("PUT", path, &UNCHANGED, body).await),
        ("Nothing is sent, nothing changes.", world.server("PUT", path, &[], "{}").await),
    ]
}

async fn deleted(world: &HttpWorld, path: &str) -> Shown {
    vec![("The record is gone.", world.server("DELETE", path, &UNCHANGED, "").await)]
}

pub(super) async fn listed(world: &HttpWorld, path: &str) -> Shown {
    let first = world.server("GET", path, &[], "").await;
    let next: Value = first.json()["next_cursor"].clone();
    let last = world.server("GET", &format!("{path}&cursor={}", text(&next)), &[], "").await;
    vec![("A page, and more to come.", first), ("The last page.", last)]
}

//! Pages of other origins: what their browsers are told that they may send and read.

use std::time::Duration;

use subscription_core::auth::ClientKind;
use test_support::service_world::of;

use super::failing_store::{DAMAGED, HANGS, UNAVAILABLE, failing_store};
use super::world::{Answer, HttpWorld, WEB, problem, text};

const SHOP: &str = "https://shop.example";
const BLOG: &str = "https://blog.example";
const SIGN_IN: &str = "/authentication/sign-in";
const PLANS: &str = "/subscription-plans";

/// Two public clients, each for the pages of one origin, beside the one that has none.
async fn world() -> HttpWorld {
    let world = HttpWorld::new().await;
    world.pages("shop", &[SHOP, "http://localhost:5173"]).await;
    world.pages("blog", &[BLOG]).await;
    world
}

async fn preflight(world: &HttpWorld, path: &str, origin: &str) -> Answer {
    let headers = [
        ("origin", origin),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "client-id,content-type"),
    ];
    world.call("OPTIONS", path, &headers, "").await
}

async fn ask(world: &HttpWorld, path: &str, client: &str, origin: &str) -> Answer {
    world.call("GET", path, &[("client-id", client), ("origin", origin)], "").await
}

/// The origin whose pages may read an answer.
fn granted(answer: &Answer) -> Option<&str> {
    assert_eq!(answer.header("vary"), Some("Origin"), "{answer:?}");
    assert_eq!(answer.header("access-control-allow-credentials"), None, "{answer:?}");
    answer.header("access-control-allow-origin")
}

#[tokio::test]
async fn a_preflight_is_granted_to_the_origins_of_every_live_public_client() {
    let world = world().await;

    for origin in [SHOP, BLOG, "http://localhost:5173"] {
        let answer = preflight(&world, SIGN_IN, origin).await;

        assert_eq!((answer.status, granted(&answer)), (204, Some(origin)));
        assert_eq!(answer.header("access-control-allow-methods"), Some("POST, OPTIONS"));
        let headers =
            "client-id, authorization, content-type, idempotency-key, if-match, if-none-match";
        assert_eq!(answer.header("access-control-allow-headers"), Some(headers));
        assert_eq!(answer.header("access-control-max-age"), Some("600"));
        assert_eq!(answer.header("allow"), Some("POST, OPTIONS"));
    }
    let variable = preflight(&world, "/subscription-plans/pro", SHOP).await;
    let methods = Some("GET, HEAD, PUT, DELETE, OPTIONS");
    assert_eq!(variable.header("access-control-allow-methods"), methods);
}

#[tokio::test]
async fn origins_that_are_not_listed_are_granted_nothing() {
    let world = world().await;

    for origin in [
        "https://evil.example",
        "https://shop.example.evil.example",
        "https://evilshop.example",
        "https://shop.example:8443",
        "https://sub.shop.example",
        "http://shop.example",
        "https://SHOP.example",
        "https://shop.example/",
        "https://shop.example,https://evil.example",
        "http://localhost:5174",
        "http://localhost",
        "null",
        "*",
        "",
        "\u{fc}",
    ] {
        for answer in [
            preflight(&world, SIGN_IN, origin).await,
            ask(&world, PLANS, "shop", origin).await,
            ask(&world, PLANS, WEB, origin).await,
            ask(&world, PLANS, "nobody", origin).await,
        ] {
            assert_eq!(granted(&answer), None, "{origin:?}");
            for name in ["allow-methods", "allow-headers", "max-age", "expose-headers"] {
                assert_eq!(answer.header(&format!("access-control-{name}")), None, "{origin:?}");
            }
        }
    }
}

#[tokio::test]
async fn an_answer_is_granted_by_the_origins_of_its_own_client_alone() {
    let world = world().await;
    world.plan("pro").await;

    let own = ask(&world, "/subscription-plans/pro", "shop", SHOP).await;
    assert_eq!((own.status, granted(&own)), (200, Some(SHOP)));
    let exposed = "etag, location, retry-after, ratelimit, ratelimit-policy, x-request-id, \
                   idempotency-replayed";
    assert_eq!(own.header("access-control-expose-headers"), Some(exposed));
    let tag = [("client-id", "shop"), ("origin", SHOP), ("if-none-match", "\"1\"")];
    let same = world.call("GET", "/subscription-plans/pro", &tag, "").await;
    assert_eq!((same.status, granted(&same)), (304, Some(SHOP)));

    for client in ["blog", WEB, &world.server] {
        let other = ask(&world, PLANS, client, SHOP).await;
        assert_eq!((other.status, granted(&other)), (200, None), "{client}");
    }
}

#[tokio::test]
async fn a_page_can_read_why_it_was_refused() {
    let world = world().await;

    for (path, client, status, code) in [
        (PLANS, "", 401, "client_id_missing"),
        (PLANS, "nobody", 401, "client_unknown"),
        ("/subscriptions", "shop", 403, "scope_missing"),
        ("/authentication/tokens", "shop", 401, "token_missing"),
        ("/subscription-plans/none", "shop", 404, "not_found"),
        ("/nowhere", "shop", 404, "route_not_found"),
        (SIGN_IN, "shop", 405, "method_not_allowed"),
        ("/subscription-plans?x=1", "shop", 400, "invalid_query"),
        ("/%2e%2e", "shop", 400, "path_invalid"),
    ] {
        let refused = ask(&world, path, client, SHOP).await;

        assert_eq!(refused.problem(), problem(status, code), "{path}");
        assert_eq!(granted(&refused), Some(SHOP), "{path}");
    }
    let scope = ask(&world, "/subscriptions", "blog", SHOP).await;
    assert_eq!((scope.status, granted(&scope)), (403, None), "the client is known");
    let keys = ask(&world, "/.well-known/jwks.json", "", SHOP).await;
    assert_eq!((keys.status, granted(&keys)), (200, Some(SHOP)));
    let metrics = ask(&world, "/metrics", "", SHOP).await;
    assert_eq!((metrics.status, metrics.header("access-control-allow-origin")), (200, None));
}

#[tokio::test]
async fn a_client_that_was_revoked_or_left_the_file_grants_no_preflight() {
    let world = world().await;
    world.auth.auth.revoke_client(&of("shop")).await.unwrap();
    let moment = || world.auth.clock.advance(Duration::from_secs(1));

    assert_eq!(granted(&preflight(&world, SIGN_IN, SHOP).await), None);
    assert_eq!(granted(&preflight(&world, SIGN_IN, BLOG).await), Some(BLOG));

    world.auth.auth.restore_client(&of("shop")).await.unwrap();
    moment();
    assert_eq!(granted(&preflight(&world, SIGN_IN, SHOP).await), Some(SHOP));

    let file = of("file");
    let (kind, scopes) = (ClientKind::Public, [].into());
    let origins = [of("https://file.example")].into();
    let new =
        subscription_core::auth::NewClient { id: file, name: of("File"), kind, scopes, origins };
    world.auth.auth.configure_client(new).await.unwrap();
    moment();
    let listed = preflight(&world, SIGN_IN, "https://file.example").await;
    assert_eq!(granted(&listed), Some("https://file.example"));
    world.auth.auth.refuse_unconfigured(&[]).await.unwrap();
    moment();
    assert_eq!(granted(&preflight(&world, SIGN_IN, "https://file.example").await), None);
}

#[tokio::test]
async fn origins_are_known_while_the_store_is_away() {
    let (world, store) = failing_store().await;
    world.pages("shop", &[SHOP]).await;
    assert_eq!(granted(&preflight(&world, SIGN_IN, SHOP).await), Some(SHOP));

    for (mood, code) in
        [(UNAVAILABLE, "store_unavailable"), (DAMAGED, "internal"), (HANGS, "overloaded")]
    {
        store.spy.turn(mood);
        world.auth.clock.advance(Duration::from_mins(1));

        let refused = ask(&world, PLANS, "shop", SHOP).await;

        assert_eq!(text(&refused.json()["code"]), code);
        assert_eq!(granted(&refused), Some(SHOP), "{code}");
    }
}

#[tokio::test]
async fn in_development_pages_of_this_machine_may_call() {
    let world = HttpWorld::new().await.in_development();

    for origin in
        ["http://localhost:5173", "http://127.0.0.1:3000", "http://[::1]:1", "http://a.localhost"]
    {
        let asked = preflight(&world, SIGN_IN, origin).await;
        assert_eq!((asked.status, granted(&asked)), (204, Some(origin)));
        let answer = ask(&world, PLANS, "anybody", origin).await;
        assert_eq!((answer.status, granted(&answer)), (200, Some(origin)));
    }
    for origin in ["https://shop.example", "null", "http://localhost.evil.example", "file://"] {
        assert_eq!(granted(&preflight(&world, SIGN_IN, origin).await), None, "{origin}");
        assert_eq!(granted(&ask(&world, PLANS, "anybody", origin).await), None, "{origin}");
    }
}

#[tokio::test]
async fn without_an_origin_nothing_is_said_of_origins() {
    let world = world().await;
    for (method, path) in [("OPTIONS", PLANS), ("GET", PLANS), ("GET", "/nowhere")] {
        let answer = world.call(method, path, &[("client-id", "shop")], "").await;

        let told = answer.headers.keys().map(http::HeaderName::as_str);
        let told: Vec<_> = told.filter(|name| name.starts_with("access-control")).collect();
        assert_eq!(told, [""; 0], "{method} {path}");
        // A cache must not give this answer to a page.
        assert_eq!(answer.header("vary"), Some("Origin"), "{method} {path}");
    }
    let operators = HttpWorld { api: world.api.operations(), ..world };
    let live = ask(&operators, "/health/live", "", SHOP).await;
    assert_eq!(live.header("access-control-allow-origin"), None);
}

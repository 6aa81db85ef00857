//! The clock that callers can turn.

use serde_json::json;

use super::world::{Answer, HttpWorld, problem};

async fn advance(world: &HttpWorld, body: &str) -> Answer {
    world.call("POST", "/clock/advance", &[], body).await
}

/// The time after an advance on 31 January 2025.
async fn after(body: &str) -> String {
    let world = HttpWorld::new().await;
    let answer = advance(&world, body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let now = world.call("GET", "/clock", &[], "").await.json();
    assert_eq!(answer.json()["now"], now["now"]);
    now["now"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_clock_is_turned_to_a_moment_or_by_a_span() {
    let world = HttpWorld::new().await;
    let now = world.call("GET", "/clock", &[], "").await.json();
    assert_eq!(now, json!({ "now": "2025-01-31T00:00:00.000000Z" }));

    for (body, expected) in [
        (r#"{"to":"2025-01-31T00:00:00Z"}"#, "2025-01-31T00:00:00.000000Z"),
        (r#"{"to":"2026-01-01T01:00:00+01:00"}"#, "2026-01-01T00:00:00.000000Z"),
        (r#"{"by":"P1M"}"#, "2025-02-28T00:00:00.000000Z"),
        (r#"{"by":"P14D"}"#, "2025-02-14T00:00:00.000000Z"),
        (r#"{"by":"P2W"}"#, "2025-02-14T00:00:00.000000Z"),
        (r#"{"by":"P1Y"}"#, "2026-01-31T00:00:00.000000Z"),
        (r#"{"by":"PT1H"}"#, "2025-01-31T01:00:00.000000Z"),
        (r#"{"by":"PT90M"}"#, "2025-01-31T01:30:00.000000Z"),
        (r#"{"by":"PT1S"}"#, "2025-01-31T00:00:01.000000Z"),
    ] {
        assert_eq!(after(body).await, expected, "{body}");
    }
}

#[tokio::test]
async fn payments_are_left_unless_the_caller_says_otherwise() {
    let world = HttpWorld::new().await;

    for (payments, nth) in [
        ("", 0),
        (r#","payments":"leave""#, 0),
        (r#","payments":"succeed""#, 1),
        (r#","payments":"fail""#, 2),
    ] {
        let answer = advance(&world, &format!(r#"{{"by":"PT1S"{payments}}}"#)).await;
        assert_eq!(answer.json()["steps"], nth, "{payments}");
        assert_eq!(answer.json()["done"], true);
    }
}

#[tokio::test]
async fn an_advance_with_faults_is_refused_with_all_of_them_and_turns_nothing() {
    let world = HttpWorld::new().await;

    for (body, faults) in [
        ("{}", &["to required"][..]),
        (r#"{"payments":"succeed"}"#, &["to required"]),
        (r#"{"to":"2026-01-01T00:00:00Z","by":"P1M"}"#, &["by not_allowed_value"]),
        (r#"{"to":"2025-01-30T23:59:59.999999Z"}"#, &["to out_of_range"]),
        (r#"{"to":"tomorrow"}"#, &["to bad_format"]),
        (r#"{"to":null}"#, &["to null_not_allowed"]),
        (r#"{"by":1}"#, &["by wrong_type"]),
        (r#"{"by":"monthly"}"#, &["by bad_format"]),
        (r#"{"by":"P"}"#, &["by bad_format"]),
        (r#"{"by":"P1DT1H"}"#, &["by bad_format"]),
        (r#"{"by":"PT"}"#, &["by bad_format"]),
        (r#"{"by":"PT0H"}"#, &["by bad_format"]),
        (r#"{"by":"PT+1H"}"#, &["by bad_format"]),
        (r#"{"by":"-P1D"}"#, &["by bad_format"]),
        (r#"{"by":"P0D"}"#, &["by out_of_range"]),
        (r#"{"by":"P101Y"}"#, &["by out_of_range"]),
        (
            r#"{"to":"2020-01-01T00:00:00Z","by":"x","payments":"both","speed":2}"#,
            &[
                "by bad_format",
                "payments not_allowed_value",
                "by not_allowed_value",
                "to out_of_range",
                "speed unknown_field",
            ],
        ),
    ] {
        assert_eq!(advance(&world, body).await.faults(), faults, "{body}");
    }
    assert_eq!(advance(&world, "[]").await.faults(), [" wrong_type"]);
    assert_eq!(advance(&world, "{").await.problem(), problem(400, "malformed_json"));
    let now = world.call("GET", "/clock", &[], "").await.json();
    assert_eq!(now["now"], "2025-01-31T00:00:00.000000Z");
    advance(&world, r#"{"to":"9999-12-01T00:00:00Z"}"#).await;
    assert_eq!(advance(&world, r#"{"by":"P1M"}"#).await.faults(), ["by out_of_range"]);
    assert_eq!(advance(&world, r#"{"by":"PT9999H"}"#).await.faults(), ["by out_of_range"]);
}

#[tokio::test]
async fn sessions_live_by_the_clock() {
    let world = HttpWorld::new().await;
    let ann = world.sign_up("ann").await;
    let tokens = "/authentication/tokens";
    assert_eq!(world.person("GET", tokens, &ann.bearer).await.status, 200);

    advance(&world, r#"{"by":"PT11M"}"#).await;

    let refused = world.person("GET", tokens, &ann.bearer).await;
    assert_eq!(refused.problem(), problem(401, "token_expired"));
}

#[tokio::test]
async fn without_a_clock_to_turn_there_are_no_routes() {
    let world = HttpWorld::new().await.in_development();

    for (method, path) in [("GET", "/clock"), ("POST", "/clock/advance"), ("OPTIONS", "/clock")] {
        let refused = world.call(method, path, &[], "").await;
        assert_eq!(refused.problem(), problem(404, "route_not_found"), "{method} {path}");
    }
    let document = world.call("GET", "/openapi.json", &[], "").await.json();
    assert!(document["paths"].get("/clock").is_none());
    let tags = document["tags"].as_array().unwrap();
    assert!(tags.iter().all(|tag| tag["name"] != "Clock"), "{tags:?}");
}

//! What caches may store: no response that needs a credential, however its path is spelled, and no error.

use super::matrix::{Needs, ROWS};
use super::sample_records::SampleRecords;
use super::world::{Answer, HttpWorld, WEB};

/// The routes whose responses caches may store, if they ask again before each use. So may the files of the console.
const STORED: [&str; 3] = ["GET /.well-known/jwks.json", "GET /openapi.json", "GET /docs"];

/// The same path as it may also be written: with its first letter encoded, its last one, or all of them.
fn spellings(path: &str) -> [String; 4] {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    let encode = |is_encoded: &dyn Fn(usize) -> bool| {
        let written = path.char_indices().map(|(at, letter)| match letter {
            'a'..='z' if is_encoded(at) => format!("%{:02x}", u32::from(letter)),
            _ => letter.to_string(),
        });
        written.collect::<String>() + &query
    };
    let is_letter = |letter: char| letter.is_ascii_lowercase();
    let (first, last) = (path.find(is_letter), path.rfind(is_letter));
    [
        encode(&|_| false),
        encode(&|at| Some(at) == first),
        encode(&|at| Some(at) == last),
        encode(&|_| true),
    ]
}

fn policy(answer: &Answer) -> Option<&str> {
    assert_eq!(answer.header("vary"), Some("Origin"), "{answer:?}");
    answer.header("cache-control")
}

#[tokio::test]
async fn no_cache_stores_what_needs_a_credential_however_its_path_is_spelled() {
    for (route, needs, status) in ROWS {
        let (method, pattern) = route.split_once(' ').unwrap();
        let expected = if STORED.contains(route) { "no-cache" } else { "no-store" };
        let mut unchanged = None;
        for spelling in 0..4 {
            let samples = match unchanged.take() {
                Some(samples) => samples,
                None => SampleRecords::new().await,
            };
            let path = &spellings(&samples.path(pattern))[spelling];
            let is_persons = matches!(needs, Needs::Person(_) | Needs::PersonEvenExpired);
            let client = if is_persons { WEB } else { &samples.world.server };

            let answer =
                samples.call_at(route, path, Some(client), Some(&samples.ann.bearer)).await;
            let refused = samples.call_at(route, path, None, None).await;

            assert_eq!(
                (answer.status, policy(&answer)),
                (*status, Some(expected)),
                "{route} {path}"
            );
            if *needs != Needs::Nothing {
                assert_eq!((refused.status, policy(&refused)), (401, Some("no-store")), "{path}");
            }
            if method == "GET" {
                unchanged = Some(samples);
            }
        }
    }
}

#[tokio::test]
async fn no_cache_stores_an_error() {
    let world = HttpWorld::new().await;
    for (method, path, status) in [
        ("GET", "/", 404),
        ("GET", "/nowhere", 404),
        ("GET", "/docs/", 404),
        ("GET", "/console/nothing.js", 404),
        ("GET", "/openapi.json?x=1", 400),
        ("GET", "/%2e%2e", 400),
        ("POST", "/docs", 405),
        ("PATCH", "/subscriptions", 405),
        ("OPTIONS", "/docs", 204),
    ] {
        let answer = world.call(method, path, &[], "").await;

        assert_eq!((answer.status, policy(&answer)), (status, Some("no-store")), "{method} {path}");
    }
    let without_host = world.call("GET", "/docs", &[("host", "")], "").await;
    assert_eq!((without_host.status, policy(&without_host)), (400, Some("no-store")));
}

//! Faulty providers: redirects, endless bodies, time-outs and invalid responses.

use std::error::Error as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use subscription_core::auth::{ANSWER_BYTES_MAX, Fetch as _, OidcIdentities};
use subscription_http::{FetchSettings, HttpFetch};

use super::provider::{Provider, SHORT, Script, enter, keys, plain, token, world_of};
use crate::auth::provider::trust;
use crate::http::world::problem;

fn fetch() -> HttpFetch {
    HttpFetch::new(&FetchSettings::default()).unwrap()
}

/// Why a document is not fetched, in the words of our own.
async fn refusal(fetch: &HttpFetch, url: &url::Url) -> String {
    let failed = fetch.fetch(plain(url.clone())).await.unwrap_err();
    failed.source().unwrap().to_string()
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Provider::new(keys()).await;
    let provider = Provider::new(keys()).await;
    for status in [301, 302, 303, 307, 308] {
        let location = format!("location: {}\r\n", elsewhere.url("/keys"));
        provider.plays(Script::body(status, &location, ""));
        let why = refusal(&fetch(), &provider.url("/keys")).await;
        assert!(why.starts_with(&format!("the server returned {status}")), "{why}");
    }

    let world = provider.world(&FetchSettings::default()).await;
    let answer = enter(&world, "sign-in", &token("k1")).await;

    assert_eq!(answer.problem(), problem(503, "identity_provider_unavailable"));
    assert_eq!(elsewhere.asked(), [""; 0]);
}

#[tokio::test]
async fn an_answer_is_read_to_its_limit_and_no_further() {
    let chunk = || [b"10000\r\n".as_slice(), &vec![b' '; 0x10000], b"\r\n"].concat();
    let whole = vec![b' '; ANSWER_BYTES_MAX];
    let provider = Provider::new(Script::body(200, "", &whole)).await;
    let url = provider.url("/keys");
    assert_eq!(fetch().fetch(plain(url.clone())).await.unwrap(), whole);

    for script in [
        Script::body(200, "", [&whole[..], b" "].concat()),
        Script::Endless(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".into(), chunk()),
        Script::Endless(b"HTTP/1.1 200 OK\r\n\r\n".into(), vec![b' '; 0x10000]),
        Script::Endless(
            b"HTTP/1.1 200 OK\r\ncontent-length: 9999999999999\r\n\r\n".into(),
            vec![b' '; 0x10000],
        ),
    ] {
        let shown = format!("{script:?}").chars().take(80).collect::<String>();
        provider.plays(script);
        let why = refusal(&fetch(), &url).await;
        assert_eq!(why, "the response has more than 262144 bytes", "{shown}");
    }
}

#[tokio::test]
async fn a_provider_that_takes_its_time_is_not_waited_for() {
    let fetch = HttpFetch::new(&FetchSettings::default().with_timeout(SHORT)).unwrap();
    let provider = Provider::new(Script::Hold(Vec::new())).await;
    for begun in [
        "",
        "HTTP/1.1 200",
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"keys\":",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nabc",
    ] {
        provider.plays(Script::Hold(begun.into()));
        let since = Instant::now();
        let why = refusal(&fetch, &provider.url("/keys")).await;
        assert_eq!(why, "the server took too long", "{begun}");
        assert!(since.elapsed() < Duration::from_mins(1), "{begun}");
    }
}

#[tokio::test]
async fn what_is_no_key_set_lets_nobody_in() {
    let provider = Provider::new(keys()).await;
    for script in [
        Script::body(404, "", "{}"),
        Script::body(500, "", "{}"),
        Script::body(204, "", ""),
        Script::body(201, "", r#"{"keys":[]}"#),
        Script::body(200, "", "<html>please sign in to the wireless network</html>"),
        Script::body(200, "", "{}"),
        Script::body(200, "", ""),
        Script::body(200, "content-encoding: gzip\r\n", [0x1f, 0x8b, 8, 0]),
        Script::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"keys\":".into()),
        Script::Send(b"SSH-2.0-OpenSSH_9.9\r\n".into()),
        Script::Send(Vec::new()),
        Script::Send([0x15, 3, 1, 0, 2, 2, 70].into()),
    ] {
        let shown = format!("{script:?}");
        provider.plays(script);
        let world = provider.world(&FetchSettings::default()).await;
        let answer = enter(&world, "sign-in", &token("k1")).await;
        assert_eq!(answer.problem(), problem(503, "identity_provider_unavailable"), "{shown}");
        assert!(!answer.text().contains("127.0.0.1"), "{shown}: {answer:?}");
    }
}

/// Nothing but what was configured is ever asked, and that only where nobody listens in.
#[tokio::test]
async fn nothing_is_sent_in_the_clear_but_on_this_machine() {
    let refused =
        "the URL must be https, or http on this machine, without a user name or a password";
    let provider = Provider::new(keys()).await;
    let port = provider.address.port();
    for url in [
        "http://198.51.100.1/keys",
        "http://id.example.com/keys",
        "http://localhost.example.com/keys",
        "http://127.0.0.1.example.com/keys",
        "http://0.0.0.0/keys",
        "http://169.254.169.254/latest/meta-data",
        "http://[::ffff:169.254.169.254]/",
        "https://ada:secret@id.example.com/keys",
        &format!("http://ada@127.0.0.1:{port}/keys"),
        "ftp://id.example.com/keys",
        "file:///etc/passwd",
        "data:application/json,{}",
        "unix:/run/x.sock",
    ] {
        let why = refusal(&fetch(), &url.parse().unwrap()).await;
        assert_eq!(why, refused, "{url}");
    }
    assert_eq!(provider.asked(), [""; 0]);
    for url in [format!("http://localhost:{port}/keys"), format!("http://2130706433:{port}/keys")] {
        fetch().fetch(plain(url.parse().unwrap())).await.unwrap();
    }
    assert_eq!(provider.asked().len(), 2);

    let elsewhere = "http://id.example.com/keys".parse().unwrap();
    let identities = OidcIdentities::new(trust(), elsewhere, Arc::new(fetch()));
    let answer = enter(&world_of(Arc::new(identities)).await, "sign-in", &token("k1")).await;
    assert_eq!(answer.problem(), problem(503, "identity_provider_unavailable"));
}

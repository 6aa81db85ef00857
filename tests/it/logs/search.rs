//! A search of a log for known secrets in every encoding, and for text in the form of one.

use std::collections::HashSet;

use crate::auth::secrets::{Secrets, known};

/// The shortest part of a token that is one of a kind.
const PART_MIN: usize = 16;

/// Known secrets, tokens that were noted, and the shapes of others.
pub(super) struct Search<'a> {
    known: Secrets,
    /// Too many to be looked for one by one: the words of a text are looked up here.
    noted: HashSet<&'a str>,
}

impl<'a> Search<'a> {
    /// All that the tests have in their sources, and what they noted.
    pub(super) fn new(noted: &'a str) -> Self {
        let mut known = known();
        known.bytes("key of cursors", crate::http::world::CURSOR_KEY);
        for byte in [7, 8, 9] {
            known.bytes("key of a server", &[byte; 32]);
        }
        let noted = noted.lines().flat_map(words).filter(|word| word.len() >= PART_MIN);
        Self { known, noted: noted.collect() }
    }

    /// The secrets found in a text, by name.
    pub(super) fn found_in(&self, text: &str) -> Vec<&'static str> {
        let mut found = self.known.found_in(text);
        if words(text).any(|word| self.noted.contains(word)) {
            found.push("a noted token");
        }
        let shapes = [
            ("a token", follows(text, "eyJ", 12)),
            ("a refresh token", follows(text, "srt_", 20)),
            ("a portal token", follows(text, "spt_", 20)),
            ("a client key", follows(text, "sck_", 20)),
            ("a credential", follows(text, "Bearer ", 8) || follows(text, "Basic ", 8)),
            ("an email address", has_address(text)),
        ];
        found.extend(shapes.into_iter().filter(|(_, seen)| *seen).map(|(name, _)| name));
        found
    }
}

/// What a text is made of, and what a token is given away by: each of its parts, with and without what
/// stands before all of their kind.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
    words.flat_map(|word| {
        let bare = word.strip_prefix("srt_").or_else(|| word.strip_prefix("spt_"));
        let secret = word.strip_prefix("sck_").and_then(|key| key.split_once('_'));
        [Some(word), bare, secret.map(|(_, secret)| secret)].into_iter().flatten()
    })
}

/// True if a prefix stands there, with so many characters of a token behind it.
fn follows(text: &str, prefix: &str, count: usize) -> bool {
    let of_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.+/=".contains(byte);
    text.match_indices(prefix).any(|(at, _)| {
        let rest = text.as_bytes().iter().skip(at + prefix.len());
        rest.take_while(|byte| of_token(byte)).count() >= count
    })
}

/// True if there is an `@` with something before it and a domain with a dot behind it.
fn has_address(text: &str) -> bool {
    text.match_indices('@').any(|(at, _)| {
        let before = text.get(..at).unwrap_or_default().chars().next_back();
        let behind = text.get(at + 1..).unwrap_or_default();
        let domain: String =
            behind.chars().take_while(|c| c.is_alphanumeric() || "-.".contains(*c)).collect();
        before.is_some_and(char::is_alphanumeric) && domain.trim_matches('.').contains('.')
    })
}

#[test]
fn shapes_are_known_when_seen() {
    let search = Search::new("opaque-token-of-a-provider\n");
    for (text, name) in [
        ("token=eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJhZGEifQ.c2ln", "a token"),
        ("SecretString(srt_AQEBAQEBAQEBAQEBAQEBAQEBAQ)", "a refresh token"),
        ("https://shop.example/#token=spt_AQEBAQEBAQEBAQEBAQEBAQEBAQ", "a portal token"),
        ("client sck_server_AQEBAQEBAQEBAQEBAQEBAQEBAQ", "a client key"),
        ("authorization: Basic b3VyLWFwcDpwYXNz", "a credential"),
        ("authorization: Bearer 0123456789", "a credential"),
        ("somebody@mail.example.org signed in", "an email address"),
        ("given opaque-token-of-a-provider", "a noted token"),
        ("0909090909090909090909090909090909090909090909090909090909090909", "key of a server"),
    ] {
        assert!(search.found_in(text).contains(&name), "{text}: {:?}", search.found_in(text));
    }
    for text in [
        "a genuine refresh token is newer than its session: was an old backup restored?",
        "a request failed: the store is unavailable: postgres://admin:hunter2@db",
        "answered 127.0.0.1:8080 /authentication/sign-in 018d5e3c-6a00-7000-8000-000000000000",
        "srt_x",
    ] {
        assert_eq!(search.found_in(text), [""; 0], "{text}");
    }
}

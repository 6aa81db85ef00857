//! Requests and their answers as text, held against what is kept in `snapshots/`.
//!
//! A snapshot is an exact answer: its status, all of its headers, its body. After a change that is
//! meant, `INSTA_UPDATE=always cargo test --test it http::` writes them anew, to be read in review.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use http::{HeaderMap, StatusCode};
use serde_json::value::RawValue;

use super::documented::operations;
use super::errors::CODES;
use super::world::Answer;

/// The longest URI and request body that are written out.
const LEGIBLE: usize = 4_096;

/// The longest list or object that stays on one line.
const SHORT: usize = 100;

/// The snapshots of one kind, and which of them were found to differ.
#[derive(Debug)]
pub(crate) struct Snapshots {
    folder: &'static str,
    differing: Vec<String>,
}

impl Snapshots {
    pub(crate) const fn of(folder: &'static str) -> Self {
        Self { folder, differing: Vec::new() }
    }

    /// Holds a text against its snapshot; what differs is told at once and counted at the end.
    pub(crate) fn check(&mut self, name: &str, text: &str) {
        let mut settings = insta::Settings::new();
        settings.set_snapshot_path(format!("snapshots/{}", self.folder));
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        let held = || settings.bind(|| insta::assert_snapshot!(name, text));
        if catch_unwind(AssertUnwindSafe(held)).is_err() {
            self.differing.push(name.to_owned());
        }
    }

    /// Fails if any of them differs.
    pub(crate) fn all_hold(self) {
        assert!(self.differing.is_empty(), "these answers have changed: {:#?}", self.differing);
    }
}

/// The name of a route's snapshot.
pub(crate) fn name_of(method: &str, pattern: &str) -> String {
    let path = pattern.replace(['{', '}'], "").replace('/', ".");
    format!("{}{}", method.to_lowercase(), path.replace("..", "."))
}

/// A request and its answer, under a sentence that tells what they show.
pub(crate) fn exchange(shows: &str, answer: &Answer) -> String {
    let sent = &answer.sent;
    let mut text = format!("# {shows}\n\n{} {}\n", sent.method, shortened(&sent.uri));
    write_headers(&mut text, &sent.headers);
    write_body(&mut text, &sent.headers, &shortened(&String::from_utf8_lossy(&sent.body)));
    let status = StatusCode::from_u16(answer.status).unwrap();
    writeln!(text, "\n{status}").unwrap();
    write_headers(&mut text, &answer.headers);
    let body = match answer.header("content-type") {
        Some("text/html; charset=utf-8") => "(a page)".to_owned(),
        Some(told) if told.starts_with("application/openmetrics-text") => series(answer.text()),
        _ => answer.text().to_owned(),
    };
    write_body(&mut text, &answer.headers, &body);
    text
}

fn shortened(text: &str) -> String {
    let (start, length) = (text.chars().take(16), text.len());
    if length <= LEGIBLE {
        return text.to_owned();
    }
    format!("{}… ({length} bytes)", start.collect::<String>())
}

/// All headers by name; the values of one name stay in their order.
fn write_headers(text: &mut String, headers: &HeaderMap) {
    let mut names: Vec<_> = headers.keys().map(http::HeaderName::as_str).collect();
    names.sort_unstable();
    for name in names {
        for value in headers.get_all(name) {
            let line = format!("{name}: {}", value.to_str().unwrap());
            writeln!(text, "{}", line.trim_end()).unwrap();
        }
    }
}

fn write_body(text: &mut String, headers: &HeaderMap, body: &str) {
    if body.trim().is_empty() {
        return;
    }
    let told = headers.get("content-type").map_or("", |told| told.to_str().unwrap());
    let is_json = told.ends_with("json") && serde_json::from_str::<&RawValue>(body).is_ok();
    let body = if is_json { spaced(body) } else { body.to_owned() };
    writeln!(text, "\n{}", body.trim_end()).unwrap();
}

/// JSON on many lines, with its members in their order and its numbers in their digits. Lists and
/// objects that are short stay on one line.
fn spaced(json: &str) -> String {
    let (mut text, mut depth, mut rest) = (String::new(), 0, json);
    while let Some(letter) = rest.chars().next() {
        assert!(!letter.is_whitespace(), "there are blanks: {json}");
        let whole = length_of_first(rest);
        let is_kept = letter == '"' || whole <= SHORT;
        let (first, after) = rest.split_at(if is_kept { whole } else { letter.len_utf8() });
        depth -= usize::from(matches!(first, "}" | "]"));
        if matches!(first, "}" | "]") || text.ends_with(['{', '[']) {
            text += &line(depth);
        }
        text += first;
        depth += usize::from(matches!(first, "{" | "["));
        match first {
            "," => text += &line(depth),
            ":" => text.push(' '),
            _ => {}
        }
        rest = after;
    }
    text
}

fn line(depth: usize) -> String {
    format!("\n{}", "  ".repeat(depth))
}

/// How long the string, list or object is that a text begins with; 1 for anything else.
fn length_of_first(json: &str) -> usize {
    let (mut depth, mut in_string, mut is_escaped) = (0, false, false);
    for (at, letter) in json.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => in_string = !in_string,
            '{' | '[' if !in_string => depth += 1,
            '}' | ']' if !in_string && depth > 0 => depth -= 1,
            _ => {}
        }
        if depth == 0 && !in_string && !is_escaped {
            return at + 1;
        }
    }
    json.len()
}

/// Metrics without what was measured, each family's lines in the order of their labels.
fn series(metrics: &str) -> String {
    let mut told: Vec<String> = Vec::new();
    let mut counted: Vec<&str> = Vec::new();
    for line in metrics.lines().chain(["#"]) {
        if !line.starts_with('#') {
            counted.push(line.rsplit_once(' ').unwrap().0);
            continue;
        }
        counted.sort_unstable();
        told.extend(counted.drain(..).map(|series| format!("{series} (a number)")));
        told.push(line.to_owned());
    }
    told.pop();
    told.join("\n")
}

#[test]
fn there_is_a_snapshot_for_every_code_and_every_route_and_no_other() {
    let kept = |folder: &str| -> BTreeSet<String> {
        let path = format!("{}/tests/it/http/snapshots/{folder}", env!("CARGO_MANIFEST_DIR"));
        let names = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.map(|name| name.into_string().unwrap());
        // The proposal of a failed test is not kept.
        names.filter(|name| !name.ends_with(".snap.new")).collect()
    };

    let codes = CODES.map(|(_, code)| format!("{code}.snap"));
    assert_eq!(kept("errors"), BTreeSet::from(codes));
    let routes = operations().map(|(method, path, _)| format!("{}.snap", name_of(&method, path)));
    assert_eq!(kept("endpoints"), routes.collect());
}

#[test]
fn json_is_spaced_without_a_change_of_order_or_digits() {
    let long = "a, \\\"b\\\": {\\\\".repeat(8);
    let json = format!(r#"{{"b":[],"a":{{"n":0.10,"s":"{long}"}},"l":[{{}},1e2,null]}}"#);

    let expected = format!(
        r#"{{
  "b": [],
  "a": {{
    "n": 0.10,
    "s": "{long}"
  }},
  "l": [{{}},1e2,null]
}}"#
    );
    assert_eq!(spaced(&json), expected);
    assert_eq!(spaced("{}"), "{}");
}

//! No secret is compared in a way that tells how much of it was right.
//!
//! A clock cannot show it on a machine that others use too, so the sources are read: what proves
//! something is compared by `subtle` or by the MAC's own check, never by `==`.

use std::path::Path;

/// Names of values that are secret.
const SECRETS: [&str; 7] = ["mac", "hash", "secret", "salt", "signature", "seed", "digest"];

/// The last name of an expression: `hash` of `&self.key.hash`.
fn last_name(expression: &str) -> &str {
    let expression = expression.trim().trim_end_matches([')', ';', '{', '}', ',', ' ']);
    expression.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// The first path of an expression, by its last name: `hash` of `*other.hash && more`.
fn first_name(expression: &str) -> &str {
    let is_path = |c: char| c.is_alphanumeric() || "_.&*:".contains(c);
    let end = expression.trim_start().find(|c| !is_path(c)).unwrap_or(expression.trim().len());
    last_name(expression.trim_start().get(..end).unwrap_or_default())
}

/// True if a line compares a secret with `==` or `!=`.
fn compares_a_secret(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    ["==", "!="].iter().any(|operator| {
        code.split_once(operator).is_some_and(|(left, right)| {
            let called = left.trim_end().ends_with(')');
            let left = if called { "" } else { last_name(left) };
            SECRETS.contains(&left) || SECRETS.contains(&first_name(right))
        })
    })
}

fn offenders(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(offenders(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let lines = text.lines().zip(1..).filter(|(line, _)| compares_a_secret(line));
            found.extend(lines.map(|(line, nth)| format!("{}:{nth} {line}", path.display())));
        }
    }
    found
}

#[test]
fn such_comparisons_are_known_when_seen() {
    for line in [
        "if mac == expected {",
        "self.mac != *other",
        "expected == self.key.hash && more",
        "let genuine = self.compute(position)? == *mac;",
        "given == &secret[..]",
    ] {
        assert!(compares_a_secret(line), "{line}");
    }
    for line in [
        "secret.len() == SECRET_BYTES",
        "(format == FORMAT).then_some(Self { key_id, mac })",
        "hash.ct_eq(&key.hash)",
        "// mac == expected would tell",
        "session.user_id == user",
    ] {
        assert!(!compares_a_secret(line), "{line}");
    }
}

#[test]
fn no_secret_is_compared_byte_by_byte() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for sources in ["subscription-core/src/auth", "subscription-http/src"] {
        assert_eq!(offenders(&root.join(sources)), Vec::<String>::new());
    }
}

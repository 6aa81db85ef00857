//! The command `demo`.

use std::path::Path;
use std::process::Command;

use crate::running::{Running, command_in, folder, run};

const UNTIL: &str = "2025-01-31T12:00:00Z";

fn said(command: &mut Command) -> String {
    let (output, errors) = run(command);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// All that is in the store of a folder.
fn held(folder: &Path) -> String {
    let file = folder.join("all.jsonl");
    std::fs::remove_file(&file).ok();
    said(command_in(folder).arg("export").arg(&file));
    std::fs::read_to_string(file).unwrap()
}

/// Goes through a list to its end.
fn all(server: &Running, list: &str) -> Vec<serde_json::Value> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let answer = server.ask(format!(
            "GET {list}?limit=200{cursor} HTTP/1.1\r\nHost: localhost\r\nclient-id: demo\r\n\
             Connection: close\r\n\r\n"
        ));
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let page: serde_json::Value = serde_json::from_str(body).expect(body);
        found.extend(page.get("data").and_then(|data| data.as_array()).expect(body).clone());
        match page.get("next_cursor").and_then(|next| next.as_str()) {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}

#[test]
fn it_fills_a_store_that_a_server_then_shows() {
    let folder = folder();

    let told = said(command_in(&folder).args(["demo", "--subscriptions", "120", "--seed", "7"]));

    assert!(told.starts_with("seed 7: 120 subscriptions from 20"), "{told}");
    let server = Running::start_in(&folder, |_| {});
    let subscriptions = all(&server, "/subscriptions");
    assert_eq!(subscriptions.len(), 120);
    let statuses: std::collections::BTreeSet<_> =
        subscriptions.iter().filter_map(|subscription| subscription["status"].as_str()).collect();
    assert!(statuses.is_superset(&["active", "expired"].into()), "{statuses:?}");
    let plans = all(&server, "/subscription-plans");
    assert_eq!(plans.len(), 8);
    assert_eq!(plans.iter().filter(|plan| plan["is_active"] == false).count(), 1);
    // Another test runs them: it takes programs that not every machine has.
    assert_eq!(told.lines().filter(|line| line.contains("curl")).count(), 4, "{told}");
}

#[test]
fn a_seed_tells_the_same_story_and_another_one_another() {
    let told = |seed: &str| {
        let folder = folder();
        let flags = ["demo", "--subscriptions", "12", "--until", UNTIL, "--seed", seed];
        said(command_in(&folder).args(flags));
        held(&folder)
    };

    let first = told("1");

    assert!(first == told("1"), "the same seed tells another story");
    assert!(first != told("2"), "another seed tells the same story");
}

#[test]
fn what_it_tells_is_what_there_is_and_nothing_is_later_than_its_end() {
    let folder = folder();
    let flags = ["demo", "--subscriptions", "200", "--until", UNTIL];
    let told = said(command_in(&folder).args(flags));

    let records: Vec<serde_json::Value> =
        held(&folder).lines().map(|line| serde_json::from_str(line).unwrap()).collect();

    let count = |kind: &str, status: &str| {
        let same = |record: &&serde_json::Value| {
            record["kind"] == kind && record["record"]["status"] == status
        };
        records.iter().filter(same).count()
    };
    for kind in ["subscription", "payment"] {
        let line =
            told.lines().skip(1).find(|line| line.contains(&format!(" {kind}s "))).expect(&told);
        let (_, statuses) = line.trim().split_once("s  ").unwrap();
        assert!(statuses.contains(','), "{told}");
        for told in statuses.trim().split(", ") {
            let (number, status) = told.split_once(' ').unwrap();
            assert_eq!(number.parse(), Ok(count(kind, status)), "{kind} {status}");
        }
    }
    for status in ["succeeded", "failed", "refunded"] {
        assert!(count("payment", status) > 0, "{status}");
    }
    let upgrades =
        records.iter().filter(|record| record["record"]["change"]["change"] == "plan_changed");
    assert!(upgrades.count() > 0, "nobody has upgraded");
    for record in &records {
        for moment in ["created_at", "updated_at", "at"] {
            let at = record["record"][moment].as_str().unwrap_or_default();
            assert!(at <= UNTIL, "{moment}: {record}");
        }
        let active = record["kind"] == "subscription" && record["record"]["status"] == "active";
        if let Some(renews_at) = record["record"]["renews_at"].as_str().filter(|_| active) {
            assert!(renews_at > UNTIL, "{record}");
        }
    }
}

#[test]
fn a_store_that_has_anything_is_left_as_it_is() {
    let folder = folder();
    let demo = ["demo", "--subscriptions", "5", "--until", UNTIL];
    said(command_in(&folder).args(demo));
    let before = held(&folder);

    let (output, errors) = run(command_in(&folder).args(demo));

    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("not empty: it holds plans; use a new database"), "{errors}");
    assert!(before == held(&folder));
}

#[test]
fn what_cannot_be_shown_later_is_refused_with_the_reason() {
    for (flags, reason) in [
        (["--database", "memory:"], "lost when this command ends"),
        (["--mode", "production"], "development mode"),
        (["--subscriptions", "0"], "1..=100000"),
    ] {
        let folder = folder();
        let (output, errors) = run(command_in(&folder).arg("demo").args(flags));

        assert!(!output.status.success(), "{flags:?}");
        assert!(errors.contains(reason), "{flags:?}: {errors}");
        assert!(!folder.join("subscription.db").exists(), "{flags:?}");
    }
}

//! Files that are not taken, and what is left behind: nothing.

use std::time::Duration;

use sha2::{Digest as _, Sha256};
use subscription_core::store::Record;
use subscription_core::store::transfer::TransferError;
use test_support::trials;
use test_support::trials::Trial;
use tokio::io::{AsyncWriteExt as _, BufReader};

use super::sample_records::SampleRecords;
use super::{Movable, commit};
use crate::records::plan;
use crate::{postgres, sqlite};

pub(super) fn trials() -> Vec<Trial> {
    trials![
        what_is_no_whole_file_is_refused_and_leaves_nothing,
        a_line_with_extra_missing_or_misordered_fields_is_refused,
        a_file_with_any_byte_changed_is_refused,
        a_file_cut_short_anywhere_is_refused,
        a_store_that_holds_something_is_left_alone,
        an_import_that_is_given_up_leaves_nothing,
    ]
}

pub(super) fn trials_with_a_server() -> Vec<Trial> {
    trials![
        what_is_no_whole_file_is_refused_by_a_server_and_leaves_nothing,
        a_server_that_holds_something_is_left_alone,
    ]
}

async fn a_file() -> String {
    a_file_of(20).await
}

async fn a_file_of(sets: usize) -> String {
    let home = sqlite::fresh().await;
    SampleRecords::new().fill(&home, sets).await;
    String::from_utf8(home.moved_out().await).unwrap()
}

/// The file with its lines changed, and a last line that vouches for them.
pub(super) fn forged(file: &str, change: impl FnOnce(&mut Vec<String>)) -> String {
    let mut lines: Vec<_> = file.lines().map(str::to_owned).collect();
    let footer = lines.pop().unwrap();
    change(&mut lines);
    let body = lines.join("\n") + "\n";
    let hash: Vec<_> = Sha256::digest(&body).iter().map(|byte| format!("{byte:02x}")).collect();
    let (counts, _) = footer.split_once(r#""sha256""#).unwrap();
    format!("{body}{counts}\"sha256\":\"{}\"}}\n", hash.concat())
}

/// Every fault, as `line 7: …`.
#[track_caller]
pub(super) fn faults(error: &TransferError) -> Vec<String> {
    let TransferError::Faulty(faults) = error else { panic!("{error:?}") };
    faults.listed().map(str::to_owned).collect()
}

#[track_caller]
fn assert_first(error: &TransferError, expected: &str) {
    let faults = faults(error);
    assert!(faults[0].starts_with(expected), "{expected}: {faults:?}");
}

async fn refusals(store: &impl Movable) {
    let file = a_file().await;
    let empty = store.moved_out().await;
    let refused = async |file: &str| {
        let error = store.move_in(file.as_bytes()).await.unwrap_err();
        assert_eq!(store.moved_out().await, empty, "{error} left something behind");
        error
    };
    let end = file.lines().count() - 1;

    let cut_short = "line 1: the file is cut short here";
    assert_eq!(faults(&refused("").await), [cut_short]);
    let no_export =
        "line 1: this is not an export: the line does not name the format subscription-export";
    for other in ["Dear diary\n", "{\"format\":\"x\",\"version\":1}\n", "\n"] {
        assert_eq!(faults(&refused(other).await), [no_export]);
    }
    let later = file.replacen("\"version\":1", "\"version\":2", 1);
    let version = "line 1: the format has version 2, and only version 1 can be read";
    assert_eq!(faults(&refused(&later).await), [version]);
    let negative = file.replacen("\"feed\":", "\"feed\":-", 1);
    assert_first(&refused(&negative).await, "line 1: invalid value: integer `-");
    let garbage = file.replacen("{\"kind\":\"plan\"", "garbage", 3);
    let garbage = faults(&refused(&garbage).await);
    assert_eq!(garbage.len(), 4, "{garbage:?}");
    for (fault, line) in garbage.iter().zip([2, 3, 4, end + 1]) {
        assert!(fault.starts_with(&format!("line {line}: ")), "{fault}");
    }
    assert!(garbage[3].contains("SHA-256"), "{garbage:?}");
    let unknown = refused(&file.replacen("{\"kind\":\"user\"", "{\"kind\":\"yeti\"", 1)).await;
    assert_first(&unknown, "line 62: the kind yeti is unknown");
    let lacking = refused(&file.replacen("\"slug\":", "\"slag\":", 1)).await;
    assert_first(&lacking, "line 2: the field slug is missing");
    let bad = refused(&file.replacen("\"tier\":", "\"tier\":99999", 1)).await;
    assert_first(&bad, "line 2: ");
    let altered = file.replacen("user-1@example.com", "user-0@example.com", 1);
    let altered = altered.replacen("User-1@example.com", "User-0@example.com", 1);
    let differs = "the file was changed: its SHA-256 differs";
    assert_eq!(faults(&refused(&altered).await), [format!("line {}: {differs}", end + 1)]);
    let more = refused(&format!("{file}{{}}\n")).await;
    assert_first(&more, &format!("line {}: more lines follow the end of the export", end + 2));

    let fewer = refused(&forged(&file, |lines| drop(lines.remove(45)))).await;
    let expected = format!("line {end}: the file has 19 payments, but its last line counts 20");
    assert_eq!(faults(&fewer), [expected]);
    let twice = refused(&forged(&file, |lines| lines[5] = lines[4].clone())).await;
    assert_first(&twice, "line 6: id must be greater than in the previous line");
    let disorder = refused(&forged(&file, |lines| lines.swap(end - 2, 1))).await;
    assert_first(&disorder, "line 3: plans come before events");
    let feed = refused(&forged(&file, |lines| lines.swap(end - 2, end - 1))).await;
    assert_first(&feed, &format!("line {end}: sequence must rise from event to event"));

    store.move_in(file.as_bytes()).await.unwrap();
    assert_eq!(store.moved_out().await, file.as_bytes());
}

async fn what_is_no_whole_file_is_refused_and_leaves_nothing() {
    refusals(&sqlite::fresh().await).await;
}

async fn what_is_no_whole_file_is_refused_by_a_server_and_leaves_nothing() {
    refusals(&postgres::fresh().await).await;
}

/// A change of one line of a file.
type LineChange = dyn Fn(&str) -> String + Sync;

async fn a_line_with_extra_missing_or_misordered_fields_is_refused() {
    let (file, store) = (a_file().await, sqlite::fresh().await);
    let empty = store.moved_out().await;
    let tier_and_active = |line: &str| {
        let (start, rest) = line.split_once("\"tier\":").unwrap();
        let (tier, rest) = rest.split_once(",\"is_active\":").unwrap();
        let (is_active, end) = rest.split_once(',').unwrap();
        format!("{start}\"is_active\":{is_active},\"tier\":{tier},{end}")
    };
    let extra_last = |line: &str| line.replace("}}", ",\"color\":\"red\"}}");
    let cases: [(&str, &LineChange, &str); 7] = [
        ("an extra field at the end", &extra_last, "the field color is unexpected"),
        (
            "an extra field in the middle",
            &|line| line.replace("\"slug\":", "\"color\":\"red\",\"slug\":"),
            "the field slug is missing",
        ),
        (
            "a field twice",
            &|line| line.replace("\"version\":", "\"version\":1,\"version\":"),
            "the field version is unexpected",
        ),
        ("two fields in the wrong order", &tier_and_active, "the field tier is missing"),
        (
            "no last field",
            &|line| format!("{}}}}}", line.rsplit_once(",\"version\":").unwrap().0),
            "the field version is missing",
        ),
        (
            "an extra field beside the record",
            &|line| line.replace("{\"kind\":", "{\"color\":\"red\",\"kind\":"),
            "unknown field `color`",
        ),
        ("no record", &|_| "{\"kind\":\"plan\"}".to_owned(), "missing field `record`"),
    ];
    for (case, change, expected) in cases {
        let changed = forged(&file, |lines| lines[4] = change(&lines[4]));

        let refused = store.move_in(changed.as_bytes()).await.unwrap_err();

        assert_first(&refused, &format!("line 5: {expected}"));
        assert_eq!(faults(&refused).len(), 1, "{case}: {refused}");
        assert_eq!(store.moved_out().await, empty, "{case}");
    }
    store.move_in(file.as_bytes()).await.unwrap();
}

async fn a_file_with_any_byte_changed_is_refused() {
    // A short one: all of it is read for each byte.
    let (file, store) = (a_file_of(3).await.into_bytes(), sqlite::fresh().await);
    let footer = file.len() - 250;
    for at in (0..file.len()).step_by(149).chain(footer..file.len()) {
        let mut changed = file.clone();
        changed[at] ^= 0x20;
        assert!(store.move_in(&changed).await.is_err(), "byte {at} was changed");
    }
    store.move_in(&file).await.unwrap();
}

async fn a_file_cut_short_anywhere_is_refused() {
    let (file, store) = (a_file().await.into_bytes(), sqlite::fresh().await);
    let ends = file.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let ends: Vec<_> = ends.filter(|end| *end < file.len()).collect();
    for length in ends.into_iter().step_by(7).chain([1, 70, file.len() / 2, file.len() - 1]) {
        let error = store.move_in(&file[..length]).await.unwrap_err();
        let lines = file[..length].split(|byte| *byte == b'\n').count();
        let expected = format!("line {lines}: the file is cut short here");
        assert_eq!(faults(&error), [expected], "{length} bytes");
    }
    store.move_in(&file).await.unwrap();
}

async fn holds_something(store: &impl Movable) {
    let file = a_file().await;
    commit(store, vec![Record::from(plan("mine"))]).await;
    let before = store.moved_out().await;

    let refused = store.move_in(file.as_bytes()).await.unwrap_err();

    assert!(matches!(refused, TransferError::NotEmpty("plans")), "{refused:?}");
    assert_eq!(
        refused.to_string(),
        "the database is not empty: it holds plans; use a new database"
    );
    assert_eq!(store.moved_out().await, before);
}

async fn a_store_that_holds_something_is_left_alone() {
    holds_something(&sqlite::fresh().await).await;
}

async fn a_server_that_holds_something_is_left_alone() {
    holds_something(&postgres::fresh().await).await;
}

async fn an_import_that_is_given_up_leaves_nothing() {
    let (file, store) = (a_file().await, sqlite::fresh().await);
    let (mut sender, receiver) = tokio::io::duplex(file.len());
    sender.write_all(&file.as_bytes()[..file.len() / 2]).await.unwrap();

    let stuck = store.import(BufReader::new(receiver), |_| {});
    let given_up = tokio::time::timeout(Duration::from_millis(200), stuck).await;

    assert!(given_up.is_err());
    store.move_in(file.as_bytes()).await.unwrap();
    assert_eq!(store.moved_out().await, file.as_bytes());
}

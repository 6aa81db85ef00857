//! Moving out while others write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use subscription_core::store::ChangeSet;
use test_support::trials;
use test_support::trials::Trial;

use super::Movable;
use super::sample_records::SampleRecords;
use crate::{postgres, sqlite};

pub(super) fn trials() -> Vec<Trial> {
    trials![an_export_shows_one_moment_while_others_write]
}

pub(super) fn trials_with_a_server() -> Vec<Trial> {
    trials![an_export_of_a_server_shows_one_moment_while_others_write]
}

async fn one_moment(home: &Arc<impl Movable + 'static>, away: &impl Movable, back: &impl Movable) {
    let stop = Arc::new(AtomicBool::new(false));
    let mut samples = SampleRecords::new();
    let mut others = Vec::new();
    for writer in 0..4 {
        samples.fill(&**home, 20).await;
        let (home, stop) = (Arc::clone(home), Arc::clone(&stop));
        let mut samples = samples.fork(writer);
        others.push(tokio::spawn(async move {
            let mut written = 0;
            while !stop.load(Ordering::Relaxed) {
                let writes = samples.one_of_each();
                let events = writes.iter().filter_map(|write| samples.event(write)).collect();
                let changes = ChangeSet { writes, events, ..ChangeSet::default() };
                home.commit(changes).await.unwrap();
                written += 1;
                // So many that exports overtake them, on a slow machine too.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            written
        }));
    }
    let mut files = Vec::new();
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        files.push(home.moved_out().await);
    }
    stop.store(true, Ordering::Relaxed);
    for other in others {
        assert!(other.await.unwrap() > 0);
    }

    for file in &files {
        assert_whole(file);
    }
    let last = files.last().unwrap();
    assert!(files[0].len() < last.len(), "nobody wrote meanwhile");
    away.move_in(last).await.unwrap();
    assert_eq!(&away.moved_out().await, last);
    // An event keeps its place. Between those of a file others may have theirs: who came later may
    // be numbered with the last of those who came in time.
    back.move_in(&files[0]).await.unwrap();
    let (earlier, later) = (sequences(&files[0]), sequences(last));
    assert_eq!(earlier.difference(&later).next(), None);
}

fn lines(file: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn sequences(file: &[u8]) -> BTreeSet<(u64, String)> {
    let lines = lines(file).into_iter().filter(|line| line["kind"] == "event");
    let event = |line: Value| {
        let record = &line["record"];
        (record["sequence"].as_u64().unwrap(), record["id"].as_str().unwrap().to_owned())
    };
    lines.map(event).collect()
}

/// Every record of the ledger has its event, every event its record, every payment its subscription.
#[track_caller]
fn assert_whole(file: &[u8]) {
    let mut records: BTreeMap<(String, String), u64> = BTreeMap::new();
    let mut told = BTreeMap::new();
    let mut needed = BTreeSet::new();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    for line in lines(file) {
        let record = &line["record"];
        match line["kind"].as_str() {
            Some("event") => {
                let subject = &record["subject"];
                let key = (text(&subject["kind"]), text(&subject["id"]));
                let version = record["version"].as_u64().unwrap();
                told.entry(key)
                    .and_modify(|known: &mut u64| *known = version.max(*known))
                    .or_insert(version);
            }
            Some("answer" | "document" | "end") | None => {}
            Some(kind) => {
                if kind == "payment" {
                    needed.insert(("subscription".to_owned(), text(&record["subscription_id"])));
                }
                if kind == "subscription" {
                    needed.insert(("plan".to_owned(), text(&record["subscription_plan_id"])));
                }
                let key = (kind.to_owned(), text(&record["id"]));
                records.insert(key, record["version"].as_u64().unwrap());
            }
        }
    }
    assert_eq!(records.len(), told.len());
    for (key, version) in &records {
        assert_eq!(told.get(key), Some(version), "{key:?}");
    }
    for key in needed {
        assert!(records.contains_key(&key), "{key:?} is missing");
    }
}

async fn an_export_shows_one_moment_while_others_write() {
    let home = Arc::new(sqlite::fresh().await);
    one_moment(&home, &sqlite::fresh().await, &sqlite::fresh().await).await;
}

async fn an_export_of_a_server_shows_one_moment_while_others_write() {
    let home = Arc::new(postgres::fresh().await);
    one_moment(&home, &sqlite::fresh().await, &postgres::fresh().await).await;
}

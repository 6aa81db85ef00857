//! The log of the whole suite at its finest, and a search of it for every secret that was used.

mod search;
mod suite;

use std::fs::File;
use std::sync::Arc;

use test_support::logs;

/// Two tests of the query plans failed now and then, because another thread of the process had reached the same log
/// statement first.
#[test]
fn a_thread_hears_what_another_thread_logged_first() {
    let path = std::env::temp_dir().join(format!("heard-{}.log", std::process::id()));
    let heard = Arc::new(File::create(&path).unwrap());
    let _listening = logs::of_this_thread(tracing_subscriber::fmt().with_writer(heard).finish());
    let log = || tracing::info!("heard on one thread");

    std::thread::spawn(log).join().unwrap();
    log();

    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(text.matches("heard on one thread").count(), 1, "{text}");
}

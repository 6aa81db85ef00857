//! The cost of a commit, of a record by its id and of a page, and the memory of a record, as records grow.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use subscription_core::store::StoreExt as _;

use subscription_core::store::{SubscriptionFilter, SubscriptionQuery};
use subscription_core::{MemoryStore, Store, Subscription};
use test_support::{million, million_records as records};

use crate::load_parts::callers::middle;
use crate::plot::{Line, grouped, time};

const SIZES: [u64; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];
/// The memory in KiB that must be free for ten million subscriptions.
const ROOM: u64 = 10 * 1024 * 1024;
/// How long one number is measured.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// The disk space in KiB that must be free for ten million subscriptions in a file, and for sorting its indexes.
const FILE_ROOM: u64 = 16 * 1024 * 1024;

const WHAT: [&str; 4] = ["by id", "page of 50", "of a user", "commit"];

/// The nanoseconds of one call, measured in slices of many calls.
async fn each<F: Future<Output = ()> + Send>(once: impl Fn() -> F + Send + Sync) -> f64 {
    // A slice has as many calls as take two milliseconds, so that reading the clock adds little.
    let begun = Instant::now();
    let mut many = 0_u32;
    while begun.elapsed() < Duration::from_millis(2) {
        once().await;
        many += 1;
    }
    let (begun, mut slices) = (Instant::now(), Vec::new());
    while begun.elapsed() < PATIENCE {
        let slice = Instant::now();
        for _ in 0..many {
            once().await;
        }
        slices.push(slice.elapsed().as_nanos() as f64 / f64::from(many));
    }
    middle(slices).0
}

/// The cost of each of [`WHAT`] with `size` subscriptions.
async fn costs(store: &(impl Store + 'static), size: u64) -> [f64; 4] {
    let next = AtomicU64::new(0);
    // The reads jump between distant records, as those of callers do, so most records are not in the processor's cache.
    let any = || next.fetch_add(15_485_863, Ordering::Relaxed) % size;
    let by_id = each(|| async {
        assert!(store.get_as::<Subscription>(&records::id(any())).await.unwrap().is_some());
    })
    .await;
    let query = |user_id| {
        let filter = SubscriptionFilter::default().with_user_id(user_id);
        SubscriptionQuery::default().with_filter(filter).with_now(million::now())
    };
    let newest = query(None);
    let page = each(|| async {
        assert_eq!(store.list_as::<Subscription>(newest.clone()).await.unwrap().items.len(), 50);
    })
    .await;
    let of_a_user = each(|| async {
        let query = query(Some(records::user(any())));
        assert!(!store.list_as::<Subscription>(query.clone()).await.unwrap().items.is_empty());
    })
    .await;
    let (begun, mut slices) = (Instant::now(), Vec::new());
    while begun.elapsed() < PATIENCE {
        let taken = records::commits(store, size..size + 32).await;
        slices.push(taken.as_nanos() as f64 / 32.0);
    }
    [by_id, page, of_a_user, middle(slices).0]
}

fn head(store: &str) {
    println!("\n| {store}, subscriptions | {} |", WHAT.join(" | "));
    println!("| ---: {}|", "| ---: ".repeat(WHAT.len()));
}

fn row(size: u64, costs: [f64; 4]) {
    println!("| {} | {} |", grouped(size as f64), costs.map(time).join(" | "));
}

fn draw(store: &str, told: &[(u64, [f64; 4])]) -> Vec<Line> {
    let lines = WHAT.iter().enumerate().filter(|(_, what)| **what != "of a user");
    let line = |(nth, what): (usize, &&str)| Line {
        name: format!("{store}, {what}"),
        points: told.iter().map(|(size, costs)| (*size as f64, costs[nth])).collect(),
    };
    lines.map(line).collect()
}

pub(crate) async fn memory() -> Vec<Line> {
    let store = MemoryStore::default();
    let (mut filled, mut told, mut bytes) = (0, Vec::new(), Vec::new());
    head("memory");
    for size in SIZES {
        if size > 1_000_000 && kib("/proc/meminfo", "MemAvailable:") < ROOM {
            println!("\n{} were left out: they need 10 GiB", grouped(size as f64));
            break;
        }
        let before = kib("/proc/self/status", "VmRSS:");
        records::fill(&store, filled..size).await;
        let grown = kib("/proc/self/status", "VmRSS:").saturating_sub(before);
        bytes.push((size, grown as f64 * 1024.0 / (size - filled) as f64));
        filled = size;
        let costs = costs(&store, size).await;
        row(size, costs);
        told.push((size, costs));
    }
    let own = records::subscription(500_000);
    let text = own.external_subscription_id.map_or(0, |id| id.as_str().len());
    let own = size_of::<Subscription>() + text;
    println!();
    for (size, each) in bytes.into_iter().filter(|(size, _)| *size >= 1_000_000) {
        println!(
            "a subscription takes {each:.0} bytes with all indexes on the way to {}, {own} of them \
             its own: {:.1} times",
            grouped(size as f64),
            each / own as f64,
        );
    }
    draw("memory", &told)
}

pub(crate) async fn sqlite() -> Vec<Line> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-growth");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("store.db");
    let mut told = Vec::new();
    head("SQLite");
    for size in SIZES {
        if size > 1_000_000 && free(&std::env::temp_dir()).min(free(&folder)) < FILE_ROOM {
            println!("\n{} were left out: they need 16 GiB", grouped(size as f64));
            break;
        }
        let store = records::sqlite(&file, size).await;
        let costs = costs(&store, size).await;
        row(size, costs);
        told.push((size, costs));
        store.close().await;
    }
    std::fs::remove_file(file).ok();
    draw("SQLite", &told)
}

/// The free space in KiB on the disk of a folder.
fn free(folder: &Path) -> u64 {
    let told = Command::new("df").args(["-k", "--output=avail"]).arg(folder).output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    told.lines().last().unwrap().trim().parse().unwrap()
}

/// A number in KiB from a file of the kernel.
fn kib(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

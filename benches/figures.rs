//! How fast figures are read from a large store, and what that costs the writers beside it.
//!
//! `cargo bench --bench figures` fills a SQLite file with 100,000 subscriptions and 200,000 payments
//! (`SUBSCRIPTIONS=20000` for fewer) and measures `/stats/now`, `/stats/months` and `/stats/forecast`, cold and warm. Then
//! it commits new subscriptions for some seconds, in slices in turn: without figures, beside a client that requests
//! cached figures ten times a second, and beside figures and forecasts that are read again and again without a cache.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a bench that fails panics, and it prints its result"
)]
#![expect(clippy::float_arithmetic, clippy::cast_precision_loss, reason = "rates, not money")]

#[expect(dead_code, reason = "the rest is for the bench of load")]
mod world;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use secrecy::ExposeSecret as _;
use subscription_core::billing::{Billing, Policy};
use subscription_core::figures::Figures;
use subscription_core::payments::RequestedPayment;
use subscription_core::store::{ChangeSet, Record, SqliteOptions};
use subscription_core::{
    BillingCycle, NewPlan, NewSubscription, Payment, PaymentId, PaymentKind, PaymentStatus, Store,
    Subscription, SubscriptionId, SubscriptionService, SystemRandomness, Timestamp, UserId,
    Version,
};
use world::ApiWorld;

const COLD_RUNS: usize = 5;
const WARM_RUNS: usize = 200;
/// Slices without and with figures, in turn.
const SLICES: usize = 8;
const SLICE: Duration = Duration::from_secs(2);
/// The callers that write at the same time.
const WRITERS: usize = 16;

#[tokio::main]
async fn main() {
    // `cargo test --benches` only checks that it builds.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let count = std::env::var("SUBSCRIPTIONS").map_or(100_000, |text| text.parse().unwrap());
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("figures");
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir_all(&folder).unwrap();
    let store = SqliteOptions::file(folder.join("figures.db")).open().await.unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let world = Arc::new(ApiWorld::over(Arc::clone(&store), 1, true).await);
    // The service has the rules of billing, by which a forecast is made.
    let service = SubscriptionService::new(Arc::clone(&store));
    let service = Billing::new(service, Policy::default()).service().clone();
    let template = fill(&service, &store, count).await;
    println!("| figures | median | goal |\n| --- | ---: | ---: |");
    let now =
        cold(|figures| async move { figures.now().await.unwrap().paying_users }, &service, count)
            .await;
    println!("| now, cold, {count} subscriptions | {now:.1?} | 1 s |");
    let months = cold(|figures| async move { figures.months(24).await.unwrap().data.last().unwrap().paying_users }, &service, count).await;
    println!("| months, cold, {} payments | {months:.1?} | 1 s |", 2 * count);
    let forecast = cold(|figures| async move { next_month(&figures).await }, &service, count).await;
    println!("| forecast, cold, {count} subscriptions | {forecast:.1?} | |");
    let ratio = forecast.as_secs_f64() / now.as_secs_f64();
    println!("| forecast ÷ now, cold | {ratio:.1} | 8.8 at most |");
    println!("\n| beside | commits/s alone | beside it | ratio | goal | p99 ratio | at most |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    // Nothing is cached yet: the first request reads the figures from the store.
    let caller = Arc::clone(&world);
    let asked = move || {
        let world = Arc::clone(&caller);
        async move {
            ask(&world, "/stats/now").await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    beside("requests for `/stats/now`", &store, &template, asked).await;
    let reader = service.clone();
    let read = move || {
        // A new `Figures` each time, so that nothing is cached.
        let figures = Figures::new(reader.clone());
        async move { drop(figures.now().await.unwrap()) }
    };
    beside("cold readings of now", &store, &template, read).await;
    let ahead = move || {
        let figures = Figures::new(service.clone());
        async move { drop(figures.forecast().await.unwrap()) }
    };
    beside("cold forecasts", &store, &template, ahead).await;
    println!("\n| figures | median | goal |\n| --- | ---: | ---: |");
    for path in ["/stats/now", "/stats/months", "/stats/forecast"] {
        println!("| {path}, warm | {:.1?} | 5 ms |", warm(&world, path).await);
    }
}

/// The number of payments of the first whole month of a forecast.
async fn next_month(figures: &Figures) -> u64 {
    let forecast = figures.forecast().await.unwrap();
    forecast.data[1].money.iter().map(|money| money.contracted.count).sum()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The time of a read without a cache.
async fn cold<F: Future<Output = u64>>(
    read: impl Fn(Figures) -> F,
    service: &SubscriptionService,
    count: usize,
) -> Duration {
    let mut times = Vec::new();
    for _ in 0..COLD_RUNS {
        let begun = Instant::now();
        let paying = read(Figures::new(service.clone())).await;
        times.push(begun.elapsed());
        assert!(paying >= count as u64, "{paying} of {count}");
    }
    median(times)
}

/// The time of a request whose figures come from the cache.
async fn warm(world: &ApiWorld, path: &str) -> Duration {
    let mut times = Vec::new();
    for nth in 0..=WARM_RUNS {
        let taken = ask(world, path).await;
        // The first request fills the cache.
        if nth > 0 {
            times.push(taken);
        }
    }
    median(times)
}

/// Sends one request and returns the time that it took.
async fn ask(world: &ApiWorld, path: &str) -> Duration {
    let client = world.client.expose_secret();
    let request = Request::get(path).header("host", "localhost").header("client-id", client);
    let request = request.body(Full::<Bytes>::default()).unwrap();
    let begun = Instant::now();
    let answer = world.api.answer(request, None).await;
    assert_eq!(answer.status(), 200);
    begun.elapsed()
}

/// Creates `count` subscriptions that the clock renews each month, with two payments each. Returns one of the
/// subscriptions.
async fn fill(
    service: &SubscriptionService,
    store: &Arc<dyn Store>,
    count: usize,
) -> Arc<Subscription> {
    let name = "Renewed".parse().unwrap();
    let slug = "renewed".parse().unwrap();
    let plan = NewPlan::new(name, slug, "19.90".parse().unwrap(), BillingCycle::MONTHLY);
    let plan = NewPlan { currency: Some("EUR".parse().unwrap()), ..plan };
    let plan = service.create_plan(plan).await.unwrap();
    let user = UserId::new(service.now(), &SystemRandomness).unwrap();
    let template = service.create_subscription(NewSubscription::new(user, plan.id)).await.unwrap();
    let mut made = 0;
    while made < count {
        let mut writes = Vec::with_capacity(900);
        for _ in 0..300.min(count - made) {
            let held = copy_of(&template);
            let day = Duration::from_hours(24);
            let begun = held.created_at.saturating_sub(40 * day);
            for start in [begun, begun.saturating_add(31 * day)] {
                writes.push(Record::from(payment(&held, start, start.saturating_add(31 * day))));
            }
            writes.push(Record::from(held));
            made += 1;
        }
        store.commit(ChangeSet { writes, ..ChangeSet::default() }).await.unwrap();
    }
    template
}

fn copy_of(template: &Subscription) -> Subscription {
    let at = subscription_core::Clock::now(&subscription_core::SystemClock);
    let id = SubscriptionId::new(at, &SystemRandomness).unwrap();
    let user_id = UserId::new(at, &SystemRandomness).unwrap();
    Subscription { id, user_id, created_at: at, updated_at: at, ..template.clone() }
}

fn payment(held: &Subscription, period_start: Timestamp, end: Timestamp) -> Payment {
    let (amount, at) = ("19.90".parse().unwrap(), held.created_at);
    Payment {
        id: PaymentId::new(at, &SystemRandomness).unwrap(),
        subscription_id: held.id,
        amount,
        currency: "EUR".parse().unwrap(),
        external_payment_id: None,
        status: PaymentStatus::Succeeded,
        metadata: None,
        created_at: at,
        updated_at: at,
        version: Version::FIRST,
        settled: true,
        asked: Some(Box::new(RequestedPayment {
            kind: PaymentKind::Renewal,
            period_start,
            period_end: Some(end),
            due_at: period_start,
            attempt: 1,
            next_attempt_at: None,
            retries: 0,
            value: amount,
            cycle: BillingCycle::MONTHLY,
            mirrored: false,
            by_clock: true,
            basis: None,
        })),
    }
}

/// Prints the commits a second alone, and beside a task that calls `read` again and again.
async fn beside<F: Future<Output = ()> + Send>(
    name: &str,
    store: &Arc<dyn Store>,
    template: &Arc<Subscription>,
    read: impl Fn() -> F + Clone + Send + 'static,
) {
    let mut alone = Vec::new();
    let mut with_figures = Vec::new();
    let mut readings = 0;
    for slice in 0..SLICES {
        if slice % 2 == 0 {
            alone.extend(commits(store, template).await);
            continue;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let reader = tokio::spawn({
            let (stop, read) = (Arc::clone(&stop), read.clone());
            async move {
                let mut readings = 0;
                while !stop.load(Ordering::SeqCst) {
                    read().await;
                    readings += 1;
                }
                readings
            }
        });
        with_figures.extend(commits(store, template).await);
        stop.store(true, Ordering::SeqCst);
        readings += reader.await.unwrap();
    }
    let seconds = SLICE.as_secs_f64() * SLICES as f64 / 2.0;
    let slower = p99(&mut with_figures) / p99(&mut alone);
    let rate = |commits: Vec<Duration>| commits.len() as f64 / seconds;
    let alone = rate(alone);
    let with_figures = rate(with_figures);
    let ratio = with_figures / alone;
    println!(
        "| {readings} {name} | {alone:.0} | {with_figures:.0} | {ratio:.2} | 0.9 | {slower:.1} | 2.2 |"
    );
}

/// The 99th percentile, in seconds.
fn p99(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times[times.len() * 99 / 100].as_secs_f64()
}

/// The times that the commits of one slice took.
async fn commits(store: &Arc<dyn Store>, template: &Arc<Subscription>) -> Vec<Duration> {
    let end = Instant::now() + SLICE;
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let (store, template) = (Arc::clone(store), Arc::clone(template));
            tokio::spawn(async move {
                let mut times = Vec::new();
                while Instant::now() < end {
                    let writes = vec![Record::from(copy_of(&template))];
                    let begun = Instant::now();
                    store.commit(ChangeSet { writes, ..ChangeSet::default() }).await.unwrap();
                    times.push(begun.elapsed());
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for writer in writers {
        times.extend(writer.await.unwrap());
    }
    times
}

//! A store to look around in: two years of a small business that never was.
//!
//! They are lived through in a file of their own, by the service itself with its clock turned by hand,
//! and then moved into the database whole: who stops it half-way finds the database as empty as before.

mod catalogue;
mod dice;
mod story;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use subscription_core::accounts::Client;
use subscription_core::plans::Plan;
use subscription_core::store::{ClientQuery, EventQuery, StoreExt as _};
use subscription_core::subscriptions::Subscription;

use clap::Args;
use subscription_core::auth::DevelopmentIdentities;
use subscription_core::store::transfer::{Counts, TransferError};
use subscription_core::store::{
    CacheInvalidator, CachedStore, PageLimit, PlanQuery, SqliteOptions, SqliteStore,
    SubscriptionQuery,
};
use subscription_core::{
    Clock as _, ManualClock, SeededRandomness, Store, SubscriptionService, SystemClock, Timestamp,
};
use tokio::io::BufReader;

use self::dice::Dice;
use self::story::{Outcome, Story};
use super::keys::Keys;
use super::open::Opened;
use super::open::authenticate;
use super::settings::Database;
use super::settings::{Mode, Settings, Users};
use super::transfer::bar;
use super::{Failure, print};

const SECONDS_A_DAY: u64 = 86_400;

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// The same number tells the same story.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// How many subscriptions there will be.
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 500,
        value_parser = clap::value_parser!(u64).range(1..=100_000)
    )]
    subscriptions: u64,

    /// When it ends, as 2025-01-31T12:00:00Z. [default: now]
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
}

pub(crate) async fn run(demo: Demo, settings: &Settings) -> Result<(), Failure> {
    if settings.mode == Mode::Production {
        return Err(Failure::new(
            "nobody vouches for people who never were: fill a store in development mode",
        ));
    }
    if settings.database()? == Database::Memory {
        return Err(Failure::new(
            "what is in memory: ends with this command: name a --database that a server can open",
        ));
    }
    let opened = Opened::new(settings, false).await?;
    let filled = fill(&demo, settings, &opened).await;
    opened.close().await;
    let (outcome, counts, begin, until) = filled?;
    let Demo { seed, subscriptions, .. } = demo;
    let day = |at: Timestamp| at.to_string().chars().take(10).collect::<String>();
    print(&format!(
        "seed {seed}: {subscriptions} subscriptions from {} to {}, in {:?}",
        day(begin),
        day(until),
        settings.database()?
    ));
    print("");
    tell(&outcome, &counts);
    print("");
    suggest(&outcome, settings);
    Ok(())
}

async fn fill(
    demo: &Demo,
    settings: &Settings,
    opened: &Opened,
) -> Result<(Outcome, Counts, Timestamp, Timestamp), Failure> {
    // The move looks again, at everything: this spares whoever waits.
    expect_empty(&*opened.store).await?;
    let until = demo.until.unwrap_or_else(|| SystemClock.now());
    let begin = Story::begin(until);
    let scratch = Scratch::new()?;
    let lived = Arc::new(SqliteOptions::file(scratch.0.join("demo.db")).relaxed().open().await?);
    let outcome = tokio::select! {
        outcome = live(demo, settings, &lived, until) => outcome,
        _ = tokio::signal::ctrl_c() => Err(Failure::new("stopped: nothing was written")),
    };
    // Once it is being written it is written to its end.
    let done = match outcome {
        Ok(outcome) => move_in(&lived, opened).await.map(|counts| (outcome, counts)),
        Err(failure) => Err(failure),
    };
    lived.close().await;
    let (outcome, counts) = done?;
    Ok((outcome, counts, begin, until))
}

async fn expect_empty(store: &dyn Store) -> Result<(), Failure> {
    let limit = PageLimit::new(1)?;
    let plans = store.list_as::<Plan>(PlanQuery { limit, ..PlanQuery::default() }).await?;
    let subscriptions = SubscriptionQuery { limit, ..SubscriptionQuery::default() };
    let subscriptions = store.list_as::<Subscription>(subscriptions.clone()).await?;
    for (kind, there) in [
        ("plans", !plans.items.is_empty()),
        ("subscriptions", !subscriptions.items.is_empty()),
        ("clients", !store.list_as::<Client>(ClientQuery::All).await?.items.is_empty()),
        ("events", !store.events(&EventQuery::after(0, limit)).await?.items.is_empty()),
    ] {
        if there {
            return Err(Failure::new(format!(
                "the store is not empty: it holds {kind}. Name another --database for the demo"
            )));
        }
    }
    Ok(())
}

async fn live(
    demo: &Demo,
    settings: &Settings,
    store: &Arc<SqliteStore>,
    until: Timestamp,
) -> Result<Outcome, Failure> {
    let begin = Story::begin(until);
    let clock = ManualClock::at(begin);
    let store = CachedStore::new(Arc::clone(store), CacheInvalidator::LAG);
    let service = SubscriptionService::builder(Arc::new(store))
        .clock(clock.clone())
        .ids(SeededRandomness::new(demo.seed))
        .check_users()
        .build();
    // Nobody is given a token of theirs, so nothing must check them later.
    let keys = Keys::generate()?;
    let auth = authenticate(settings, &service, Arc::new(DevelopmentIdentities), &keys)?;
    let bar = bar(None);
    let days = |at: Timestamp| {
        let micros = at.micros().saturating_sub(begin.micros());
        micros.unsigned_abs() / 1_000_000 / SECONDS_A_DAY
    };
    bar.set_length(days(until));
    let progress = |at: Timestamp| {
        if bar.position() != days(at) {
            bar.set_message(at.to_string().chars().take(7).collect::<String>());
            bar.set_position(days(at));
        }
    };
    let dice = Dice::new(demo.seed);
    let two_years = Story::new(service, auth, clock, dice, until, demo.subscriptions);
    let outcome = two_years.live(progress).await;
    bar.finish_and_clear();
    outcome
}

/// Takes all of it into the database, or nothing.
async fn move_in(lived: &SqliteStore, opened: &Opened) -> Result<Counts, Failure> {
    let bar = bar(None);
    bar.set_message("writing");
    let (writer, reader) = tokio::io::duplex(1 << 16);
    let reader = BufReader::new(reader);
    let written = lived.export(writer, |progress| {
        progress.of.into_iter().for_each(|all| bar.set_length(all));
        bar.set_position(progress.records);
    });
    let read = async { opened.import(Users::Accounts, reader, |_| {}).await };
    let (written, read) = tokio::join!(written, read);
    bar.finish_and_clear();
    match (written, read) {
        // Who cannot write any more has nobody who reads.
        (Err(TransferError::Io(_)) | Ok(_), Err(refused)) => Err(refused.into()),
        (Err(failed), _) => Err(failed.into()),
        (Ok(_), Ok(counts)) => Ok(counts),
    }
}

fn tell(outcome: &Outcome, counts: &Counts) {
    fn told<T: Display>(kinds: &BTreeMap<T, u64>) -> String {
        let mut kinds: Vec<_> = kinds.iter().filter(|(_, count)| **count > 0).collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let kinds = kinds.iter().map(|(kind, count)| format!("{count} {kind}"));
        kinds.collect::<Vec<_>>().join(", ")
    }

    for (count, what, more) in [
        (counts.plans, "plans", "one of them withdrawn".to_owned()),
        (counts.users, "users", format!("{} sessions", counts.sessions)),
        (counts.subscriptions, "subscriptions", told(&outcome.subscriptions)),
        (counts.payments, "payments", told(&outcome.payments)),
        (counts.events, "events", "every change has one".to_owned()),
    ] {
        print(&format!("{count:>8} {what:<14} {more}"));
    }
}

/// What to look at first, with lines that work as they stand.
fn suggest(outcome: &Outcome, settings: &Settings) {
    let call = "curl -sH client-id:demo";
    let api = format!("http://{}", settings.listen.0);
    print("Start the server with the same settings, and try:");
    print("");
    print(&format!("  {call} '{api}/subscriptions?status=active&sort=-created_at&limit=5'"));
    if let Some((email, subscription)) = &outcome.example {
        let (id, user) = (subscription.id, subscription.user_id);
        print(&format!("  {call} {api}/subscriptions/{id}"));
        print(&format!("  {call} '{api}/subscriptions?user_id={user}'"));
        let body = format!(r#"{{"access_token": "any", "email": "{email}"}}"#);
        print(&format!(
            "  {call} -H content-type:application/json {api}/authentication/sign-in -d '{body}'"
        ));
    }
}

/// A folder for this run alone, which goes with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, Failure> {
        let name = format!("subscription-demo-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        let told = |error| Failure::new(format!("cannot make {}: {error}", path.display()));
        made.map_err(told)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

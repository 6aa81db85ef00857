//! The command `demo`: fills an empty database with two years of an invented business.
//!
//! The two years are simulated in a temporary database and then imported in one step, so an interrupted run leaves the
//! database empty.

mod business;
mod catalogue;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use subscription_core::auth::DevelopmentIdentities;
use subscription_core::billing::Billing;
use subscription_core::events::Actor;
use subscription_core::store::transfer::{Counts, ImportOptions};
use subscription_core::store::{CacheInvalidator, CachedStore, SqliteOptions, SqliteStore};
use subscription_core::{
    Clock as _, ManualClock, SeededRandomness, SubscriptionService, SubscriptionStatus,
    SystemClock, Timestamp,
};
use tokio::fs::File;
use tokio::io::{AsyncWriteExt as _, BufReader};

use self::business::{Business, Chance, Customer, DAYS, begin};
use super::transfer::bar;
use crate::program::keys::Keys;
use crate::program::open::{Opened, authenticate};
use crate::program::settings::{Console, Database, Listen, Mode, Settings};
use crate::program::{Failure, print};

#[derive(Args)]
pub(crate) struct Demo {
    /// The seed: the same number gives the same records.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// The number of subscriptions.
    #[arg(long, value_name = "NUMBER", default_value_t = 500)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000))]
    subscriptions: u64,

    /// When the two years end, such as 2025-01-31T12:00:00Z. [default: now]
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
}

pub(crate) async fn run(demo: Demo, settings: &Settings) -> Result<(), Failure> {
    if settings.mode == Mode::Production {
        return Err(Failure::new("the invented users cannot sign in: use development mode"));
    }
    if settings.database()? == Database::Memory {
        return Err(Failure::new(
            "records in memory are lost when this command ends: choose another --database",
        ));
    }
    let until = demo.until.unwrap_or_else(|| SystemClock.now());
    let opened = Opened::new(settings, false).await?;
    let folder = std::env::temp_dir().join(format!("subscription-demo-{}", std::process::id()));
    let failure = |error| Failure(format!("cannot create {}: {error}", folder.display()));
    std::fs::DirBuilder::new().mode(0o700).create(&folder).map_err(failure)?;
    let filled = fill(&demo, until, settings, &folder, &opened).await;
    std::fs::remove_dir_all(&folder).ok();
    opened.close().await;
    let (business, counts) = filled?;
    let day = |at: Timestamp| at.to_string().chars().take(10).collect::<String>();
    let from = day(begin(until));
    let to = day(until);
    let database = settings.database()?;
    let Demo { seed, subscriptions, .. } = demo;
    print(&format!(
        "seed {seed}: {subscriptions} subscriptions from {from} to {to}, in {database:?}"
    ));
    let Listen(address) = settings.listen;
    // With `--until`, the server needs a manual clock that starts at that time. With the machine's clock, billing would
    // execute all steps that became due between that time and now.
    let start =
        demo.until.map_or(String::new(), |until| format!(" and --clock manual --clock-at {until}"));
    print(&format!("\nStart the server with the same settings{start}."));
    report(&business, &counts, &format!("http://{address}"));
    let console = match settings.console() {
        Console::Off => return Ok(()),
        Console::On => settings.listen,
        Console::At(address) => address,
    };
    print(&format!("\nThe console shows it all: http://{}/console/", console.0));
    Ok(())
}

async fn fill(
    demo: &Demo,
    until: Timestamp,
    settings: &Settings,
    folder: &Path,
    opened: &Opened,
) -> Result<(Business, Counts), Failure> {
    let store = SqliteOptions::file(folder.join("demo.db")).relaxed().open().await?;
    let store = Arc::new(store);
    let clock = ManualClock::at(begin(until));
    let cached = CachedStore::new(Arc::clone(&store), CacheInvalidator::LAG);
    let service = SubscriptionService::builder(cached)
        .clock(clock.clone())
        .randomness(SeededRandomness::new(demo.seed))
        .check_users()
        .build()
        .by(Actor::Command);
    // The keys need not be stored, because nobody receives a token.
    let verifier = Arc::new(DevelopmentIdentities);
    let keys = Keys::generate()?;
    let auth = authenticate(settings, &service, verifier, &keys)?;
    let customers = Vec::new();
    let plans = Vec::new();
    let payments = Vec::new();
    let chance = Chance(demo.seed);
    let billing = Billing::new(service, settings.billing.clone());
    let business = Business { clock, billing, auth, chance, customers, plans, payments };
    let filled = async {
        // This first transfer copies no records, because the temporary database is still empty. It fails if the
        // database in `opened` is not empty, so that this failure comes before the long simulation.
        transfer(&store, folder, opened).await?;
        let bar = bar(None);
        bar.set_length(DAYS.into());
        let play = business.play(until, demo.subscriptions, |day| bar.set_position(day.into()));
        let business = tokio::select! {
            played = play => played?,
            _ = tokio::signal::ctrl_c() => return Err(Failure::new("stopped: nothing was written")),
        };
        bar.finish_and_clear();
        Ok((business, transfer(&store, folder, opened).await?))
    };
    let filled = filled.await;
    store.close().await;
    filled
}

/// Copies all records of the temporary database into `opened`. If this fails, no record is copied.
async fn transfer(store: &SqliteStore, folder: &Path, opened: &Opened) -> Result<Counts, Failure> {
    let path = folder.join("demo.jsonl");
    let mut file = File::create(&path).await?;
    store.export(&mut file, |_| {}).await?;
    file.flush().await?;
    let file = BufReader::new(File::open(&path).await?);
    Ok(opened.import(file, ImportOptions::default(), |_| {}).await?)
}

/// Prints how many records were created, and requests to try first.
fn report(business: &Business, counts: &Counts, api: &str) {
    fn by_status<T: Display + Ord>(statuses: impl Iterator<Item = T>) -> String {
        let mut counts = BTreeMap::new();
        statuses.for_each(|status| *counts.entry(status).or_insert(0) += 1);
        let counts = counts.iter().map(|(status, count)| format!("{count} {status}"));
        counts.collect::<Vec<_>>().join(", ")
    }

    let pays = |customer: &&Customer| customer.subscription.status == SubscriptionStatus::Active;
    let subscriptions = business.customers.iter().map(|customer| customer.subscription.status);
    print("");
    for (count, what, more) in [
        (counts.plans, "plans", "one of them withdrawn".to_owned()),
        (counts.users, "users", format!("{} sessions", counts.sessions)),
        (counts.subscriptions, "subscriptions", by_status(subscriptions)),
        (counts.payments, "payments", by_status(business.payments.iter())),
        (counts.events, "events", "one for each change".to_owned()),
    ] {
        print(&format!("{count:>8} {what:<14} {more}"));
    }
    let call = "  curl -sH client-id:demo";
    print(&format!("\n{call} '{api}/subscriptions?status=active&sort=-created_at&limit=5'"));
    if let Some(customer) = business.customers.iter().rev().find(pays) {
        let email = &customer.email;
        let subscription = &customer.subscription;
        print(&format!("{call} {api}/subscriptions/{}", subscription.id));
        print(&format!("{call} '{api}/subscriptions?user_id={}'", subscription.user_id));
        let json = "-H content-type:application/json";
        let body = format!(r#"{{"access_token": "any", "email": "{email}"}}"#);
        print(&format!("{call} {json} {api}/authentication/sign-in -d '{body}'"));
    }
}

//! The program is killed while it applies the webhooks of a payment provider: nothing that it answered is lost,
//! and in the end our records are the provider's.

use std::time::Duration;

use serde_json::json;
use subscription_core::providers::{PauseMeans, ProviderKind};
use subscription_core::store::{PageLimit, PaymentQuery, StoreExt as _, SubscriptionQuery};
use subscription_core::{
    Clock as _, Payment, Subscription, SystemClock, SystemRandomness, Timestamp, UserId,
};
use test_support::fake_provider::{
    Account, Event, FakeProvider, KEY, ONE_TIME, PRICES, SECRET, shared,
};
use test_support::simulation::providers::invariants::{AT_THE_END, End, Records};
use test_support::trials::Trial;
use test_support::{seed, trials};

use crate::database::Database;
use crate::http::{Request, text};
use crate::running::{Running, folder, until};

/// The kills of a normal run; `SUBSCRIPTION_TEST_STEPS` asks for another number.
const KILLS: u64 = 4;
/// The changes at the provider before each kill.
const CHANGES: usize = 12;
const APPLYING_MICROS: u64 = 400_000;

pub(crate) fn trials() -> Vec<Trial> {
    trials![blocking: a_kill_while_webhooks_are_applied_loses_none_sqlite]
}

pub(crate) fn trials_with_postgres() -> Vec<Trial> {
    trials![blocking: a_kill_while_webhooks_are_applied_loses_none_postgres]
}

fn a_kill_while_webhooks_are_applied_loses_none_sqlite() {
    kills(
        "kills while webhooks are applied, SQLite",
        &Database::file(),
        ProviderKind::LemonSqueezy,
    );
}

fn a_kill_while_webhooks_are_applied_loses_none_postgres() {
    kills(
        "kills while webhooks are applied, PostgreSQL",
        &Database::schema(),
        ProviderKind::Stripe,
    );
}

fn now() -> i64 {
    let begin: Timestamp = "1970-01-01T00:00:00Z".parse().unwrap();
    i64::try_from(SystemClock.now().since(begin).as_secs()).unwrap()
}

/// Delivers webhooks until all are answered, or so many.
fn deliver(server: &Running, provider: &FakeProvider, most: usize) {
    for _ in 0..most {
        let (event, kind): (Event, _) = {
            let mut account = shared(&provider.account);
            if account.outbox.is_empty() {
                return;
            }
            (account.outbox.remove(0), account.kind)
        };
        let webhook = event.signed(kind, SECRET, now());
        let request =
            Request::post("/provider-webhooks/shop", &String::from_utf8(webhook.body).unwrap());
        let request = request.header(webhook.header, &webhook.signature);
        server.connect().sure(&request).expect(200);
    }
}

/// The number of events in a state that is not final.
fn open(server: &Running) -> usize {
    let count = |state: &str| {
        let path = format!("/provider-events?state={state}&limit=100");
        let page = server.connect().sure(&Request::get(&path)).expect(200).json();
        page["data"].as_array().unwrap().len()
    };
    count("pending") + count("waiting") + count("failed")
}

#[expect(clippy::too_many_lines, reason = "one story from the start to the last kill")]
fn kills(story: &str, database: &Database, kind: ProviderKind) {
    let (rng, kills) = (seed::rng(story), seed::steps(KILLS));
    let provider = FakeProvider::start(Account::new(kind, now()).into_shared());
    let users: Vec<_> = (0..3)
        .map(|_| UserId::new(SystemClock.now(), &SystemRandomness).unwrap().to_string())
        .collect();
    let settings = folder().join("settings.toml");
    let plans = PRICES[..=ONE_TIME].iter();
    let plans: Vec<_> =
        plans.map(|price| format!("{} = \"{}\"", price.id(kind), price.slug)).collect();
    let file = format!(
        "[providers.shop]\nkind = \"{kind}\"\nsigning_secrets = [\"{SECRET}\"]\napi_key = \"{KEY}\"\n\
         api_base = \"{}\"\n[providers.shop.plans]\n{}\n",
        provider.base(),
        plans.join("\n")
    );
    std::fs::write(&settings, file).unwrap();
    let more = ["--users", "any", "--config", settings.to_str().unwrap()];
    let start = || Running::start(&folder(), &database.url(), &more);
    let mut records = Records::default();
    let first = start();
    for price in &PRICES[..=ONE_TIME] {
        let cycle = match price.months {
            0 => "one_time",
            12 => "yearly",
            _ => "monthly",
        };
        let plan = json!({
            "name": price.slug, "slug": price.slug, "price": price.decimal(price.amount),
            "currency": price.currency, "billing_cycle": cycle,
        });
        let made = first.connect().sure(&Request::post("/subscription-plans", &plan.to_string()));
        let id = text(&made.expect(201).json(), "id").parse().unwrap();
        records.plans.insert(price.slug, id);
    }
    records.pause = PauseMeans::Keep;
    first.stop();

    for _ in 0..kills {
        let server = start();
        for _ in 0..CHANGES {
            let mut account = shared(&provider.account);
            account.now = now();
            account.live(&rng, &users);
        }
        let asked = provider.requests().len();
        deliver(&server, &provider, 5 + rng.below(20));
        // Some events need no object, such as those of orders that are no subscriptions.
        let is_fetched = || provider.requests().len() > asked;
        until("some objects are fetched, if any", || is_fetched() || open(&server) == 0);
        std::thread::sleep(Duration::from_micros(rng.below(APPLYING_MICROS)));
        server.kill();
        database.check_file();
    }

    let last = start();
    deliver(&last, &provider, usize::MAX);
    until("nothing is open", || open(&last) == 0);
    last.stop();
    println!("{story}: {kills} kills, {} requests to the provider", provider.requests().len());
    assert_eq!(provider.writes(), 0);
    database.look(async |store| {
        let query = SubscriptionQuery::default().with_limit(PageLimit::MAX);
        let subscriptions = store.list_as::<Subscription>(query).await.unwrap().items;
        let mut payments = Vec::new();
        for of in &subscriptions {
            let query = PaymentQuery::of(of.id).with_limit(PageLimit::MAX);
            payments.extend(store.list_as::<Payment>(query).await.unwrap().items);
        }
        let end = End { subscriptions, payments, ..End::default() };
        records.take(&end);
        let account = shared(&provider.account);
        for (name, holds) in &AT_THE_END {
            holds(&account, &records, &end).unwrap_or_else(|detail| panic!("{name}: {detail}"));
        }
    });
}

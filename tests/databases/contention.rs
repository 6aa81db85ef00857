//! Many writers of one record: none is turned away, however many there are.
//!
//! How many writes a second they make together is printed, not asserted.

#![expect(clippy::indexing_slicing, reason = "a test that fails panics")]

use std::sync::Arc;
use std::time::Instant;

use secrecy::SecretSlice;
use subscription_core::auth::{
    DevelopmentIdentities, KeyRing, Origin, ServerKeys, SignIn, SigningKey,
};
use subscription_core::billing::{Billing, Policy};
use subscription_core::providers::ProviderKind;
use subscription_core::store::PostgresOptions;
use subscription_core::{
    Authentication, BillingCycle, Field, NewPlan, NewSubscription, Store, SubscriptionChanges,
    SubscriptionId, SubscriptionService, SubscriptionStatus, SystemRandomness, UserId,
};
use test_support::billing::{plan_races, races};
use test_support::cluster::fresh_schema;
use test_support::seed::steps;
use test_support::simulation::providers::races::one_external_id;
use test_support::trials::{Trial, trial};
use tokio::task::JoinSet;

use crate::{postgres, sqlite};

/// Writes of one run, by all writers together.
const WRITES: usize = 256;

/// The number of rounds: `SUBSCRIPTION_TEST_STEPS`, or `by_default`. The races in memory take more of them.
pub(crate) fn rounds(by_default: u64) -> usize {
    usize::try_from(steps(by_default)).unwrap()
}

pub(crate) fn trials() -> Vec<Trial> {
    let store = || async { Arc::new(sqlite::fresh().await) as Arc<dyn Store> };
    vec![
        trial("contention::sqlite::races_with_the_clock_have_one_order", move || async move {
            let store = store().await;
            races::all(vec![Arc::clone(&store), store], rounds(1)).await;
        }),
        trial("contention::sqlite::changes_of_plan_have_one_order", move || async move {
            let store = store().await;
            plan_races::all(vec![Arc::clone(&store), store], rounds(1)).await;
        }),
        trial("contention::sqlite::a_provider_and_a_caller_make_one_record", move || async move {
            let store = store().await;
            for kind in ProviderKind::ALL {
                one_external_id(&[Arc::clone(&store)], kind, rounds(10)).await;
            }
        }),
        trial("contention::sqlite::creates_at_once_give_one_trial", move || async move {
            creates_at_once_give_one_trial(vec![store().await]).await;
        }),
        trial("contention::sqlite::no_writer_is_turned_away", move || async move {
            no_writer_is_turned_away("SQLite", vec![store().await]).await;
        }),
        trial("contention::sqlite::no_sign_in_is_turned_away", move || async move {
            no_sign_in_is_turned_away("SQLite", vec![store().await]).await;
        }),
    ]
}

pub(crate) fn trials_with_a_server() -> Vec<Trial> {
    let two = || async {
        let schema = fresh_schema(postgres::shared()).await;
        let mut stores: Vec<Arc<dyn Store>> = Vec::new();
        for _ in 0..2 {
            let store =
                PostgresOptions::url(postgres::shared()).unwrap().schema(&schema).connections(8);
            stores.push(Arc::new(store.open().await.unwrap()));
        }
        stores
    };
    vec![
        trial("contention::postgres::races_with_the_clock_have_one_order", move || async move {
            races::all(two().await, rounds(1)).await;
        }),
        trial("contention::postgres::changes_of_plan_have_one_order", move || async move {
            plan_races::all(two().await, rounds(1)).await;
        }),
        trial(
            "contention::postgres::a_provider_and_a_caller_make_one_record",
            move || async move {
                let stores = two().await;
                for kind in ProviderKind::ALL {
                    one_external_id(&stores, kind, rounds(10)).await;
                }
            },
        ),
        trial("contention::postgres::creates_at_once_give_one_trial", move || async move {
            creates_at_once_give_one_trial(two().await).await;
        }),
        trial("contention::postgres::no_writer_is_turned_away", move || async move {
            let stores = two().await.split_off(1);
            no_writer_is_turned_away("PostgreSQL", stores).await;
        }),
        trial("contention::postgres::no_sign_in_is_turned_away", move || async move {
            no_sign_in_is_turned_away("PostgreSQL", two().await).await;
        }),
        trial(
            "contention::postgres::no_writer_of_two_instances_is_turned_away",
            move || async move { no_writer_is_turned_away("two over PostgreSQL", two().await).await },
        ),
    ]
}

fn service(store: &Arc<dyn Store>) -> SubscriptionService {
    let builder = SubscriptionService::builder(Arc::clone(store));
    builder.pause(|span| Box::pin(tokio::time::sleep(span))).build()
}

/// Runs writers in closed loops, the same number over each store, and gives how many were refused and
/// how many writes there were in a second.
async fn in_closed_loops<F: Future<Output = bool> + Send + 'static>(
    writers: usize,
    write: impl Fn(usize, usize) -> F + Clone + Send + 'static,
) -> (usize, u128) {
    let (mut tasks, begun) = (JoinSet::new(), Instant::now());
    for writer in 0..writers {
        let write = write.clone();
        tasks.spawn(async move {
            let mut refused = 0;
            for nth in 0..WRITES / writers {
                refused += usize::from(!write(writer, nth).await);
            }
            refused
        });
    }
    let mut refused = 0;
    while let Some(done) = tasks.join_next().await {
        refused += done.unwrap();
    }
    (refused, WRITES as u128 * 1_000_000 / begun.elapsed().as_micros().max(1))
}

async fn subscription(service: &SubscriptionService) -> SubscriptionId {
    let parsed = |text: &str| text.parse().unwrap();
    let new = NewPlan::new(
        "Pro".parse().unwrap(),
        parsed("pro"),
        "5".parse().unwrap(),
        BillingCycle::MONTHLY,
    );
    let plan = service.create_plan(new).await.unwrap().id;
    let user = UserId::new(service.now(), &SystemRandomness).unwrap();
    service.create_subscription(NewSubscription::new(user, plan)).await.unwrap().id
}

async fn no_writer_is_turned_away(kind: &str, stores: Vec<Arc<dyn Store>>) {
    let services: Vec<_> = stores.iter().map(service).collect();
    let id = subscription(&services[0]).await;
    let mut told = Vec::new();
    for writers in [1, 2, 8, 32, 64] {
        let services = services.clone();
        let write = move |writer: usize, nth: usize| {
            let service = services[writer % services.len()].clone();
            async move {
                let external = format!("{writer} {nth}").parse().unwrap();
                let external_subscription_id = Field::Value(external);
                let changes =
                    SubscriptionChanges { external_subscription_id, ..Default::default() };
                service.update_subscription(id, changes).await.is_ok()
            }
        };
        let (refused, rate) = in_closed_loops(writers, write).await;
        told.push((writers, refused, rate));
    }
    for (writers, refused, rate) in &told {
        println!(
            "{kind}: {writers} writers of one record, {rate} writes/s, {refused} of {WRITES} refused"
        );
    }
    assert!(told.iter().all(|(_, refused, _)| *refused == 0), "{told:?}");
}

fn authentication(service: &SubscriptionService) -> Authentication {
    let secret = |byte: u8| SecretSlice::from(vec![byte; 32]);
    let keys = KeyRing::new(SigningKey::ed25519(&secret(7)).unwrap());
    let server_keys = ServerKeys::new(1, secret(8)).unwrap();
    let identities = Arc::new(DevelopmentIdentities);
    Authentication::builder(service.clone(), identities, keys, server_keys).build()
}

async fn no_sign_in_is_turned_away(kind: &str, stores: Vec<Arc<dyn Store>>) {
    let instances: Vec<_> = stores.iter().map(|store| authentication(&service(store))).collect();
    let person = |token: String| SignIn {
        client_id: "web".parse().unwrap(),
        access_token: token.into(),
        email: "ada@example.com".parse().unwrap(),
        origin: Origin::default(),
    };
    instances[0].sign_up(person("first".into())).await.unwrap();
    for writers in [1, 32] {
        let instances = instances.clone();
        let write = move |writer: usize, nth: usize| {
            let auth = instances[writer % instances.len()].clone();
            let person = person(format!("{writer} {nth}"));
            async move { auth.sign_in(person).await.is_ok() }
        };
        let (refused, rate) = in_closed_loops(writers, write).await;
        println!(
            "{kind}: {writers} sign in as one user, {rate} sign-ins/s, {refused} of {WRITES} refused"
        );
        assert_eq!(refused, 0);
    }
}

/// Twenty creates at once for a user who has no subscription yet, with a plan that has a trial.
async fn creates_at_once_give_one_trial(stores: Vec<Arc<dyn Store>>) {
    let services: Vec<_> = stores.into_iter().map(SubscriptionService::new).collect();
    let services: Vec<_> =
        services.into_iter().map(|service| Billing::new(service, Policy::default())).collect();
    let service = services[0].service();
    let (name, price) = ("Pro".parse().unwrap(), "10".parse().unwrap());
    let plan = NewPlan {
        currency: Some("EUR".parse().unwrap()),
        trial_period: Some("P14D".parse().unwrap()),
        ..NewPlan::new(name, "pro".parse().unwrap(), price, BillingCycle::MONTHLY)
    };
    let plan = service.create_plan(plan).await.unwrap();
    for _ in 0..5 {
        let user = UserId::new(service.now(), &SystemRandomness).unwrap();
        let mut creates = JoinSet::new();
        for nth in 0..20 {
            let service = services[nth % services.len()].service().clone();
            let new = NewSubscription::new(user, plan.id);
            creates.spawn(async move { service.create_subscription(new).await.unwrap() });
        }
        let made = creates.join_all().await;
        let trials = made.iter().filter(|it| it.status == SubscriptionStatus::OnTrial).count();
        assert_eq!((made.len(), trials), (20, 1));
    }
}

//! Connections that fall silent in the middle of a call, as behind a firewall that forgets them: the call ends in time,
//! and the next one works.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use subscription_core::store::{
    ChangeSet, EventQuery, Guard, PageLimit, PlanQuery, PostgresOptions, PostgresStore, Record,
    StoreError, StoreExt as _,
};
use subscription_core::{Plan, Store as _, SubscriptionService};
use test_support::cluster::Cluster;
use test_support::service_world::new_plan;
use test_support::trials;
use test_support::trials::Trial;

use super::proxy::{Answer, Proxy};
use crate::records::plan;

pub(crate) fn trials() -> Vec<Trial> {
    trials![a_connection_that_falls_silent_anywhere_holds_up_no_call_for_good]
}

/// A call may take both of these.
const PATIENCE: Duration = Duration::from_millis(700);

/// The calls, each with the number of messages of which the answers are lost in turn.
const CALLS: [(&str, i64); 4] = [("feed", 6), ("transaction", 6), ("empty commit", 3), ("list", 1)];

async fn call(store: &PostgresStore, call: &str, slug: &str) -> Result<(), StoreError> {
    match call {
        "feed" => store.events(&EventQuery::after(0, PageLimit::MAX)).await.map(drop),
        "transaction" => {
            let new = plan(slug);
            let guards = vec![Guard::PlanUnused(new.id)];
            let writes = vec![Record::from(new)];
            store.commit(ChangeSet { guards, writes, ..ChangeSet::default() }).await
        }
        "list" => store.list_as::<Plan>(PlanQuery::default()).await.map(drop),
        _ => store.commit(ChangeSet::default()).await,
    }
}

async fn a_connection_that_falls_silent_anywhere_holds_up_no_call_for_good() {
    let cluster = Cluster::start(false).unwrap();
    let left = Arc::new(AtomicI64::new(0));
    let counted = Arc::clone(&left);
    let proxy = Proxy::of(&cluster, move |_| {
        let is_it = counted.fetch_sub(1, Ordering::SeqCst) == 1;
        if is_it { Answer::Silence } else { Answer::Sent }
    });
    let how = PostgresOptions::url(&proxy.url()).unwrap().connections(2);
    let how = how.statement_timeout(PATIENCE).patience(PATIENCE);
    let store = Arc::new(how.open().await.unwrap());
    let service = SubscriptionService::new(Arc::clone(&store));

    for (kind, messages) in CALLS {
        for nth in 1..=messages {
            // An event that the feed must number.
            let slug = format!("{}-{nth}", kind.replace(' ', "-"));
            service.create_plan(new_plan(&slug)).await.unwrap();

            left.store(nth, Ordering::SeqCst);
            let new = format!("{slug}-silent");
            let silent = call(&store, kind, &new);
            let silent = tokio::time::timeout(Duration::from_mins(1), silent).await;
            left.store(0, Ordering::SeqCst);

            silent.unwrap_or_else(|_| panic!("{kind}, message {nth}: it waits for ever")).ok();
            let again = call(&store, kind, &format!("{slug}-again")).await;
            again.unwrap_or_else(|error| panic!("{kind}, message {nth}: {error:?}"));
        }
    }
}

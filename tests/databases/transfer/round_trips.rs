//! There and back.

use subscription_core::Store;
use subscription_core::plans::Plan;
use subscription_core::store::transfer::Progress;
use subscription_core::store::{
    ChangeSet, Delete, EventQuery, Guard, PageLimit, Record, StoreError, StoreExt as _, Unique,
};
use subscription_core::subscriptions::{
    BillingState, Quantity, ScheduledChange, Subscription, Terms,
};
use test_support::seed::steps;
use test_support::trials;
use test_support::trials::Trial;

use super::refusals::forged;
use super::sample_records::SampleRecords;
use super::{Movable, commit};
use crate::records::{plan, subscription};
use crate::{postgres, sqlite};

pub(super) fn trials() -> Vec<Trial> {
    trials![
        a_file_is_read_and_written_alike,
        an_empty_store_moves_too,
        the_feed_goes_on_where_it_was_though_all_events_are_forgotten,
        both_ways_tell_how_far_they_are,
        a_store_goes_on_after_a_move,
        a_scheduled_plan_is_in_use_after_a_move,
    ]
}

pub(super) fn trials_with_a_server() -> Vec<Trial> {
    trials![
        from_a_file_to_a_server_and_back_is_the_same_to_the_byte,
        from_a_server_to_a_file_and_back_is_the_same_to_the_byte,
        every_record_reads_back_equal_from_the_other_kind,
        a_server_goes_on_after_a_move,
        a_scheduled_plan_is_in_use_in_a_server_after_a_move,
        the_feed_of_a_server_goes_on_though_all_events_are_forgotten,
    ]
}

#[track_caller]
fn assert_same(one: &[u8], other: &[u8]) {
    let lines = |file: &[u8]| String::from_utf8(file.to_vec()).unwrap();
    for (number, (one, other)) in lines(one).lines().zip(lines(other).lines()).enumerate() {
        assert_eq!(one, other, "line {}", number + 1);
    }
    assert_eq!(one.len(), other.len());
}

async fn there_and_back(
    home: &impl Movable,
    away: &impl Movable,
    back: &impl Movable,
    sets: usize,
) {
    SampleRecords::new().fill(home, sets).await;
    let file = home.moved_out().await;

    let counts = away.move_in(&file).await.unwrap();
    let from_away = away.moved_out().await;
    back.move_in(&from_away).await.unwrap();

    assert_eq!(counts.subscriptions, sets as u64);
    assert_same(&from_away, &file);
    assert_same(&back.moved_out().await, &file);
}

async fn a_file_is_read_and_written_alike() {
    let (home, away, back) = (sqlite::fresh().await, sqlite::fresh().await, sqlite::fresh().await);
    there_and_back(&home, &away, &back, 200).await;
}

async fn from_a_file_to_a_server_and_back_is_the_same_to_the_byte() {
    let (home, away, back) =
        (sqlite::fresh().await, postgres::fresh().await, sqlite::fresh().await);
    there_and_back(&home, &away, &back, 520).await;
}

async fn from_a_server_to_a_file_and_back_is_the_same_to_the_byte() {
    let (home, away, back) =
        (postgres::fresh().await, sqlite::fresh().await, postgres::fresh().await);
    // The way from a file has several pages of an export from each of both databases.
    let sets = usize::try_from(steps(120)).unwrap();
    there_and_back(&home, &away, &back, sets).await;
}

async fn every_record_reads_back_equal_from_the_other_kind() {
    let (home, away) = (sqlite::fresh().await, postgres::fresh().await);
    let records = SampleRecords::new().one_of_each();
    commit(&home, records.clone()).await;

    away.move_in(&home.moved_out().await).await.unwrap();

    for record in records {
        let found = away.get(&record.key()).await.unwrap();
        assert_eq!(found, Some(record));
    }
}

/// The column of the scheduled plan is filled from the record, whatever the file says.
async fn scheduled_plans_move(home: &impl Movable, away: &impl Movable, later: &impl Movable) {
    let (own, next) = (plan("own"), plan("next"));
    let terms = Terms {
        subscription_plan_id: next.id,
        billing_cycle: next.billing_cycle,
        price: next.price,
        currency: "EUR".parse().unwrap(),
        quantity: Quantity::ONE,
    };
    let scheduled_change = Some(ScheduledChange::ChangePlan(terms));
    let billing = BillingState { scheduled_change, ..BillingState::default() };
    let held = Subscription { billing: Some(Box::new(billing)), ..subscription(&own) };
    let records = [own.into(), next.clone().into(), held.clone().into()];
    commit(home, records.to_vec()).await;
    let file = home.moved_out().await;

    away.move_in(&file).await.unwrap();
    let column = format!(",\"scheduled_plan_id\":\"{}\"", next.id);
    let without = String::from_utf8(file.clone()).unwrap();
    let without = forged(&without.replace(&column, ",\"scheduled_plan_id\":null"), |_| {});
    assert!(without.len() < file.len());
    later.move_in(without.as_bytes()).await.unwrap();

    assert_same(&away.moved_out().await, &file);
    assert_same(&later.moved_out().await, &file);
    let delete = |record: &Record| Delete { key: record.key(), version: record.version() };
    let [_, next_plan, held] = &records;
    let deleting = |deletes: Vec<Delete>| {
        let guards = vec![Guard::PlanUnused(next.id)];
        ChangeSet { guards, deletes, ..ChangeSet::default() }
    };
    for store in [away as &dyn Store, later] {
        let refused = store.commit(deleting(vec![delete(next_plan)])).await;
        assert!(matches!(refused, Err(StoreError::PlanInUse(id)) if id == next.id), "{refused:?}");
        let found = store.get(&held.key()).await.unwrap();
        assert_eq!(found.as_ref(), Some(held));
        store.commit(deleting(vec![delete(next_plan), delete(held)])).await.unwrap();
    }
}

async fn a_scheduled_plan_is_in_use_after_a_move() {
    let (home, away, later) = (sqlite::fresh().await, sqlite::fresh().await, sqlite::fresh().await);
    scheduled_plans_move(&home, &away, &later).await;
}

async fn a_scheduled_plan_is_in_use_in_a_server_after_a_move() {
    let (home, away, later) =
        (sqlite::fresh().await, postgres::fresh().await, postgres::fresh().await);
    scheduled_plans_move(&home, &away, &later).await;
}

async fn an_empty_store_moves_too() {
    let (home, away) = (sqlite::fresh().await, sqlite::fresh().await);
    let file = home.moved_out().await;

    let counts = away.move_in(&file).await.unwrap();

    assert_eq!(counts.total(), 0);
    assert_eq!(String::from_utf8(file).unwrap().lines().count(), 2);
}

async fn feed_goes_on(home: &impl Movable, away: &impl Movable) {
    let mut samples = SampleRecords::new();
    samples.fill(home, 3).await;
    let events = home.events(&EventQuery::after(0, PageLimit::MAX)).await.unwrap().items;
    let last = events.last().unwrap().sequence;
    let forget = ChangeSet { forget_events: Some(last), ..ChangeSet::default() };
    home.commit(forget).await.unwrap();

    away.move_in(&home.moved_out().await).await.unwrap();
    samples.fill(away, 1).await;

    let events = away.events(&EventQuery::after(0, PageLimit::MAX)).await.unwrap().items;
    assert_eq!(events.first().unwrap().sequence, last + 1);
}

async fn the_feed_goes_on_where_it_was_though_all_events_are_forgotten() {
    feed_goes_on(&sqlite::fresh().await, &sqlite::fresh().await).await;
}

async fn the_feed_of_a_server_goes_on_though_all_events_are_forgotten() {
    feed_goes_on(&sqlite::fresh().await, &postgres::fresh().await).await;
    feed_goes_on(&postgres::fresh().await, &sqlite::fresh().await).await;
}

async fn goes_on(home: &impl Movable, away: &impl Movable) {
    let mut samples = SampleRecords::new();
    samples.fill(home, 20).await;
    let taken = plan("taken");
    commit(home, vec![Record::from(taken.clone())]).await;
    away.move_in(&home.moved_out().await).await.unwrap();
    let last = away
        .events(&EventQuery::after(0, PageLimit::MAX))
        .await
        .unwrap()
        .items
        .last()
        .unwrap()
        .sequence;

    let writes = vec![Record::from(plan("taken"))];
    let refused = away.commit(ChangeSet { writes, ..ChangeSet::default() }).await;
    samples.fill(away, 1).await;
    let changed = crate::records::renamed(&taken, "Renamed");
    commit(away, vec![Record::from(changed.clone())]).await;

    assert!(matches!(refused, Err(StoreError::Taken(Unique::PlanSlug))), "{refused:?}");
    assert!(!away.events(&EventQuery::after(last, PageLimit::MAX)).await.unwrap().items.is_empty());
    assert_eq!(away.get_as::<Plan>(&taken.id).await.unwrap().as_deref(), Some(&changed));
}

async fn a_store_goes_on_after_a_move() {
    goes_on(&sqlite::fresh().await, &sqlite::fresh().await).await;
}

async fn a_server_goes_on_after_a_move() {
    goes_on(&sqlite::fresh().await, &postgres::fresh().await).await;
}

async fn both_ways_tell_how_far_they_are() {
    let (home, away) = (sqlite::fresh().await, sqlite::fresh().await);
    SampleRecords::new().fill(&home, 600).await;
    let (mut written, mut read): (Vec<Progress>, Vec<Progress>) = Default::default();

    let file = home.write(|progress| written.push(progress)).await.unwrap();
    let counts = away.read(&file, |progress| read.push(progress)).await.unwrap();

    for told in [&written, &read] {
        assert!(told.len() > 10, "{told:?}");
        assert!(told.is_sorted_by_key(|progress| progress.records));
        let last = told.last().unwrap();
        assert_eq!((last.kind, last.records), ("events", counts.total()));
    }
    assert!(written.iter().all(|progress| progress.of == Some(counts.total())));
    assert_eq!(read.last().unwrap().bytes, file.len() as u64);
}

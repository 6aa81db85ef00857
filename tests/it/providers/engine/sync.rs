//! Syncs: catch-up, sweep and backfill.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use subscription_core::providers::{
    ApiFailed, ObjectKind, ObjectList, ObservedNow, SyncCounts, SyncKind, SyncStep,
};
use subscription_core::{SubscriptionStatus, Timestamp};

use super::world::{ADA, World, at, invoice, slug, tea, unavailable, user};

/// Runs a sync to its end.
pub(super) async fn sync(world: &World, kind: SyncKind, dry_run: bool) -> SyncCounts {
    loop {
        let step = page(world, kind, dry_run).await;
        if step.report.finished_at.is_some() {
            return step.report.counts;
        }
        if let Some(next) = step.next_at {
            world.clock.set(next);
        }
    }
}

async fn page(world: &World, kind: SyncKind, dry_run: bool) -> SyncStep {
    world.providers.sync_page(&slug("shop"), kind, dry_run).await.unwrap()
}

/// Five subscriptions of a bound customer, and the invoice of one.
async fn shop() -> World {
    let world = World::new().await;
    let all: Vec<_> = ["1", "2", "3", "4", "5"].map(|id| tea(id, "active")).into();
    for it in &all {
        world.api.set(ObjectKind::Subscription, it);
    }
    world.api.list("subscriptions", all);
    world.api.set(ObjectKind::Invoice, &invoice("9", "1", 999));
    world.api.list("invoices", vec![invoice("9", "1", 999)]);
    world.providers.bind_customer(&slug("shop"), &"31".parse().unwrap(), user(ADA)).await.unwrap();
    world
}

#[tokio::test]
async fn a_sync_makes_all_records_from_the_pages_and_the_next_finds_them_the_same() {
    let world = shop().await;

    let dry = sync(&world, SyncKind::All, true).await;
    assert_eq!((dry.made, world.subscriptions().await.len()), (6, 0), "nothing is written");
    assert_eq!(world.documents("provider_progress").await.len(), 0);
    let first = sync(&world, SyncKind::All, false).await;
    let links = world.documents("provider_link").await;
    let second = sync(&world, SyncKind::Nightly, false).await;

    assert_eq!((first.made, first.drift), (6, 0));
    assert_eq!((second.made, second.same, second.drift), (0, 6, 0));
    assert_eq!(world.documents("provider_link").await, links, "the same is not written");
    assert_eq!(world.states().await, [""; 0], "what is applied leaves no event");
    let objects = world.api.fetched.lock().unwrap();
    assert!(
        objects.iter().all(|it| it.contains("Subscriptions")
            || it.contains("Invoices")
            || it.contains("Orders")
            || it == "subscription 1"),
        "{objects:?}"
    );
}

#[tokio::test]
async fn a_difference_without_an_event_is_drift_and_one_with_an_event_is_not() {
    let world = shop().await;
    sync(&world, SyncKind::All, false).await;
    let mut all: Vec<_> = ["1", "2", "3"].map(|id| tea(id, "active")).into();
    all[0] = tea("1", "expired");
    all[1] = tea("2", "expired");
    for it in &all {
        world.api.set(ObjectKind::Subscription, it);
    }
    world.api.list("subscriptions", all);
    world.webhook("subscriptions", "2", None).await;

    let counts = sync(&world, SyncKind::Nightly, false).await;

    assert_eq!((counts.changed, counts.drift, counts.same), (2, 1, 2));
    assert_eq!(world.providers.counters()[&slug("shop")].drift, 1);
    let expired = world.subscriptions().await;
    let expired = expired.iter().filter(|it| it.status == SubscriptionStatus::Expired).count();
    assert_eq!(expired, 2);
    assert_eq!(sync(&world, SyncKind::Nightly, false).await.drift, 0);
}

#[tokio::test]
async fn a_difference_whose_event_waits_is_not_drift() {
    let world = shop().await;
    sync(&world, SyncKind::All, false).await;
    let mut moved = tea("1", "active");
    moved["attributes"]["variant_id"] = json!(601);
    moved["attributes"]["product_id"] = json!(600);
    world.api.set(ObjectKind::Subscription, &moved);
    world.api.list("subscriptions", vec![moved]);
    world.webhook("subscriptions", "1", None).await;
    assert_eq!(world.advance().await, ["subscription 1 waiting:unknown_plan"]);
    world.plan("gold", &json!({ "variants": ["601"] })).await;

    let counts = sync(&world, SyncKind::Nightly, false).await;

    assert_eq!((counts.changed, counts.drift), (1, 0));
}

#[tokio::test]
async fn an_outage_within_a_page_counts_no_object_twice() {
    let world = shop().await;
    sync(&world, SyncKind::All, false).await;
    let second = tea("2", "expired");
    world.api.list("subscriptions", vec![tea("1", "active"), second.clone()]);
    world.api.set(ObjectKind::Subscription, &second);
    world.api.fails_object.store(true, Ordering::SeqCst);
    let held = page(&world, SyncKind::Nightly, false).await;
    assert_eq!((held.report.counts.same, held.report.counts.changed), (1, 0));
    world.api.fails_object.store(false, Ordering::SeqCst);
    world.clock.set(held.next_at.unwrap());

    let counts = sync(&world, SyncKind::Nightly, false).await;

    assert_eq!((counts.same, counts.changed), (2, 1), "one of them is an invoice");
}

#[tokio::test]
async fn a_nightly_sync_reads_ninety_days_of_invoices_and_one_of_all_reads_everything() {
    for (kind, since) in
        [(SyncKind::Nightly, at("2025-10-07T09:00:00Z")), (SyncKind::All, Timestamp::MIN)]
    {
        let world = World::new().await;

        sync(&world, kind, false).await;

        let invoices = format!("{:?} None", ObjectList::Invoices(since));
        assert!(world.api.fetched.lock().unwrap().contains(&invoices), "{invoices}");
    }
}

#[tokio::test]
async fn the_user_whom_a_caller_named_for_an_object_is_kept_until_a_sync_finds_it() {
    let world = World::new().await;
    world.now(ObjectKind::Subscription, "1", Some(ADA)).await;
    assert_eq!(world.states().await, ["subscription 1 waiting:not_found"]);
    world.api.set(ObjectKind::Subscription, &tea("1", "active"));
    world.api.list("subscriptions", vec![tea("1", "active")]);

    let counts = sync(&world, SyncKind::All, false).await;

    assert_eq!((counts.made, world.subscription().await.user_id), (1, user(ADA)));
}

#[tokio::test]
async fn an_object_of_a_page_that_is_older_than_the_link_is_fetched_again() {
    let world = shop().await;
    sync(&world, SyncKind::All, false).await;
    // The page still shows the state from before.
    world.api.list("subscriptions", vec![tea("1", "expired")]);

    let counts = sync(&world, SyncKind::Nightly, false).await;

    assert_eq!((counts.changed, counts.drift), (0, 0));
}

#[tokio::test]
async fn a_sync_goes_on_after_a_crash_and_an_outage() {
    let world = shop().await;
    page(&world, SyncKind::All, false).await;
    let world = world.restarted(|source| source);

    let second = page(&world, SyncKind::Nightly, false).await;
    assert_eq!((second.list_read, second.list_total), (4, Some(5)), "the second page");
    assert_eq!(second.report.kind, SyncKind::All, "it is the same sync");
    *world.api.fails.lock().unwrap() = Some(unavailable);
    let held = page(&world, SyncKind::All, false).await;
    assert!(held.next_at.is_some() && held.report.finished_at.is_none());
    *world.api.fails.lock().unwrap() = None;
    world.clock.set(held.next_at.unwrap());

    assert_eq!(sync(&world, SyncKind::All, false).await.made, 6);
    let overview = world.providers.overview().await.unwrap();
    assert_eq!(overview[0].last_sync.as_ref().unwrap().counts.made, 6);
    assert_eq!(overview[0].running_sync, None);
}

#[tokio::test]
async fn an_object_that_waits_is_kept_as_an_event_and_applied_later() {
    let world = World::new().await;
    world.api.set(ObjectKind::Subscription, &tea("1", "active"));
    world.api.list("subscriptions", vec![tea("1", "active")]);

    let counts = sync(&world, SyncKind::All, false).await;

    assert_eq!(counts.waiting, 1);
    assert_eq!(world.states().await, ["subscription 1 waiting:unknown_customer"]);
    assert_eq!(&*world.events().await[0].event.key, "sync:subscription:1");
    world.providers.bind_customer(&slug("shop"), &"31".parse().unwrap(), user(ADA)).await.unwrap();
    assert_eq!(world.advance().await, ["subscription 1 applied"]);
}

#[tokio::test]
async fn one_object_is_compared_by_its_external_id() {
    let world = shop().await;

    let found =
        world.providers.sync_object(&slug("shop"), &"ls_inv_9".parse().unwrap(), false).await;

    assert!(matches!(found.unwrap(), ObservedNow::Subscription(_)));
    assert_eq!(world.payments().await.len(), 1);
    let other = world.providers.sync_object(&slug("shop"), &"sub_1".parse().unwrap(), false).await;
    assert_eq!(other.unwrap_err().code(), "validation_failed");
}

#[tokio::test]
async fn a_page_that_cannot_be_read_holds_the_sync_up_and_nothing_else() {
    let world = shop().await;
    *world.api.fails.lock().unwrap() = Some(|| ApiFailed::Unreadable("no JSON".into()));

    let held = page(&world, SyncKind::All, false).await;

    assert!(held.report.finished_at.is_none() && held.next_at.is_some(), "{held:?}");
    *world.api.fails.lock().unwrap() = None;
    let found =
        world.providers.sync_object(&slug("shop"), &"ls_inv_9".parse().unwrap(), false).await;
    assert!(matches!(found, Ok(ObservedNow::Subscription(_))), "{found:?}");
    world.clock.set(held.next_at.unwrap());
    assert_eq!(sync(&world, SyncKind::All, false).await.made, 4);
}

#[tokio::test]
async fn a_sync_is_due_every_night_and_when_somebody_asks() {
    let world = World::new().await;

    let (due, next) = world.providers.due_sync().await.unwrap();
    assert_eq!((due, next.unwrap().to_string().as_str()), (None, "2026-01-06T03:00:00.000000Z"));
    world.providers.request_sync(&slug("shop")).await.unwrap();
    let (due, _) = world.providers.due_sync().await.unwrap();
    assert_eq!(due, Some((slug("shop"), SyncKind::All)));
    sync(&world, SyncKind::All, false).await;
    assert_eq!(world.providers.due_sync().await.unwrap().0, None);
    world.clock.set(next.unwrap());
    let (due, _) = world.providers.due_sync().await.unwrap();
    assert_eq!(due, Some((slug("shop"), SyncKind::Nightly)));
    page(&world, SyncKind::Nightly, false).await;
    let (due, _) = world.providers.due_sync().await.unwrap();
    assert_eq!(due, Some((slug("stripe"), SyncKind::Nightly)), "the first is under way");
    world.clock.advance(Duration::from_mins(10));
    let (due, _) = world.providers.due_sync().await.unwrap();
    assert_eq!(due, Some((slug("shop"), SyncKind::Nightly)), "it was left unfinished");
}

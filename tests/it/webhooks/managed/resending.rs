//! Rewinds and resends.

use std::time::Duration;

use subscription_core::events::RecordedEvent;
use subscription_core::store::PageLimit;
use subscription_core::webhooks::{Resend, Rewind};
use subscription_core::{Error, ErrorKind, PlanChanges};
use test_support::service_world::{faults, new_plan, of, wrong};

use super::world::WebhookWorld;

#[tokio::test]
async fn a_rewind_sets_the_cursor_both_ways_and_deletes_what_is_set_aside_above_it() {
    let world = WebhookWorld::new();
    let events = world.events(6).await;
    let id = world.endpoint().await.endpoint.id;
    for (event, state) in [(1, "waiting"), (3, "waiting"), (4, "given_up")] {
        world.park(id, &events[event], state, None).await;
    }

    let back = world.webhooks.rewind(id, Rewind::To(2)).await.unwrap();
    let forward = world.webhooks.rewind(id, Rewind::To(6)).await.unwrap();

    assert_eq!((back.cursor, back.behind, back.parked, back.given_up), (2, 4, 1, 0));
    assert_eq!((forward.cursor, forward.behind, forward.parked), (6, 0, 1));
    let delivery = &world.documents("webhook_delivery").await[0];
    assert_eq!((delivery.version, delivery.due_at), (3.into(), Some(world.service.now())));
    assert_eq!(faults(world.webhooks.rewind(id, Rewind::To(7)).await), ["to out_of_range"]);
}

#[tokio::test]
async fn a_rewind_to_a_moment_finds_the_first_event_from_then_on() {
    let world = WebhookWorld::new();
    let events = world.events(9).await;
    let id = world.endpoint().await.endpoint.id;
    let since =
        async |moment| world.webhooks.rewind(id, Rewind::Since(moment)).await.map(|it| it.cursor);

    for event in &events {
        let (at, before) = (event.event.at, event.sequence - 1);
        assert_eq!(since(at).await.unwrap(), before, "{at}");
        let earlier = at.saturating_sub(Duration::from_secs(1));
        assert_eq!(since(earlier).await.unwrap(), before, "{earlier}");
    }
    assert_eq!(since(world.service.now()).await.unwrap(), 9);
}

#[tokio::test]
async fn a_rewind_to_events_that_are_deleted_is_refused() {
    let world = WebhookWorld::new();
    let events = world.events(5).await;
    let id = world.endpoint().await.endpoint.id;
    world.service.forget_events(2).await.unwrap();
    let rewind = |to| world.webhooks.rewind(id, to);

    for to in [Rewind::To(0), Rewind::To(1), Rewind::Since(events[0].event.at)] {
        let refused = rewind(to).await.unwrap_err();
        assert!(matches!(refused, Error::EventsForgotten { first_kept: 3 }), "{to:?} {refused}");
    }
    assert_eq!(rewind(Rewind::To(2)).await.unwrap().cursor, 2);
    assert_eq!(rewind(Rewind::Since(events[3].event.at)).await.unwrap().cursor, 3);
}

#[tokio::test]
async fn an_event_that_is_sent_again_is_due_at_once_with_all_its_tries() {
    let world = WebhookWorld::new();
    let events = world.events(3).await;
    let id = world.endpoint().await.endpoint.id;
    let later = Some(world.service.now().saturating_add(Duration::from_hours(1)));
    for (event, state) in [(0, "waiting"), (1, "given_up"), (2, "waiting")] {
        world.park(id, &events[event], state, later).await;
    }
    let waiting =
        |sequence: u64, attempts, is_due| (sequence, "waiting".to_owned(), attempts, is_due);

    world.webhooks.resend(id, Resend::One(2)).await.unwrap();
    assert_eq!(
        world.parked(id).await,
        [waiting(1, 3, false), waiting(2, 0, true), waiting(3, 3, false)]
    );

    let all = world.webhooks.resend(id, Resend::All).await.unwrap();
    assert_eq!(
        world.parked(id).await,
        [waiting(1, 0, true), waiting(2, 0, true), waiting(3, 0, true)]
    );
    assert_eq!((all.parked, all.given_up), (3, 0));
    assert_eq!(world.documents("webhook_delivery").await[0].due_at, Some(world.service.now()));
    let unknown = world.webhooks.resend(id, Resend::One(9)).await;
    assert_eq!(wrong(unknown), (ErrorKind::NotFound, "not_found"));
}

/// Events of one plan: it is created, and changed as often as it takes.
async fn of_one_record(world: &WebhookWorld, count: usize) -> Vec<RecordedEvent> {
    world.service.create_plan(new_plan("one")).await.unwrap();
    for tier in 1..count {
        let changes = PlanChanges { tier: Some(of(&tier.to_string())), ..PlanChanges::default() };
        world.service.update_plan(&of("one"), changes).await.unwrap();
    }
    world.service.events(0, PageLimit::MAX).await.unwrap()
}

#[tokio::test]
async fn the_events_of_one_record_keep_their_order_when_they_are_sent_again() {
    let world = WebhookWorld::new();
    let events = of_one_record(&world, 4).await;
    let id = world.endpoint().await.endpoint.id;
    let later = Some(world.service.now().saturating_add(Duration::from_hours(1)));
    for (event, state, due) in
        [(0, "given_up", later), (1, "waiting", later), (2, "behind", None), (3, "behind", None)]
    {
        world.park(id, &events[event], state, due).await;
    }
    let states = async || -> Vec<_> {
        world.parked(id).await.into_iter().map(|(_, state, _, is_due)| (state, is_due)).collect()
    };
    let row = |state: &str, is_due| (state.to_owned(), is_due);

    world.webhooks.resend(id, Resend::One(3)).await.unwrap();
    let expected =
        [row("given_up", false), row("waiting", true), row("behind", false), row("behind", false)];
    assert_eq!(states().await, expected, "the one before it goes first");

    world.webhooks.resend(id, Resend::One(1)).await.unwrap();
    let expected =
        [row("waiting", true), row("behind", false), row("behind", false), row("behind", false)];
    assert_eq!(states().await, expected);
    let documents = world.documents("webhook_parked").await;
    let due: Vec<_> = documents.iter().map(|document| document.due_at.is_some()).collect();
    assert_eq!(due, [true, false, false, false]);
}

#[tokio::test]
async fn no_more_events_are_sent_again_than_may_be_set_aside() {
    let world = WebhookWorld::new();
    let events = world.events(103).await;
    let id = world.endpoint().await.endpoint.id;
    for (nth, event) in events.iter().enumerate() {
        world.park(id, event, if nth < 98 { "waiting" } else { "given_up" }, None).await;
    }

    let some = world.webhooks.resend(id, Resend::All).await.unwrap();
    let refused = world.webhooks.resend(id, Resend::One(103)).await;

    assert_eq!((some.parked, some.given_up), (100, 3));
    assert_eq!(wrong(refused), (ErrorKind::Conflict, "parked_full"));
    let none = world.endpoint().await.endpoint.id;
    assert!(world.webhooks.resend(none, Resend::All).await.is_ok());
}

//! The change set of an observation: records, events, guards, and the key of the one live subscription.

use std::sync::Arc;

use subscription_core::events::{Actor, Change};
use subscription_core::store::{
    ChangeSet, Document, DocumentKey, PageLimit, Record, StoreError, StoreExt as _,
};
use subscription_core::{
    Conflict, Error, Followed, ManagedBy, ManualClock, MemoryStore, NewSubscription,
    ObservedChanges, ObservedSubscription, OneLivePer, Payment, PaymentId, Plan, PlanChanges,
    Renewal, SeededRandomness, Store, Subscription, SubscriptionId, SubscriptionService,
    SubscriptionStatus, UserId, Version,
};
use test_support::service_world::{at, faults, new_plan, of};

use super::{now, observed, observed_payment, user};

/// A service whose store the test can commit to, as a capability does.
struct World {
    store: Arc<dyn Store>,
    service: SubscriptionService,
    clock: ManualClock,
}

impl World {
    fn new(per: Option<OneLivePer>) -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let clock = ManualClock::at(now());
        let mut builder = SubscriptionService::builder(Arc::clone(&store))
            .clock(clock.clone())
            .randomness(SeededRandomness::new(1));
        if let Some(per) = per {
            builder = builder.one_live_per(per);
        }
        let service = builder.build().by(Actor::Provider(of("shop")));
        Self { store, service, clock }
    }

    async fn plan(&self, slug: &str) -> Arc<Plan> {
        self.service.create_plan(new_plan(slug)).await.unwrap()
    }

    fn made(&self, observed: ObservedSubscription, user: UserId) -> Subscription {
        let id = SubscriptionId::new(now(), self.service.randomness()).unwrap();
        Subscription::observe_new(observed, id, user, self.service.now())
    }

    fn payment(&self, subscription: &Subscription) -> Payment {
        let id = PaymentId::new(now(), self.service.randomness()).unwrap();
        Payment::observe_new(observed_payment(), id, subscription.id, now())
    }

    async fn changes(
        &self,
        before: Option<Arc<Subscription>>,
        after: Option<Subscription>,
        payments: Vec<Payment>,
    ) -> Result<ObservedChanges, Error> {
        let payments = payments.into_iter().map(new).collect();
        let subscription = Followed { before, after };
        let with = ChangeSet::default();
        self.service.observed_changes(subscription, payments, with, self.service.now()).await
    }

    /// Commits a new subscription, and says whether it is a second live one.
    async fn follow_new(&self, after: Subscription) -> (Arc<Subscription>, bool) {
        let id = after.id;
        let set = self.changes(None, Some(after), Vec::new()).await.unwrap();
        self.store.commit(set.changes).await.unwrap();
        (self.stored(id).await, set.is_second_live)
    }

    /// Commits what a subscription became.
    async fn follow(
        &self,
        before: &Arc<Subscription>,
        observed: ObservedSubscription,
    ) -> (Arc<Subscription>, bool) {
        let after = before.observe(observed, self.service.now());
        let set = self.changes(Some(Arc::clone(before)), after, Vec::new()).await.unwrap();
        self.store.commit(set.changes).await.unwrap();
        (self.stored(before.id).await, set.is_second_live)
    }

    async fn stored(&self, id: SubscriptionId) -> Arc<Subscription> {
        self.store.get_as::<Subscription>(&id).await.unwrap().unwrap()
    }
}

fn new<T>(after: T) -> Followed<T> {
    Followed { before: None, after: Some(after) }
}

fn external(observed: ObservedSubscription, id: &str) -> ObservedSubscription {
    ObservedSubscription { external_subscription_id: of(id), ..observed }
}

fn status(observed: ObservedSubscription, status: SubscriptionStatus) -> ObservedSubscription {
    ObservedSubscription { status, ..observed }
}

#[tokio::test]
async fn a_subscription_its_payments_and_documents_are_one_commit_with_an_event_each() {
    let world = World::new(None);
    let plan = world.plan("pro").await;
    let made = world.made(observed(plan.id), user());
    let payments = [world.payment(&made), world.payment(&made)];
    let second = Payment { external_payment_id: Some(of("pi_2")), ..payments[1].clone() };
    let key = DocumentKey { collection: of("provider_link"), id: of("1") };
    let document = Document {
        key: key.clone(),
        version: Version::FIRST,
        owner: None,
        label: None,
        due_at: None,
        body: "{}".into(),
    };
    let with = ChangeSet { writes: vec![Record::from(document)], ..ChangeSet::default() };

    let payments = vec![new(payments[0].clone()), new(second.clone())];
    let set = world.service.observed_changes(new(made.clone()), payments, with, now()).await;
    let set = set.unwrap().changes;
    let kinds: Vec<_> = set.writes.iter().map(|write| write.key().to_string()).collect();
    world.store.commit(set).await.unwrap();

    assert_eq!(kinds.len(), 4, "{kinds:?}");
    assert_eq!(*world.stored(made.id).await, made);
    assert_eq!(*world.service.payment(second.id).await.unwrap(), second);
    assert!(world.store.get_as::<Document>(&key).await.unwrap().is_some());
    let events = world.service.events(0, PageLimit::MAX).await.unwrap();
    let names: Vec<_> = events.iter().map(|it| it.event.name()).collect();
    let expected = ["plan.created", "subscription.created", "payment.created", "payment.created"];
    assert_eq!(names, expected);
    let actor = Actor::Provider(of("shop"));
    assert!(events[1..].iter().all(|it| it.event.actor == actor));
}

#[tokio::test]
async fn a_change_is_told_by_its_fields_or_its_status() {
    let world = World::new(None);
    let plan = world.plan("pro").await;
    let (first, _) = world.follow_new(world.made(observed(plan.id), user())).await;

    let page = ObservedSubscription { manage_url: None, ..observed(plan.id) };
    let (second, _) = world.follow(&first, page).await;
    world.follow(&second, status(observed(plan.id), SubscriptionStatus::PastDue)).await;

    let events = world.service.events(2, PageLimit::MAX).await.unwrap();
    let changes: Vec<_> = events.iter().map(|it| it.event.change.clone()).collect();
    let Change::Updated { fields } = &changes[0] else { panic!("{changes:?}") };
    assert_eq!(fields.iter().collect::<Vec<_>>(), ["manage_url"]);
    let (from, to) = (SubscriptionStatus::Active, SubscriptionStatus::PastDue);
    assert_eq!(changes[1], Change::SubscriptionStatusChanged { from, to });
}

#[tokio::test]
async fn an_inactive_plan_is_accepted_and_one_that_there_is_not_is_refused() {
    let world = World::new(None);
    let plan = world.plan("pro").await;
    let off = PlanChanges { is_active: Some(false), ..PlanChanges::default() };
    world.service.update_plan(&of("pro"), off).await.unwrap();

    world.follow_new(world.made(observed(plan.id), user())).await;

    let unknown = world.made(external(observed(super::plan()), "sub_2"), user());
    let refused = world.changes(None, Some(unknown), Vec::new()).await;
    assert_eq!(faults(refused), ["subscription_plan_id unknown_reference"]);
}

#[tokio::test]
async fn the_plan_of_a_new_one_and_a_new_plan_are_guarded() {
    let world = World::new(None);
    let (plan, other) = (world.plan("pro").await, world.plan("other").await);
    let made = world.made(observed(plan.id), user());
    let set = world.changes(None, Some(made.clone()), Vec::new()).await.unwrap();
    world.service.delete_plan(&of("pro")).await.unwrap();

    assert!(matches!(world.store.commit(set.changes).await, Err(StoreError::Conflict(_))));

    let plan = world.plan("pro").await;
    let (before, _) = world.follow_new(world.made(observed(plan.id), user())).await;
    let after = before.observe(observed(other.id), now());
    let set = world.changes(Some(before), after, Vec::new()).await.unwrap();
    world.service.delete_plan(&of("other")).await.unwrap();

    assert!(matches!(world.store.commit(set.changes).await, Err(StoreError::Conflict(_))));
}

#[tokio::test]
async fn payments_alone_guard_their_subscription() {
    let world = World::new(None);
    let plan = world.plan("pro").await;
    let (held, _) = world.follow_new(world.made(observed(plan.id), user())).await;
    let payment = world.payment(&held);
    let set = world.changes(Some(Arc::clone(&held)), None, vec![payment.clone()]).await.unwrap();

    world.service.delete_subscription(held.id).await.unwrap();

    assert!(matches!(world.store.commit(set.changes).await, Err(StoreError::Conflict(_))));
    let set = world.changes(Some(held), None, Vec::new()).await.unwrap();
    assert!(set.changes.is_empty(), "{:?}", set.changes);
}

#[tokio::test]
async fn an_amount_that_cannot_be_is_refused() {
    let world = World::new(None);
    let plan = world.plan("pro").await;
    let made = world.made(observed(plan.id), user());
    let payment = |amount: &str| Payment { amount: of(amount), ..world.payment(&made) };

    for amount in ["0", "19.905"] {
        let changes = world.changes(None, Some(made.clone()), vec![payment(amount)]).await;
        assert_eq!(faults(changes), ["amount out_of_range"]);
    }
}

#[tokio::test]
async fn the_user_of_a_new_one_must_have_an_account_where_users_are_checked() {
    let world = World::new(None);
    let plan = world.plan("pro").await;
    let service = SubscriptionService::builder(Arc::clone(&world.store)).check_users().build();
    let made = world.made(observed(plan.id), user());

    let refused =
        service.observed_changes(new(made), Vec::new(), ChangeSet::default(), now()).await;

    assert_eq!(faults(refused), ["user_id unknown_reference"]);
}

#[tokio::test]
async fn a_second_live_subscription_is_written_without_the_key_and_counted_once() {
    for per in [OneLivePer::User, OneLivePer::Product] {
        let world = World::new(Some(per));
        let plan = world.plan("pro").await;
        let one = |id| external(observed(plan.id), id);

        let (first, is_second) = world.follow_new(world.made(one("sub_1"), user())).await;
        assert!(first.live_key.is_some() && !is_second);
        let (second, is_second) = world.follow_new(world.made(one("sub_2"), user())).await;
        assert!(second.live_key.is_none() && is_second);
        let late = status(one("sub_2"), SubscriptionStatus::PastDue);
        let (second, is_second) = world.follow(&second, late.clone()).await;
        assert!(second.live_key.is_none() && !is_second, "counted before");

        // The first gives the key up when it expires; the second has it with its next change.
        let over = status(one("sub_1"), SubscriptionStatus::Expired);
        let (first, _) = world.follow(&first, over).await;
        let (second, is_second) = world.follow(&second, one("sub_2")).await;
        assert_eq!(first.live_key, None);
        assert!(second.live_key.is_some() && !is_second);
        // It comes back while another is live.
        let (first, is_second) = world.follow(&first, one("sub_1")).await;
        assert!(first.live_key.is_none() && is_second);

        let another = NewSubscription::new(user(), plan.id);
        let refused = world.service.create_subscription(another).await.unwrap_err();
        assert!(matches!(refused, Error::Conflict(Conflict::Taken { .. })), "callers are bound");
    }
}

#[tokio::test]
async fn the_key_is_taken_from_one_that_has_ended() {
    let world = World::new(Some(OneLivePer::User));
    let plan = world.plan("pro").await;
    let ending = ObservedSubscription {
        ends_at: Some(at("2025-02-10T00:00:00Z")),
        renews_at: Renewal::None,
        ..status(observed(plan.id), SubscriptionStatus::Cancelled)
    };
    let (first, _) = world.follow_new(world.made(ending.clone(), user())).await;
    assert!(first.live_key.is_some());
    world.clock.set(at("2025-03-01T00:00:00Z"));

    let new = external(observed(plan.id), "sub_2");
    let (second, is_second) = world.follow_new(world.made(new, user())).await;

    let first = world.stored(first.id).await;
    assert_eq!((first.status, &first.live_key), (SubscriptionStatus::Expired, &None));
    assert_eq!(first.managed_by, ManagedBy::Provider);
    assert!(first.manage_url().is_some());
    assert!(second.live_key.is_some() && !is_second);
    // The provider still says that it is cancelled, which takes no key from anybody.
    let (first, is_second) = world.follow(&first, ending).await;
    assert!(first.live_key.is_none() && !is_second);
}

#[tokio::test]
async fn another_product_is_another_key() {
    let world = World::new(Some(OneLivePer::Product));
    let (pro, other) = (world.plan("pro").await, world.plan("other").await);
    let (first, _) = world.follow_new(world.made(observed(pro.id), user())).await;
    let second = world.made(external(observed(other.id), "sub_2"), user());
    let (second, is_second) = world.follow_new(second).await;
    assert!(second.live_key.is_some() && !is_second);

    let (moved, is_second) = world.follow(&first, observed(other.id)).await;

    assert!(moved.live_key.is_none() && is_second);
}

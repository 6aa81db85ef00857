//! Plans through the service.

use subscription_core::store::{Direction, PageLimit, PlanFilter, PlanOrder, PlanQuery};
use subscription_core::{
    BillingCycle, Conflict, Error, ErrorKind, NewPlan, PlanChanges, Slug, SubscriptionChanges,
    Version,
};
use test_support::service_world::{ServiceWorld, at, faults, new_plan, of, wrong};

fn slug(text: &str) -> Slug {
    of(text)
}

#[tokio::test]
async fn a_new_plan_is_open_and_has_its_defaults() {
    let world = ServiceWorld::new();

    let plan = world.plan("pro").await;

    let expected = serde_json::json!({
        "id": plan.id,
        "name": "Pro",
        "product_id": null,
        "variants": [],
        "slug": "pro",
        "price": 19.99,
        "currency": null,
        "href": null,
        "billing_cycle": "monthly",
        "trial_period": null,
        "description": "",
        "node_quota": 0,
        "features": "",
        "most_popular": false,
        "tier": 0,
        "is_active": true,
        "metadata": null,
        "created_at": "2025-01-31T00:00:00.000000Z",
        "updated_at": "2025-01-31T00:00:00.000000Z",
        "version": 1,
    });
    assert_eq!(serde_json::to_value(&*plan).unwrap(), expected);
    assert_eq!(world.service.plan(&plan.slug).await.unwrap(), plan);
    assert_eq!(world.service.plan_by_id(plan.id).await.unwrap(), plan);
}

#[tokio::test]
async fn an_update_changes_what_it_carries_and_nothing_else() {
    let world = ServiceWorld::new();
    let plan = world.plan("pro").await;
    world.clock.set(at("2025-02-01T00:00:00.000000Z"));

    let changes = PlanChanges::from_json(br#"{"price": 29.90, "features": " a ,b", "tier": 3}"#);
    let next = world.service.update_plan(&plan.slug, changes.unwrap()).await.unwrap();

    assert_eq!(next.price.to_string(), "29.90");
    assert_eq!(next.features.as_str(), " a ,b");
    assert_eq!(next.features.list().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(next.tier.get(), 3);
    assert_eq!((next.name.clone(), next.created_at), (plan.name.clone(), plan.created_at));
    assert_eq!(next.updated_at, at("2025-02-01T00:00:00.000000Z"));
    assert_eq!(next.version.get(), 2);
}

#[tokio::test]
async fn an_update_that_changes_nothing_writes_nothing() {
    let world = ServiceWorld::new();
    let plan = world.plan("pro").await;
    world.clock.set(at("2025-02-01T00:00:00.000000Z"));

    for json in ["{}", r#"{"price": 19.99, "is_active": true}"#] {
        let changes = PlanChanges::from_json(json.as_bytes()).unwrap();
        let same = world.service.update_plan(&plan.slug, changes).await.unwrap();

        assert_eq!(same, plan, "{json}");
    }
    assert_eq!(world.events().await, ["plan.created"]);
}

#[tokio::test]
async fn a_price_written_with_other_digits_is_a_change() {
    let world = ServiceWorld::new();
    let plan = world.plan("pro").await;

    let changes = PlanChanges { price: Some(of("19.990")), ..PlanChanges::default() };
    let next = world.service.update_plan(&plan.slug, changes).await.unwrap();

    assert_eq!((next.price.to_string().as_str(), next.version.get()), ("19.990", 2));
}

#[tokio::test]
async fn a_slug_is_taken_until_its_plan_is_deleted() {
    let world = ServiceWorld::new();
    let plan = world.plan("pro").await;

    let again = world.service.create_plan(new_plan("pro")).await;

    let Err(Error::Conflict(Conflict::Taken { holder, .. })) = &again else { panic!("{again:?}") };
    assert_eq!(holder.to_string(), format!("plan {}", plan.id));
    assert_eq!(wrong(again), (ErrorKind::Conflict, "slug_taken"));

    world.service.delete_plan(&plan.slug).await.unwrap();
    let heir = world.plan("pro").await;

    assert_ne!(heir.id, plan.id);
    assert_eq!(heir.version, Version::FIRST);
}

#[tokio::test]
async fn what_does_not_exist_is_not_found() {
    let world = ServiceWorld::new();
    let missing = slug("missing");

    let not_found = (ErrorKind::NotFound, "not_found");
    assert_eq!(wrong(world.service.plan(&missing).await), not_found);
    assert_eq!(wrong(world.service.delete_plan(&missing).await), not_found);
    let update = world.service.update_plan(&missing, PlanChanges::default()).await;
    assert_eq!(wrong(update), not_found);
}

#[tokio::test]
async fn a_plan_in_use_is_not_deleted() {
    let world = ServiceWorld::new();
    let subscription = world.subscription(|_| {}).await;
    let plan = world.service.plan_by_id(subscription.subscription_plan_id).await.unwrap();

    let refused = world.service.delete_plan(&plan.slug).await;
    assert_eq!(wrong(refused), (ErrorKind::Conflict, "plan_in_use"));

    world.service.delete_subscription(subscription.id).await.unwrap();
    world.service.delete_plan(&plan.slug).await.unwrap();
    assert_eq!(wrong(world.service.plan(&plan.slug).await).0, ErrorKind::NotFound);
}

#[tokio::test]
async fn a_plan_left_by_its_last_subscription_is_free_to_go() {
    let world = ServiceWorld::new();
    let subscription = world.subscription(|_| {}).await;
    let (old, new) = (subscription.subscription_plan_id, world.plan("other").await);
    let old = world.service.plan_by_id(old).await.unwrap();

    let changes = SubscriptionChanges {
        subscription_plan_id: Some(new.id),
        ..SubscriptionChanges::default()
    };
    world.service.update_subscription(subscription.id, changes).await.unwrap();

    world.service.delete_plan(&old.slug).await.unwrap();
    assert_eq!(wrong(world.service.delete_plan(&new.slug).await).1, "plan_in_use");
}

#[tokio::test]
async fn a_stale_precondition_refuses_and_names_the_version() {
    let world = ServiceWorld::new();
    let plan = world.plan("pro").await;
    let retire = PlanChanges { is_active: Some(false), ..PlanChanges::default() };
    let first = Some(Version::FIRST);

    world.service.update_plan_if(&plan.slug, first, retire.clone()).await.unwrap();
    let update = world.service.update_plan_if(&plan.slug, first, PlanChanges::default()).await;
    let delete = world.service.delete_plan_if(&plan.slug, first).await;

    let Err(Error::Stale { current, .. }) = &update else { panic!("{update:?}") };
    assert_eq!(current.get(), 2);
    assert_eq!(wrong(update), (ErrorKind::Stale, "precondition_failed"));
    assert_eq!(wrong(delete).0, ErrorKind::Stale);
    world.service.delete_plan_if(&plan.slug, Version::from(2)).await.unwrap();
}

#[tokio::test]
async fn too_many_variants_are_refused_from_code_as_from_json() {
    let world = ServiceWorld::new();
    let mut new = new_plan("pro");
    new.variants = vec![of("variant"); 101];

    let refused = world.service.create_plan(new).await;

    assert_eq!(faults(refused), ["variants too_long"]);
}

#[test]
fn a_cycle_that_is_refused_tells_every_cycle_that_has_a_name() {
    let refused = "fortnightly".parse::<BillingCycle>().unwrap_err().to_string();

    let names = "daily, weekly, biweekly, monthly, bimonthly, quarterly, semiannual, yearly, \
                 biennial, one_time";
    assert!(refused.contains(names), "{refused}");
}

#[tokio::test]
async fn lists_go_page_by_page_in_the_order_asked_for() {
    let world = ServiceWorld::new();
    for (slug, price, cycle) in [
        ("a", "9.5", BillingCycle::MONTHLY),
        ("b", "10", BillingCycle::YEARLY),
        ("c", "100.00", BillingCycle::MONTHLY),
        ("d", "1", BillingCycle::MONTHLY),
    ] {
        let new = NewPlan { price: of(price), billing_cycle: cycle, ..new_plan(slug) };
        world.service.create_plan(new).await.unwrap();
    }
    let filter = PlanFilter::default().with_billing_cycle(BillingCycle::MONTHLY);
    let mut query = PlanQuery::default()
        .with_filter(filter)
        .with_order(PlanOrder::Price)
        .with_direction(Direction::Descending)
        .with_limit(PageLimit::new(2).unwrap());

    let first = world.service.plans(query.clone()).await.unwrap();
    query.after = first.next;
    let second = world.service.plans(query.clone()).await.unwrap();
    query.order = PlanOrder::Tier;
    let mixed = world.service.plans(query).await;

    let slugs = |page: &[std::sync::Arc<subscription_core::Plan>]| -> Vec<String> {
        page.iter().map(|plan| plan.slug.to_string()).collect()
    };
    assert_eq!(slugs(&first.items), ["c", "a"]);
    assert_eq!(slugs(&second.items), ["d"]);
    assert_eq!(second.next, None);
    assert_eq!(wrong(mixed), (ErrorKind::Malformed, "invalid_cursor"));
}

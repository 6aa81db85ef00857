//! The deliveries themselves.

use std::sync::Arc;

use serde_json::{Value, json};
use subscription_core::accounts::{IdentityKey, User};
use subscription_core::events::{Actor, Change, Event, Subject};
use subscription_core::store::{CacheInvalidator, CachedStore, ChangeSet, PageLimit, Record};
use subscription_core::webhooks::{
    EndpointChanges, FirstEvent, NewEndpoint, SignatureHeaders, TOLERANCE, Webhooks, verify,
};
use subscription_core::{
    EventId, NewPayment, NewSubscription, Store as _, SubscriptionService, SystemRandomness,
    UserId, Version,
};
use test_support::service_world::{new_plan, of};

use super::world::SendingWorld;
use crate::auth::world::{SERVER_KEY, server_key};

#[tokio::test]
async fn a_delivery_has_the_event_and_its_record_as_it_is_then_and_is_signed() {
    let mut world = SendingWorld::new();
    let new = NewEndpoint::new(of_url("https://a.example/in?key=1"));
    let created = world.webhooks.create(new).await.unwrap();
    let plan = world.plan("pro").await;
    let plan = world.change(&plan).await;

    world.run().await;

    let sent = world.receivers.take_all();
    let first = &sent[0].body;
    assert_eq!(
        *first,
        json!({
            "type": "plan.created", "timestamp": "2025-01-31T00:00:00.000000Z", "sequence": 1,
            "data": {
                "id": plan.id, "kind": "plan", "version": 1, "change": {},
                "object": serde_json::to_value(&*plan).unwrap(),
            },
        })
    );
    assert_eq!(sent[1].body["data"]["change"], json!({ "fields": ["tier"] }));
    assert_eq!(sent.len(), 2);
    let request = &sent[0].request;
    assert_eq!(request.url.as_str(), "https://a.example/in?key=1");
    let events = world.service.events(0, PageLimit::default()).await.unwrap();
    assert_eq!(*request.id, events[0].event.id.to_string());
    let timestamp = request.timestamp.to_string();
    let headers =
        SignatureHeaders { id: &request.id, timestamp: &timestamp, signature: &request.signature };
    let secrets = [created.secret.unwrap()];
    assert_eq!(verify(&secrets, &headers, &request.body, world.now(), TOLERANCE), Ok(()));
}

#[tokio::test]
async fn each_kind_of_record_is_sent_as_a_get_returns_it_with_exact_digits() {
    let mut world = SendingWorld::new();
    world.endpoint("https://a.example/").await;
    let plan = world.plan("pro").await;
    let user = UserId::new(world.now(), &SystemRandomness).unwrap();
    let new = NewSubscription::new(user, plan.id);
    let subscription = world.service.create_subscription(new).await.unwrap();
    let new = NewPayment::new(subscription.id, of("19.90"), of("USD"));
    let payment = world.service.create_payment(new).await.unwrap();

    world.run().await;

    let sent = world.receivers.take_all();
    let texts: Vec<_> =
        sent.iter().map(|it| String::from_utf8(it.request.body.clone()).unwrap()).collect();
    let subscription = serde_json::to_string(&*subscription).unwrap();
    let payment = serde_json::to_string(&*payment).unwrap();
    assert!(texts[1].ends_with(&format!(r#""object":{subscription}}}}}"#)), "{}", texts[1]);
    assert!(texts[2].ends_with(&format!(r#""object":{payment}}}}}"#)), "{}", texts[2]);
    assert!(texts[2].contains(r#""amount":"19.90""#) || texts[2].contains(r#""amount":19.90"#));
}

#[tokio::test]
async fn a_deleted_record_is_null_and_a_long_one_is_left_out() {
    let mut world = SendingWorld::new();
    world.endpoint("https://a.example/").await;
    let short = world.plan("short").await;
    world.service.delete_plan(&short.slug).await.unwrap();
    let mut long = new_plan("long");
    long.variants = (0..100).map(|nth| of(&format!("{nth:0200}"))).collect();
    world.service.create_plan(long).await.unwrap();

    world.run().await;

    let mut sent = world.receivers.take_all();
    sent.sort_by_key(|it| it.sequence);
    let data: Vec<_> = sent.iter().map(|it| &it.body["data"]).collect();
    assert_eq!((&data[0]["object"], &data[1]["object"]), (&Value::Null, &Value::Null));
    assert_eq!(data[2].get("object"), None);
    assert_eq!(data[2]["object_omitted"], true);
    assert!(data[0].get("object_omitted").is_none());
}

#[tokio::test]
async fn a_user_is_sent_without_personal_data_and_an_actor_never_is() {
    let mut world = SendingWorld::new();
    let types = vec!["user.*".parse().unwrap(), "plan.*".parse().unwrap()];
    let from = FirstEvent::Start;
    let new = NewEndpoint { types, from, ..NewEndpoint::new(of_url("https://a.example/")) };
    world.webhooks.create(new).await.unwrap();
    let (now, id) = (world.now(), UserId::new(world.now(), &SystemRandomness).unwrap());
    let identity = IdentityKey { issuer: of("https://issuer.example"), subject: of("person-7") };
    let (email, version) = (of("ann@people.example"), Version::FIRST);
    let (created_at, updated_at) = (now, now);
    let user = User { id, identity, email, closing: false, created_at, updated_at, version };
    let event = Event {
        id: EventId::new(now, &SystemRandomness).unwrap(),
        at: now,
        subject: Subject::User(id),
        version,
        change: Change::Created,
        actor: Actor::Client(of("shop")),
    };
    let (writes, events) = (vec![Record::from(user)], vec![event]);
    world.store.commit(ChangeSet { writes, events, ..ChangeSet::default() }).await.unwrap();
    world.service.by(Actor::Client(of("shop"))).create_plan(new_plan("pro")).await.unwrap();

    world.run().await;

    let sent = world.receivers.take_all();
    let object = &sent[0].body["data"]["object"];
    assert_eq!(*object, json!({ "id": id, "created_at": now, "version": 1 }));
    assert_eq!(sent.len(), 2);
    for text in sent.iter().map(|it| String::from_utf8(it.request.body.clone()).unwrap()) {
        for hidden in ["people.example", "person-7", "issuer.example", "actor", "shop"] {
            assert!(!text.contains(hidden), "{hidden} in {text}");
        }
    }
}

#[tokio::test]
async fn after_a_rotation_both_secrets_sign_until_the_older_one_ends() {
    let mut world = SendingWorld::new();
    let new = NewEndpoint::new(of_url("https://a.example/"));
    let created = world.webhooks.create(new).await.unwrap();
    let (id, old) = (created.endpoint.id, created.secret.unwrap());
    world.plans(1).await;
    world.run().await;
    world.receivers.take();

    let hour = std::time::Duration::from_hours(1);
    let new = world.webhooks.rotate_secret(id, hour).await.unwrap().secret.unwrap();
    let mut is_signed = Vec::new();
    for _ in 0..2 {
        world.plans(1).await;
        world.run().await;
        let request = world.receivers.take_all().pop().unwrap().request;
        let (timestamp, signature) = (request.timestamp.to_string(), &*request.signature);
        let headers = SignatureHeaders { id: &request.id, timestamp: &timestamp, signature };
        let by = |secret: &subscription_core::webhooks::Secret| {
            let secrets = [secret.clone()];
            verify(&secrets, &headers, &request.body, world.now(), TOLERANCE).is_ok()
        };
        is_signed.push((by(&old), by(&new)));
        world.clock.advance(hour);
    }

    assert_eq!(is_signed, [(true, true), (false, true)]);
}

#[tokio::test]
async fn only_the_types_of_an_endpoint_are_sent() {
    let mut world = SendingWorld::new();
    let id = world.endpoint("https://a.example/").await;
    let types = Some(vec!["plan.updated".parse().unwrap()]);
    let changes = EndpointChanges { types, ..EndpointChanges::default() };
    world.webhooks.update_if(id, None, changes).await.unwrap();
    let plan = world.plan("pro").await;
    world.change(&plan).await;

    world.run().await;

    assert_eq!(world.receivers.take(), [2]);
}

#[tokio::test]
async fn a_record_is_never_older_than_its_event_even_if_a_cache_is() {
    let world = SendingWorld::new();
    world.endpoint("https://a.example/").await;
    let plan = world.plan("pro").await;
    let cached = CachedStore::new(Arc::clone(&world.store), CacheInvalidator::LAG);
    let service = SubscriptionService::builder(cached).clock(world.clock.clone()).build();
    service.plan_by_id(plan.id).await.unwrap();
    // Another process.
    world.change(&plan).await;
    let keys = server_key(1, SERVER_KEY);
    let webhooks = Webhooks::new(service, keys, world.receivers.clone());
    let mut world =
        SendingWorld { sender: webhooks.with_clock(world.clock.clone()).sender(), ..world };

    world.run().await;
    world.service.delete_plan(&plan.slug).await.unwrap();
    world.run().await;

    let sent = world.receivers.take_all();
    let objects: Vec<_> = sent.iter().map(|it| &it.body["data"]["object"]).collect();
    assert_eq!((&objects[1]["version"], objects[2]), (&json!(2), &Value::Null));
}

fn of_url(text: &str) -> url::Url {
    text.parse().unwrap()
}

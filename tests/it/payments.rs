//! Payments through the service.

use subscription_core::store::{Direction, PageLimit, PaymentQuery, Position, SortKey};
use subscription_core::{
    ErrorKind, Field, NewPayment, Payment, PaymentChanges, PaymentStatus, SubscriptionId, Version,
};
use test_support::service_world::{ServiceWorld, faults, of, wrong};
use uuid::Uuid;

fn changes(change: impl FnOnce(&mut PaymentChanges)) -> PaymentChanges {
    let mut changes = PaymentChanges::default();
    change(&mut changes);
    changes
}

#[tokio::test]
async fn a_new_payment_is_pending() {
    let world = ServiceWorld::new();
    let subscription = world.subscription(|_| {}).await;

    let payment = world.payment(subscription.id, |_| {}).await;

    let expected = serde_json::json!({
        "id": payment.id,
        "subscription_id": subscription.id,
        "amount": 19.99,
        "currency": "USD",
        "external_payment_id": null,
        "status": "pending",
        "kind": null,
        "period_start": null,
        "period_end": null,
        "charge_key": null,
        "due_at": null,
        "attempt": null,
        "next_attempt_at": null,
        "metadata": null,
        "created_at": "2025-01-31T00:00:00.000000Z",
        "updated_at": "2025-01-31T00:00:00.000000Z",
        "version": 1,
    });
    assert_eq!(serde_json::to_value(&*payment).unwrap(), expected);
    assert_eq!(world.service.payment(payment.id).await.unwrap(), payment);
}

/// The keys were computed by Python's `uuid.uuid5`. They must never change: a service that is restored from a backup
/// asks with the keys that the gateway has seen.
#[test]
fn a_charge_key_is_made_of_the_subscription_the_kind_and_the_start_of_the_period() {
    let payment = |asked: &str| -> Payment {
        let record = serde_json::json!({
            "id": "01933b6e-c2d4-7e11-9f00-a1b2c3d4e5f6",
            "subscription_id": "01933b6e-9b01-7d2a-a1c4-5e8f60718293",
            "amount": 1, "currency": "USD", "external_payment_id": null, "status": "pending", "metadata": null,
            "created_at": "2025-01-31T00:00:00Z", "updated_at": "2025-01-31T00:00:00Z", "version": 1,
        });
        let payment: Payment = serde_json::from_value(record).unwrap();
        Payment { asked: Some(Box::new(serde_json::from_str(asked).unwrap())), ..payment }
    };
    let asked = |kind: &str, start: &str, rest: &str| {
        format!(
            r#"{{"kind":"{kind}","period_start":"{start}","period_end":null,"due_at":"{start}","attempt":3,
               "next_attempt_at":null,"retries":0,"value":1,"cycle":"monthly"{rest}}}"#
        )
    };
    let key = |asked: &str| payment(asked).charge_key().map(|key| key.to_string());
    let (january, february) = ("2025-01-31T12:00:00Z", "2025-02-28T12:00:00Z");
    for (kind, start, rest, expected) in [
        ("initial", january, r#","by_clock":true"#, Some("067083f6-5a69-5bed-ac0e-bdde446af2ab")),
        ("renewal", february, r#","by_clock":true"#, Some("34d377fa-5521-559b-ae9c-e12d1d723ee0")),
        // A caller may create several payments for one period.
        ("renewal", february, "", Some("01933b6e-c2d4-7e11-9f00-a1b2c3d4e5f6")),
        // A provider collects it.
        ("renewal", february, r#","mirrored":true"#, None),
    ] {
        let asked = asked(kind, start, rest);
        assert_eq!(key(&asked).as_deref(), expected, "{asked}");
    }
}

#[tokio::test]
async fn an_amount_is_more_than_nothing_and_fits_its_currency() {
    let world = ServiceWorld::new();
    let subscription = world.subscription(|_| {}).await.id;
    let cases = [
        ("0.01", "USD", true),
        ("0", "USD", false),
        ("0.00", "USD", false),
        ("0.001", "USD", false),
        ("1.00", "JPY", false),
        ("100", "JPY", true),
        ("1.234", "BHD", true),
        ("1.2345", "BHD", false),
    ];
    for (amount, currency, taken) in cases {
        let new = NewPayment::new(subscription, of(amount), of(currency));

        let result = world.service.create_payment(new).await;

        if taken {
            assert_eq!(result.unwrap().amount.to_string(), amount, "{currency}");
        } else {
            assert_eq!(faults(result), ["amount out_of_range"], "{amount} {currency}");
        }
    }
}

#[tokio::test]
async fn a_change_of_currency_is_checked_against_the_amount_that_stays() {
    let world = ServiceWorld::new();
    let subscription = world.subscription(|_| {}).await.id;
    let payment = world.payment(subscription, |_| {}).await;

    let yen = changes(|c| c.currency = Some(of("JPY")));
    let refused = world.service.update_payment(payment.id, yen).await;

    assert_eq!(faults(refused), ["amount out_of_range"]);
}

#[tokio::test]
async fn an_unknown_subscription_is_told_beside_the_other_faults() {
    let world = ServiceWorld::new();
    let nobody = SubscriptionId::from(Uuid::max());

    let refused = world.service.create_payment(NewPayment::new(nobody, of("0"), of("USD"))).await;

    assert_eq!(faults(refused), ["subscription_id unknown_reference", "amount out_of_range"]);
    let subscription = world.subscription(|_| {}).await.id;
    let payment = world.payment(subscription, |_| {}).await;
    let moved = changes(|c| c.subscription_id = Some(nobody));
    let refused = world.service.update_payment(payment.id, moved).await;
    assert_eq!(faults(refused), ["subscription_id unknown_reference"]);
}

#[tokio::test]
async fn once_settled_what_for_and_how_much_is_history() {
    let world = ServiceWorld::new();
    let subscription = world.subscription(|_| {}).await.id;
    let other = world.subscription(|_| {}).await.id;
    let payment =
        world.payment(subscription, |new| new.status = Some(PaymentStatus::Succeeded)).await;
    let update = async |changes| world.service.update_payment(payment.id, changes).await;
    let settled = (ErrorKind::Conflict, "payment_settled");

    assert_eq!(wrong(update(changes(|c| c.amount = Some(of("20.00")))).await), settled);
    assert_eq!(wrong(update(changes(|c| c.currency = Some(of("EUR")))).await), settled);
    // The amount that stays would have too many digits.
    assert_eq!(wrong(update(changes(|c| c.currency = Some(of("JPY")))).await), settled);
    assert_eq!(wrong(update(changes(|c| c.subscription_id = Some(other))).await), settled);

    let same = changes(|c| {
        c.amount = Some(of("19.99"));
        c.currency = Some(of("usd"));
        c.subscription_id = Some(subscription);
    });
    assert_eq!(update(same).await.unwrap(), payment);
    let external = changes(|c| c.external_payment_id = Field::Value(of("pay_1")));
    assert_eq!(update(external).await.unwrap().version.get(), 2);

    // A late bank failure does not make it a payment of another amount.
    update(PaymentChanges::status(PaymentStatus::Failed)).await.unwrap();
    assert_eq!(wrong(update(changes(|c| c.amount = Some(of("20.00")))).await), settled);
}

#[tokio::test]
async fn a_payment_that_becomes_settled_is_history_from_then_on() {
    let world = ServiceWorld::new();
    let subscription = world.subscription(|_| {}).await.id;
    let payment = world.payment(subscription, |_| {}).await;
    let update = async |changes| world.service.update_payment(payment.id, changes).await;

    update(changes(|c| c.amount = Some(of("20.00")))).await.unwrap();
    update(PaymentChanges::status(PaymentStatus::Succeeded)).await.unwrap();
    let refused = update(changes(|c| c.amount = Some(of("21.00")))).await;

    assert_eq!(wrong(refused), (ErrorKind::Conflict, "payment_settled"));
}

#[tokio::test]
async fn events_tell_a_step_of_a_payment_from_another_change() {
    let world = ServiceWorld::new();
    let subscription = world.subscription(|_| {}).await.id;
    let payment = world.payment(subscription, |_| {}).await;
    let update = async |changes| world.service.update_payment(payment.id, changes).await;

    update(changes(|c| c.amount = Some(of("20.00")))).await.unwrap();
    update(PaymentChanges::status(PaymentStatus::Succeeded)).await.unwrap();
    update(PaymentChanges::status(PaymentStatus::Succeeded)).await.unwrap();

    let told = world.events().await.split_off(2);
    assert_eq!(told, ["payment.created", "payment.updated", "payment.status_changed"]);
}

#[tokio::test]
async fn the_same_settled_amount_with_other_digits_changes_nothing() {
    let world = ServiceWorld::new();
    let subscription = world.subscription(|_| {}).await.id;
    let payment = world
        .payment(subscription, |new| {
            new.amount = of("19.90");
            new.status = Some(PaymentStatus::Succeeded);
        })
        .await;

    let again = changes(|c| c.amount = Some(of("19.9")));
    let same = world.service.update_payment(payment.id, again).await.unwrap();

    assert_eq!(same, payment);
}

#[tokio::test]
async fn an_external_id_is_unique_and_free_after_deletion() {
    let world = ServiceWorld::new();
    let subscription = world.subscription(|_| {}).await.id;
    let with_id = |new: &mut NewPayment| new.external_payment_id = Some(of("pay_1"));
    let first = world.payment(subscription, with_id).await;
    let mut second = NewPayment::new(subscription, of("5"), of("EUR"));
    with_id(&mut second);

    let refused = world.service.create_payment(second).await;
    assert_eq!(wrong(refused), (ErrorKind::Conflict, "external_id_taken"));

    world.service.delete_payment_if(first.id, Version::FIRST).await.unwrap();
    assert_eq!(wrong(world.service.payment(first.id).await).0, ErrorKind::NotFound);
    world.payment(subscription, with_id).await;
}

#[tokio::test]
async fn payments_outlive_their_subscription_and_are_listed_by_it() {
    let world = ServiceWorld::new();
    let subscription = world.subscription(|_| {}).await.id;
    let mut expected = Vec::new();
    for _ in 0..5 {
        world.clock.advance(std::time::Duration::from_secs(1));
        expected.push(world.payment(subscription, |_| {}).await);
    }
    let other = world.subscription(|_| {}).await.id;
    world.payment(other, |_| {}).await;
    world.service.delete_subscription(subscription).await.unwrap();

    let mut query = PaymentQuery::of(subscription).with_limit(PageLimit::new(2).unwrap());
    let mut listed = Vec::new();
    loop {
        let page = world.service.payments(query.clone()).await.unwrap();
        listed.extend(page.items);
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    let newest = query.clone().with_direction(Direction::Descending).with_after(None);
    let newest = world.service.payments(newest).await.unwrap();
    query.after = Some(Position { key: SortKey::NeverRenews, id: Uuid::nil() });
    let elsewhere = world.service.payments(query).await;

    assert_eq!(listed, expected);
    assert_eq!(newest.items[..], [&expected[4], &expected[3]].map(std::sync::Arc::clone));
    assert_eq!(world.service.payment(expected[0].id).await.unwrap(), expected[0]);
    assert_eq!(wrong(elsewhere).1, "invalid_cursor");
}

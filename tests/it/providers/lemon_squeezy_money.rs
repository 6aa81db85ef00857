//! The mapping of Lemon Squeezy's invoices and orders, row by row.

use serde_json::{Value, json};
use subscription_core::providers::{
    Finding, FoundInvoice, FoundObject, FoundOrder, FoundPayment, FoundPeriods, ObjectKind, Sold,
    Unmapped,
};
use subscription_core::{PaymentKind, PaymentStatus, SubscriptionStatus};
use test_support::service_world::{at, of};

use super::lemon_squeezy::{CREATED, changed, mapped, unreadable_at};

/// A paid invoice of a renewal.
fn invoice() -> Value {
    json!({ "type": "subscription-invoices", "id": "900", "attributes": {
        "store_id": 7, "subscription_id": 4711, "customer_id": 31, "user_email": "ada@example.com",
        "billing_reason": "renewal", "currency": "USD", "status": "paid", "refunded": false,
        "subtotal": 1000, "tax": 199, "total": 1199, "total_formatted": "$11.99",
        "refunded_amount": 0, "created_at": CREATED, "updated_at": CREATED, "test_mode": true,
    } })
}

/// A paid order.
fn order() -> Value {
    json!({ "type": "orders", "id": "88", "attributes": {
        "store_id": 7, "customer_id": 31, "user_email": "ada@example.com", "currency": "EUR",
        "status": "paid", "refunded": false, "total": 4900, "total_formatted": "€49.00",
        "refunded_amount": 0,
        "first_order_item": { "id": 1, "order_id": 88, "product_id": 500, "variant_id": 502 },
        "created_at": CREATED, "updated_at": CREATED, "test_mode": false,
    } })
}

fn found_invoice(attributes: &Value) -> Result<FoundInvoice, Unmapped> {
    let found = mapped(ObjectKind::Invoice, &changed(invoice(), attributes))?;
    let Finding::Invoice(found) = found else { panic!("{found:?}") };
    Ok(found)
}

fn found_order(attributes: &Value) -> FoundOrder {
    match mapped(ObjectKind::Order, &changed(order(), attributes)) {
        Ok(Finding::Order(found)) => found,
        other => panic!("{attributes}: {other:?}"),
    }
}

fn person(id: &str, live: bool) -> FoundObject {
    FoundObject {
        id: of(id),
        live,
        customer: Some(of("31")),
        user_id: None,
        email: Some(of("ada@example.com")),
    }
}

#[test]
fn every_field_of_an_invoice_is_mapped() {
    let found = found_invoice(&json!({})).unwrap();

    assert_eq!(
        found,
        FoundInvoice {
            object: person("900", false),
            subscription: of("4711"),
            kind: Some(PaymentKind::Renewal),
            periods: FoundPeriods::CycleFrom(at(CREATED)),
            payments: vec![FoundPayment {
                external_id: of("ls_inv_900"),
                amount: of("11.99"),
                currency: of("USD"),
                status: PaymentStatus::Succeeded,
            }],
            unlisted_since: None,
        }
    );
}

#[test]
fn every_reason_of_an_invoice_has_its_kind() {
    for (reason, kind) in [
        ("initial", PaymentKind::Initial),
        ("renewal", PaymentKind::Renewal),
        ("updated", PaymentKind::Proration),
    ] {
        let found = found_invoice(&json!({ "billing_reason": reason })).unwrap();

        assert_eq!(found.kind, Some(kind), "{reason}");
        assert_eq!(found.periods, FoundPeriods::CycleFrom(at(CREATED)), "{reason}");
    }
}

#[test]
fn every_status_of_an_invoice_has_its_row() {
    use PaymentStatus::{Canceled, PartiallyRefunded, Pending, Refunded, Succeeded};
    for (status, refunded_amount, expected) in [
        ("paid", json!(0), Succeeded),
        ("paid", json!(null), Succeeded),
        ("paid", json!(1), PartiallyRefunded),
        ("paid", json!(1198), PartiallyRefunded),
        ("void", json!(0), Canceled),
        ("refunded", json!(1199), Refunded),
        ("refunded", json!(0), Refunded),
        ("refunded", json!(500), PartiallyRefunded),
        ("pending", json!(0), Pending),
        ("partial_refund", json!(500), PartiallyRefunded),
        ("partial_refunded", json!(500), PartiallyRefunded),
    ] {
        let attributes = json!({ "status": status, "refunded_amount": refunded_amount });

        let found = found_invoice(&attributes).unwrap();

        assert_eq!(found.payments[0].status, expected, "{attributes}");
    }
}

#[test]
fn amounts_have_the_digits_of_their_currency() {
    let unverified = Err(Unmapped::CurrencyUnverified);
    for (currency, total, formatted, expected) in [
        ("USD", 1, json!("$0.01"), Ok("0.01")),
        ("EUR", 100_000, json!(null), Ok("1000.00")),
        ("JPY", 1199, json!("¥1,199"), Ok("1199")),
        ("JPY", 119_900, json!("¥1,199"), unverified.clone()),
        ("KWD", 11_990, json!("KWD 11.990"), Ok("11.990")),
        ("KWD", 1199, json!("KWD 11.99"), unverified),
    ] {
        let attributes =
            json!({ "currency": currency, "total": total, "total_formatted": formatted });

        let found = found_invoice(&attributes).map(|found| found.payments[0].amount.to_string());

        assert_eq!(found, expected.map(str::to_owned), "{attributes}");
    }
}

#[test]
fn an_invoice_of_nothing_is_no_payment() {
    let free = json!({ "total": 0, "total_formatted": "$0.00" });

    assert_eq!(found_invoice(&free), Err(Unmapped::ZeroAmount));
}

#[test]
fn an_invoice_that_cannot_be_read_says_where() {
    for (attributes, path) in [
        (json!({ "status": "overdue" }), "/attributes/status"),
        (json!({ "billing_reason": "manual" }), "/attributes/billing_reason"),
        (json!({ "billing_reason": null }), "/attributes/billing_reason"),
        (json!({ "total": -1 }), "/attributes/total"),
        (json!({ "total": 11.99 }), "/attributes/total"),
        (json!({ "total": "1199" }), "/attributes/total"),
        (json!({ "total": u64::MAX }), "/attributes/total"),
        (json!({ "currency": "BTC" }), "/attributes/currency"),
        (json!({ "refunded_amount": "1" }), "/attributes/refunded_amount"),
        (json!({ "subscription_id": null }), "/attributes/subscription_id"),
        (json!({ "created_at": null }), "/attributes/created_at"),
    ] {
        let object = changed(invoice(), &attributes);
        assert_eq!(unreadable_at(ObjectKind::Invoice, &object), path, "{attributes}");
    }
}

#[test]
fn every_field_of_an_order_is_mapped() {
    let found = found_order(&json!({}));

    assert_eq!(
        found,
        FoundOrder {
            object: person("88", true),
            external_id: of("ls_ord_88"),
            sold: Sold { price: Some(of("502")), product: Some(of("500")) },
            created_at: at(CREATED),
            status: SubscriptionStatus::Active,
            payment: Some(FoundPayment {
                external_id: of("ls_ord_88"),
                amount: of("49.00"),
                currency: of("EUR"),
                status: PaymentStatus::Succeeded,
            }),
        }
    );
}

#[test]
fn every_status_of_an_order_has_its_row() {
    use SubscriptionStatus::{Active, Expired, Pending};
    for (status, refunded_amount, subscription, payment) in [
        ("paid", 0, Active, PaymentStatus::Succeeded),
        ("paid", 100, Active, PaymentStatus::PartiallyRefunded),
        ("partial_refund", 100, Active, PaymentStatus::PartiallyRefunded),
        ("pending", 0, Pending, PaymentStatus::Pending),
        ("failed", 0, Expired, PaymentStatus::Failed),
        ("refunded", 4900, Expired, PaymentStatus::Refunded),
        ("fraudulent", 0, Expired, PaymentStatus::Disputed),
    ] {
        let attributes = json!({ "status": status, "refunded_amount": refunded_amount });

        let found = found_order(&attributes);

        assert_eq!(found.status, subscription, "{attributes}");
        assert_eq!(found.payment.unwrap().status, payment, "{attributes}");
    }
}

#[test]
fn an_order_of_nothing_has_no_payment() {
    assert_eq!(found_order(&json!({ "total": 0 })).payment, None);
}

#[test]
fn an_order_that_cannot_be_read_says_where() {
    for (attributes, path) in [
        (json!({ "status": "shipped" }), "/attributes/status"),
        (json!({ "first_order_item": null }), "/attributes/first_order_item/variant_id"),
        (json!({ "created_at": "today" }), "/attributes/created_at"),
        (json!({ "currency": null }), "/attributes/currency"),
    ] {
        let object = changed(order(), &attributes);
        assert_eq!(unreadable_at(ObjectKind::Order, &object), path, "{attributes}");
    }
}

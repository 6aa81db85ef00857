//! Invoices of Stripe and their payments, row by row.

use serde_json::{Value, json};
use subscription_core::providers::{
    FoundInvoice, FoundObject, FoundPayment, FoundPeriods, ObjectKind, Sold, Unmapped,
};
use subscription_core::{PaymentKind, PaymentStatus};
use test_support::service_world::of;

use super::{
    CREATED, PERIOD_END, PERIOD_START, at, charge, former_invoice, found_invoice, intent, invoice,
    unreadable_at, with,
};

#[test]
fn every_field_of_an_invoice_is_mapped_from_the_new_and_the_former_places() {
    let sold = Sold { price: Some(of("price_1Tea")), product: Some(of("prod_Tea")) };
    let expected = FoundInvoice {
        object: FoundObject {
            id: of("in_1Tea"),
            live: false,
            customer: Some(of("cus_Ada")),
            user_id: None,
            email: Some(of("ada@example.com")),
        },
        subscription: of("sub_1Tea"),
        kind: Some(PaymentKind::Renewal),
        periods: FoundPeriods::Lines(vec![(sold, at(PERIOD_START), at(PERIOD_END))]),
        payments: vec![FoundPayment {
            external_id: of("pi_1Tea"),
            amount: of("59.97"),
            currency: of("USD"),
            status: PaymentStatus::Succeeded,
        }],
        unlisted_since: None,
    };
    let expanded = with(invoice(), &json!({ "payments": null }));
    let expanded =
        with(expanded, &json!({ "payments": { "object": "list", "data": invoice()["payments"] } }));

    for object in [invoice(), former_invoice(), expanded] {
        assert_eq!(found_invoice(&object).as_ref(), Ok(&expected), "{object:#}");
    }
}

#[test]
fn the_reason_of_an_invoice_is_its_kind() {
    for (reason, kind) in [
        (json!("subscription_create"), Some(PaymentKind::Initial)),
        (json!("subscription_cycle"), Some(PaymentKind::Renewal)),
        (json!("subscription_update"), Some(PaymentKind::Proration)),
        (json!("subscription_threshold"), None),
        (json!("manual"), None),
        (json!(null), None),
    ] {
        let object = with(invoice(), &json!({ "billing_reason": reason }));
        assert_eq!(found_invoice(&object).unwrap().kind, kind, "{reason}");
    }
}

#[test]
fn an_invoice_without_subscription_is_none_of_ours() {
    for changes in [
        json!({ "parent": null }),
        json!({ "parent": { "subscription_details": null, "type": "quote_details" } }),
    ] {
        let found = found_invoice(&with(invoice(), &changes));
        assert_eq!(found, Err(Unmapped::NotASubscription));
    }
}

/// The invoice with changes of its charge, intent, payment and of itself, and with disputes of these statuses.
fn case(changes: [Value; 4], disputes: &[&str]) -> Value {
    let [of_charge, of_intent, of_payment, of_invoice] = changes;
    let intent = with(with(intent(), &json!({ "latest_charge": of_charge })), &of_intent);
    let payment = with(json!({ "payment": { "payment_intent": intent } }), &of_payment);
    let disputes: Vec<_> = disputes
        .iter()
        .map(|status| json!({ "id": "dp_1", "charge": "ch_1Tea", "status": status }))
        .collect();
    let object = with(invoice(), &json!({ "payments": payment, "disputes": disputes }));
    with(object, &of_invoice)
}

fn status(object: &Value) -> PaymentStatus {
    let found = found_invoice(object).unwrap();
    let payment = found.payments.iter().find(|payment| payment.external_id == of("pi_1Tea"));
    payment.unwrap().status
}

#[test]
fn every_status_of_a_payment_has_its_row() {
    use PaymentStatus::{
        Canceled, Disputed, Failed, PartiallyRefunded, Pending, Processing, Refunded, Succeeded,
    };
    let no = || json!({});
    let disputed = || json!({ "disputed": true });
    let refunded = || json!({ "refunded": true, "amount_refunded": 5_997 });
    let both = || json!({ "disputed": true, "refunded": true, "amount_refunded": 5_997 });
    let part = || json!({ "amount_refunded": 1 });
    let is = |status: &str| json!({ "status": status });
    let open = || json!({ "status": "open", "amount_paid": null });
    let unpaid = |status: &str| json!({ "status": status, "amount_paid": 0 });
    let declined =
        || json!({ "status": "requires_payment_method", "last_payment_error": { "code": "x" } });
    for (changes, disputes, expected) in [
        ([both(), no(), no(), no()], &["needs_response"][..], Disputed),
        ([disputed(), no(), no(), no()], &["under_review"], Disputed),
        ([disputed(), no(), no(), no()], &["warning_needs_response"], Disputed),
        ([disputed(), no(), no(), no()], &["warning_under_review"], Disputed),
        ([disputed(), no(), no(), no()], &["lost", "under_review"], Disputed),
        ([disputed(), no(), no(), no()], &[], Disputed),
        ([disputed(), no(), no(), no()], &["lost"], Refunded),
        ([disputed(), no(), no(), no()], &["won", "lost"], Refunded),
        ([both(), no(), no(), no()], &["won"], Refunded),
        ([refunded(), no(), no(), no()], &[], Refunded),
        ([part(), no(), no(), no()], &[], PartiallyRefunded),
        ([disputed(), no(), no(), no()], &["won"], Succeeded),
        ([disputed(), no(), no(), no()], &["warning_closed"], Succeeded),
        ([disputed(), no(), no(), no()], &["prevented"], Succeeded),
        // Without the flag, the disputes are of another payment.
        ([no(), no(), no(), no()], &["lost"], Succeeded),
        ([no(), no(), no(), no()], &[], Succeeded),
        ([no(), is("succeeded"), open(), unpaid("void")], &[], Succeeded),
        ([no(), is("processing"), no(), no()], &[], Succeeded),
        ([no(), is("processing"), open(), unpaid("uncollectible")], &[], Processing),
        ([no(), is("canceled"), open(), unpaid("open")], &[], Canceled),
        ([no(), is("canceled"), open(), unpaid("uncollectible")], &[], Canceled),
        ([no(), declined(), is("canceled"), unpaid("open")], &[], Canceled),
        ([no(), declined(), open(), unpaid("void")], &[], Canceled),
        ([no(), is("requires_action"), open(), unpaid("uncollectible")], &[], Failed),
        ([no(), declined(), open(), unpaid("open")], &[], Failed),
        ([no(), is("requires_payment_method"), open(), unpaid("open")], &[], Pending),
        ([no(), is("requires_confirmation"), open(), unpaid("open")], &[], Pending),
        ([no(), is("requires_action"), open(), unpaid("open")], &[], Pending),
        ([no(), is("requires_capture"), open(), unpaid("draft")], &[], Pending),
    ] {
        let shown = format!("{changes:?} {disputes:?}");
        assert_eq!(status(&case(changes, disputes)), expected, "{shown}");
    }
}

#[test]
fn a_dispute_of_another_charge_does_not_count() {
    let mut object = case([json!({ "disputed": true }), json!({}), json!({}), json!({})], &["won"]);
    let other = json!({ "id": "dp_2", "charge": "ch_2", "status": "lost" });
    object["disputes"].as_array_mut().unwrap().push(other);

    assert_eq!(status(&object), PaymentStatus::Succeeded);
}

#[test]
fn a_status_that_is_unknown_and_a_field_that_is_missing_are_named_by_their_place() {
    let no = || json!({});
    let deep = "/payments/0/payment/payment_intent";
    for (object, path) in [
        (case([no(), no(), no(), json!({ "status": "lost" })], &[]), "/status".to_owned()),
        (case([no(), no(), json!({ "status": "late" }), no()], &[]), "/payments/0/status".into()),
        (case([no(), json!({ "status": "new" }), no(), no()], &[]), format!("{deep}/status")),
        (
            case([json!({ "disputed": true }), no(), no(), no()], &["reopened"]),
            "/disputes/0/status".into(),
        ),
        // A charge that is not expanded does not say whether it was refunded.
        (case([json!("ch_1Tea"), no(), no(), no()], &[]), format!("{deep}/latest_charge/disputed")),
        (
            case([json!({ "disputed": null }), no(), no(), no()], &[]),
            format!("{deep}/latest_charge/disputed"),
        ),
        (
            case([json!({ "amount_refunded": null }), no(), no(), no()], &[]),
            format!("{deep}/latest_charge/amount_refunded"),
        ),
        (
            case([json!({ "refunded": null }), no(), no(), no()], &[]),
            format!("{deep}/latest_charge/refunded"),
        ),
        (with(invoice(), &json!({ "payments": null })), "/payments".into()),
        (
            with(invoice(), &json!({ "payments": { "payment": { "payment_intent": null } } })),
            "/payments/0/payment".into(),
        ),
        (
            with(invoice(), &json!({ "payments": { "amount_paid": "5997" } })),
            "/payments/0/amount_paid".into(),
        ),
        (
            with(invoice(), &json!({ "payments": { "currency": "zzz" } })),
            "/payments/0/currency".into(),
        ),
        (with(invoice(), &json!({ "lines": null })), "/lines/data".into()),
        (
            with(invoice(), &json!({ "lines": { "data": { "period": { "end": null } } } })),
            "/lines/data/0/period/end".into(),
        ),
        (with(invoice(), &json!({ "livemode": null })), "/livemode".into()),
        (with(invoice(), &json!({ "amount_paid": null })), "/amount_paid".into()),
    ] {
        assert_eq!(unreadable_at(ObjectKind::Invoice, &object), path, "{object:#}");
    }
}

#[test]
fn a_payment_is_named_by_its_intent_else_its_charge_else_its_record() {
    let charge = with(charge(), &json!({ "refunded": true, "payment_intent": null }));
    for (payment, id, status) in [
        (
            json!({ "payment_intent": intent(), "charge": null, "payment_record": "pr_1" }),
            "pi_1Tea",
            PaymentStatus::Succeeded,
        ),
        (
            json!({ "payment_intent": null, "charge": charge, "payment_record": "pr_1" }),
            "ch_1Tea",
            PaymentStatus::Refunded,
        ),
        (
            json!({ "payment_intent": null, "charge": null, "payment_record": "pr_1" }),
            "pr_1",
            PaymentStatus::Succeeded,
        ),
    ] {
        let found = found_invoice(&with(invoice(), &json!({ "payments": { "payment": payment } })));

        let payments = found.unwrap().payments;
        assert_eq!(payments.len(), 1);
        assert_eq!((&payments[0].external_id, payments[0].status), (&of(id), status));
    }
}

/// The ids and amounts of the payments.
fn amounts(object: &Value) -> Vec<(String, String)> {
    let payments = found_invoice(object).unwrap().payments;
    let shown = |payment: &FoundPayment| {
        (payment.external_id.to_string(), payment.amount.value().to_string())
    };
    payments.iter().map(shown).collect()
}

#[test]
fn the_amount_is_the_paid_one_else_the_requested_one() {
    let open = json!({ "status": "open", "amount_paid": null, "amount_requested": 1_234 });
    let object = with(invoice(), &json!({ "status": "open", "payments": open, "amount_paid": 0 }));
    assert_eq!(amounts(&object), [("pi_1Tea".to_owned(), "12.34".to_owned())]);

    let former = with(former_invoice(), &json!({ "status": "open", "amount_paid": 0 }));
    assert_eq!(amounts(&former), [("pi_1Tea".to_owned(), "59.97".to_owned())]);
}

#[test]
fn money_that_was_paid_elsewhere_has_the_id_of_the_invoice() {
    let elsewhere = [("in_1Tea".to_owned(), "59.97".to_owned())];
    assert_eq!(amounts(&with(invoice(), &json!({ "payments": [] }))), elsewhere);

    let no_intent = json!({ "payment_intent": null, "charge": null, "amount_paid": 0, "paid_out_of_band": true });
    assert_eq!(amounts(&with(former_invoice(), &no_intent)), elsewhere);

    let part = with(invoice(), &json!({ "payments": { "amount_paid": 4_000 } }));
    let expected = [("pi_1Tea", "40.00"), ("in_1Tea", "19.97")];
    assert_eq!(amounts(&part), expected.map(|(id, amount)| (id.to_owned(), amount.to_owned())));
}

#[test]
fn an_invoice_whose_payments_are_not_all_listed_says_since_when() {
    let paid = with(invoice(), &json!({ "status_transitions": { "paid_at": CREATED } }));
    let open = json!({ "payments": { "status": "open", "amount_paid": null,
        "payment": { "payment_intent": { "status": "processing", "latest_charge": null } } } });
    for (object, since) in [
        (paid.clone(), None),
        (with(paid.clone(), &json!({ "payments": [] })), Some(at(CREATED))),
        (with(paid.clone(), &json!({ "payments": { "amount_paid": 4_000 } })), Some(at(CREATED))),
        (with(paid, &open), Some(at(CREATED))),
        (with(invoice(), &json!({ "payments": [] })), None),
    ] {
        assert_eq!(found_invoice(&object).unwrap().unlisted_since, since, "{object:#}");
    }
}

#[test]
fn an_amount_of_0_is_no_payment() {
    let free = json!({ "amount_due": 0, "amount_paid": 0, "payments": [] });
    let former = json!({
        "amount_due": 0, "amount_paid": 0, "payments": null, "payment_intent": null, "charge": null,
    });
    let zero = json!({ "amount_paid": 0, "payments": { "amount_paid": 0 } });
    for object in [with(invoice(), &free), with(former_invoice(), &former), with(invoice(), &zero)]
    {
        assert_eq!(found_invoice(&object), Err(Unmapped::ZeroAmount), "{object:#}");
    }

    let mut two = invoice();
    let nothing = with(
        two["payments"][0].clone(),
        &json!({ "amount_paid": 0, "payment": { "payment_intent": { "id": "pi_2" } } }),
    );
    two["payments"].as_array_mut().unwrap().push(nothing);
    assert_eq!(amounts(&two), [("pi_1Tea".to_owned(), "59.97".to_owned())]);
}

#[test]
fn lines_of_prorations_come_last_and_lines_without_price_are_left_out() {
    let mut object = invoice();
    let line = object["lines"]["data"][0].clone();
    let details = json!({ "proration": true });
    let proration = with(
        line.clone(),
        &json!({ "period": { "start": CREATED }, "parent": { "subscription_item_details": details } }),
    );
    let added = with(
        line.clone(),
        &json!({
            "period": { "start": CREATED },
            "parent": { "subscription_item_details": null, "invoice_item_details": details },
        }),
    );
    let former = with(
        line.clone(),
        &json!({ "period": { "start": CREATED }, "parent": null, "proration": true }),
    );
    let no_price = with(line.clone(), &json!({ "pricing": null }));
    object["lines"]["data"] = json!([proration, added, former, no_price, line]);

    let found = found_invoice(&object).unwrap();

    let FoundPeriods::Lines(lines) = found.periods else { panic!("no lines") };
    let starts: Vec<_> = lines.iter().map(|(_, start, _)| *start).collect();
    assert_eq!(starts, [PERIOD_START, CREATED, CREATED, CREATED].map(at));
}

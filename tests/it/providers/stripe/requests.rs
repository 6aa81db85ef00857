//! Requests to the API of Stripe: their paths, and the answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use subscription_core::http_client::{Fetch, FetchFailed, FetchRequest};
use subscription_core::providers::{
    ApiFailed, ApiPage, HttpProviderApi, ObjectKind, ObjectList, ProviderApi as _, ProviderKind,
};
use subscription_core::{PaymentStatus, Timestamp};
use test_support::service_world::of;

use super::{CREATED, at, charge, found_invoice, intent, invoice, with};

/// Answers by path and query, and writes down what it is asked.
#[derive(Debug, Default)]
struct Answers {
    by_path: BTreeMap<String, Value>,
    asked: Mutex<Vec<FetchRequest>>,
}

#[async_trait]
impl Fetch for Answers {
    async fn fetch(&self, request: FetchRequest) -> Result<Vec<u8>, FetchFailed> {
        let url = request.url.as_str().strip_prefix("https://api.stripe.com").unwrap().to_owned();
        self.asked.lock().unwrap().push(request);
        let not_found =
            || FetchFailed { status: Some(404), retry_after: None, source: "there is none".into() };
        self.by_path.get(&url).map(|body| body.to_string().into_bytes()).ok_or_else(not_found)
    }
}

impl Answers {
    fn new<const N: usize>(answers: [(&str, Value); N]) -> Arc<Self> {
        let by_path = answers.map(|(path, answer)| (path.to_owned(), answer)).into();
        Arc::new(Self { by_path, asked: Mutex::default() })
    }

    fn api(self: &Arc<Self>) -> HttpProviderApi {
        let fetch = Arc::clone(self) as Arc<dyn Fetch>;
        HttpProviderApi::new(ProviderKind::Stripe, "rk_test_key".into(), fetch)
    }

    fn paths(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(|request| request.url.to_string()).collect()
    }
}

fn page(data: &[Value], has_more: bool) -> Value {
    json!({ "object": "list", "url": "https://elsewhere.example", "data": data, "has_more": has_more })
}

#[tokio::test]
async fn every_request_pins_the_version_and_has_the_key_as_its_user() {
    let answers = Answers::new([("/v1/subscriptions/sub_1", json!({ "id": "sub_1" }))]);

    let found = answers.api().object(ObjectKind::Subscription, &of("sub_1")).await.unwrap();

    assert_eq!(found, Some(json!({ "id": "sub_1" })));
    let asked = answers.asked.lock().unwrap();
    let (user, password) = asked[0].basic.as_ref().unwrap();
    assert_eq!((user.expose_secret(), password.expose_secret()), ("rk_test_key", ""));
    let headers: Vec<_> =
        asked[0].headers.iter().map(|(name, value)| (*name, value.expose_secret())).collect();
    assert_eq!(headers, [("stripe-version", "2025-08-27.basil")]);
    assert!(asked[0].form.is_none());
}

#[tokio::test]
async fn every_kind_of_object_has_its_path() {
    for (kind, path) in [
        (ObjectKind::Customer, "customers"),
        (ObjectKind::Subscription, "subscriptions"),
        (ObjectKind::Invoice, "invoices"),
        (ObjectKind::CheckoutSession, "checkout/sessions"),
        (ObjectKind::PaymentIntent, "payment_intents"),
    ] {
        let answers = Answers::new([]);
        assert_eq!(answers.api().object(kind, &of("x_1")).await.unwrap(), None);
        assert_eq!(answers.paths(), [format!("https://api.stripe.com/v1/{path}/x_1")]);
    }
    let answers = Answers::new([]);
    let failed = answers.api().object(ObjectKind::Order, &of("x_1")).await.unwrap_err();
    assert!(matches!(failed, ApiFailed::Unreadable(_)), "{failed:?}");
    assert!(answers.paths().is_empty());
}

#[tokio::test]
async fn every_list_has_its_path() {
    for (list, path) in [
        (ObjectList::Subscriptions, "subscriptions?status=all"),
        (ObjectList::Invoices(at(CREATED)), "invoices?created%5Bgte%5D=1767603600"),
        (ObjectList::Invoices(Timestamp::MIN), "invoices?created%5Bgte%5D=0"),
        (ObjectList::Refunds(at(CREATED)), "refunds?created%5Bgte%5D=1767603600"),
        (ObjectList::Disputes(at(CREATED)), "disputes?created%5Bgte%5D=1767603600"),
        (
            ObjectList::InvoicePaymentsOf(of("pi_1")),
            "invoice_payments?payment%5Btype%5D=payment_intent&payment%5Bpayment_intent%5D=pi_1",
        ),
        (ObjectList::SessionsOf(of("sub_1")), "checkout/sessions?subscription=sub_1"),
    ] {
        let path = format!("/v1/{path}&limit=100");
        let after = format!("{path}&starting_after=x_2");
        let first = page(&[json!({ "id": "x_1" }), json!({ "id": "x_2" })], true);
        let last = page(&[json!({ "id": "x_3" })], false);
        let answers = Answers::new([(path.as_str(), first), (after.as_str(), last)]);

        let first = answers.api().page(&list, None).await.unwrap();
        let last = answers.api().page(&list, first.next.as_deref()).await.unwrap();

        assert_eq!(first.items, [json!({ "id": "x_1" }), json!({ "id": "x_2" })]);
        assert_eq!(first.next.as_deref(), Some("x_2"));
        let expected = ApiPage { items: vec![json!({ "id": "x_3" })], next: None, total: None };
        assert_eq!(last, expected);
    }
}

#[tokio::test]
async fn a_list_that_does_not_exist_and_a_place_that_is_none_are_not_asked_for() {
    let answers = Answers::new([]);
    for (list, after) in [
        (ObjectList::Orders(Timestamp::MIN), None),
        (ObjectList::Subscriptions, Some("x&status=active")),
        (ObjectList::Subscriptions, Some("../customers")),
        (ObjectList::Subscriptions, Some("")),
    ] {
        let failed = answers.api().page(&list, after).await.unwrap_err();
        assert!(matches!(failed, ApiFailed::Unreadable(_)), "{failed:?}");
    }
    assert!(answers.paths().is_empty());
}

#[tokio::test]
async fn an_answer_that_is_no_page_is_unreadable() {
    for answer in [
        json!({}),
        json!([]),
        json!({ "data": {}, "has_more": false }),
        json!({ "data": [{ "id": "x_1" }] }),
        json!({ "data": [{ "id": "../x" }], "has_more": true }),
        json!({ "data": [{}], "has_more": true }),
    ] {
        let answers = Answers::new([("/v1/subscriptions?status=all&limit=100", answer)]);
        let failed = answers.api().page(&ObjectList::Subscriptions, None).await.unwrap_err();
        assert!(matches!(failed, ApiFailed::Unreadable(_)), "{failed:?}");
    }
}

#[tokio::test]
async fn an_invoice_comes_with_its_payments_and_the_disputes_of_those_that_have_some() {
    let expand =
        "expand%5B%5D=data.payment.payment_intent.latest_charge&expand%5B%5D=data.payment.charge";
    let payments_path = format!("/v1/invoice_payments?invoice=in_1Tea&limit=100&{expand}");
    let disputed = with(charge(), &json!({ "disputed": true }));
    let payment = |id: &str, charge: &Value| {
        let intent = with(intent(), &json!({ "id": id, "latest_charge": charge }));
        with(
            invoice()["payments"][0].clone(),
            &json!({ "amount_paid": 5_997, "payment": { "payment_intent": intent } }),
        )
    };
    let other = with(charge(), &json!({ "id": "ch_2" }));
    let payments = [payment("pi_1Tea", &disputed), payment("pi_2", &other)];
    let dispute = json!({ "id": "dp_1", "charge": "ch_1Tea", "status": "lost" });
    let mut bare = invoice();
    for added in ["payments", "disputes"] {
        bare.as_object_mut().unwrap().remove(added);
    }
    let answers = Answers::new([
        ("/v1/invoices/in_1Tea", bare),
        (payments_path.as_str(), page(&payments, false)),
        ("/v1/disputes?charge=ch_1Tea&limit=100", page(&[dispute], false)),
    ]);

    let found = answers.api().object(ObjectKind::Invoice, &of("in_1Tea")).await.unwrap().unwrap();

    assert_eq!(answers.paths().len(), 3);
    let statuses = found_invoice(&found).unwrap().payments;
    let statuses: Vec<_> = statuses.iter().map(|payment| payment.status).collect();
    assert_eq!(statuses, [PaymentStatus::Refunded, PaymentStatus::Succeeded]);
}

#[tokio::test]
async fn an_invoice_whose_payments_are_no_list_is_unreadable() {
    let expand =
        "expand%5B%5D=data.payment.payment_intent.latest_charge&expand%5B%5D=data.payment.charge";
    let path = format!("/v1/invoice_payments?invoice=in_1Tea&limit=100&{expand}");
    let answers = Answers::new([("/v1/invoices/in_1Tea", invoice()), (path.as_str(), json!({}))]);

    let failed = answers.api().object(ObjectKind::Invoice, &of("in_1Tea")).await.unwrap_err();

    assert!(matches!(failed, ApiFailed::Unreadable(_)), "{failed:?}");
}

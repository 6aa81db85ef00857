//! Attacks by way of payment providers, each against the program as it is started.

#![expect(clippy::indexing_slicing, reason = "a test that fails panics")]

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use subscription_core::providers::ProviderKind::{self, LemonSqueezy, Stripe};
use test_support::fake_provider::{Fault, KEY, SECRET, Webhook, mac, shared};

use crate::provider_shop::{Shop, now, until, user};
use crate::running::{command_in, run};

/// The payload of a Stripe event about a subscription.
fn event(id: &str, object: &str) -> String {
    let object = json!({ "id": object, "object": "subscription" });
    json!({
        "id": id, "object": "event", "type": "customer.subscription.updated", "livemode": false,
        "data": { "object": object },
    })
    .to_string()
}

#[test]
fn p1_a_webhook_with_any_byte_flipped_is_refused_and_nothing_is_stored() {
    for kind in ProviderKind::ALL {
        let shop = Shop::of(kind);
        let body = match kind {
            Stripe => event("evt_1", "sub_1"),
            LemonSqueezy => json!({
                "meta": { "event_name": "subscription_updated", "test_mode": true },
                "data": { "type": "subscriptions", "id": "1" },
            })
            .to_string(),
        };
        let webhook = Webhook::of(kind, SECRET, now(), body.into_bytes());
        let header = format!("{}: {}\r\n", webhook.header, webhook.signature);

        for place in 0..webhook.body.len() {
            let mut body = webhook.body.clone();
            body[place] ^= 1;
            let answer = shop.webhook(&header, &body);
            assert_eq!((answer.status, &answer.json()["code"]), (400, &json!("signature_invalid")));
        }
        for place in 0..webhook.signature.len() {
            let mut signature = webhook.signature.clone().into_bytes();
            signature[place] ^= 1;
            let signature = String::from_utf8(signature).unwrap();
            let answer =
                shop.webhook(&format!("{}: {signature}\r\n", webhook.header), &webhook.body);
            assert_eq!(answer.status, 400, "{signature}: {answer:?}");
        }

        assert_eq!(shop.states(), Vec::<String>::new());
        assert_eq!(shop.provider.requests(), Vec::<String>::new());
        assert_eq!(shop.webhook(&header, &webhook.body).status, 200);
    }
}

#[test]
fn p2_odd_signature_headers_are_refused_with_one_answer() {
    let shop = Shop::of(Stripe);
    let body = event("evt_1", "sub_1");
    let at = now();
    let good = mac(SECRET, format!("{at}.{body}").as_bytes());
    let old = at - 301;
    let late = mac(SECRET, format!("{old}.{body}").as_bytes());
    let early = at + 400;
    let too_early = mac(SECRET, format!("{early}.{body}").as_bytes());
    let other = mac("whsec_of_somebody_else", format!("{at}.{body}").as_bytes());
    let name = "Stripe-Signature";
    let many = |count: usize| vec![format!("v1={other}"); count].join(",");

    for headers in [
        String::new(),
        format!("{name}: \r\n"),
        format!("{name}: t={at},v1={good}\r\n{name}: t={at},v1={good}\r\n"),
        format!("{name}: t={at},t={at},v1={good}\r\n"),
        format!("{name}: v1={good}\r\n"),
        format!("{name}: t={at}\r\n"),
        format!("{name}: t={at},v0={good}\r\n"),
        format!("{name}: t={at},v1={other}\r\n"),
        format!("{name}: t={old},v1={late}\r\n"),
        format!("{name}: t={early},v1={too_early}\r\n"),
        format!("{name}: t={at},v1={}\r\n", &good[..63]),
        format!("{name}: t={at},v1={good}00\r\n"),
        format!("{name}: t=+{at},v1={good}\r\n"),
        format!("{name}: t=99999999999999999999,v1={good}\r\n"),
        format!("{name}: t={at},{},v1={good}\r\n", many(20)),
        format!("X-Signature: {}\r\n", mac(SECRET, body.as_bytes())),
    ] {
        let answer = shop.webhook(&headers, body.as_bytes());
        assert_eq!(
            (answer.status, &answer.json()["code"]),
            (400, &json!("signature_invalid")),
            "{headers}"
        );
    }
    // 10,000 signatures do not fit into the head of a request.
    let answer = shop.webhook(&format!("{name}: t={at},{}\r\n", many(10_000)), body.as_bytes());
    assert!((400..500).contains(&answer.status), "{}", answer.status);
    assert_eq!(shop.states(), Vec::<String>::new());

    // One of several secrets, and of several signatures, fits.
    let answer =
        shop.webhook(&format!("{name}: t={at},{},v1={good},v0=1\r\n", many(3)), body.as_bytes());
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[test]
fn p3_a_webhook_that_is_replayed_changes_nothing() {
    let shop = Shop::of(LemonSqueezy);
    let user = user();
    let first = {
        let mut account = shared(&shop.provider.account);
        let customer = account.customer();
        account.subscribe(&customer, Some(&user), 0, None);
        account.outbox[0].clone()
    };
    shop.deliver();
    until("it is followed", || shop.record(&first.object).is_some());
    shared(&shop.provider.account).change(&first.object, |of| of.status = "past_due");
    shop.deliver();
    until("it is past due", || shop.record(&first.object).unwrap()["status"] == "past_due");
    let record = shop.record(&first.object).unwrap();
    let stored = shop.states().len();

    // The payload says that it is active; with another byte it is an event of its own.
    assert_eq!(shop.signed(first.body.clone()).status, 200);
    assert_eq!(shop.states().len(), stored);
    assert_eq!(shop.signed([first.body, b" ".to_vec()].concat()).status, 200);

    until("it is applied", || {
        let states = shop.states();
        states.len() > stored && states.iter().all(|state| state == "applied" || state == "same")
    });
    assert_eq!(shop.record(&first.object).unwrap(), record);
}

#[test]
fn p5_live_data_does_not_get_into_test_data() {
    let shop = Shop::of(Stripe);
    let body = event("evt_1", "sub_1").replace("\"livemode\":false", "\"livemode\":true");

    assert_eq!(shop.signed(body).status, 200);

    assert_eq!(shop.states(), ["ignored:other_mode"]);
    assert_eq!(shop.provider.requests(), Vec::<String>::new());

    // The event is of test mode, the object is not.
    let id = {
        let mut account = shared(&shop.provider.account);
        let customer = account.customer();
        account.subscribe(&customer, Some(&user()), 0, None)
    };
    shop.provider.fails(Fault::OtherMode, u64::MAX);
    shop.deliver();
    until("it is fetched", || shop.provider.gets(&format!("/v1/subscriptions/{id}")) > 0);
    until("it is decided", || !shop.states().contains(&"pending".to_owned()));

    assert_eq!(shop.states(), ["ignored:other_mode", "ignored:other_mode"]);
    assert!(shop.record(&id).is_none());
}

#[test]
fn p6_a_customer_stays_with_the_user_who_was_first() {
    let shop = Shop::of(LemonSqueezy);
    let (first, other) = (user(), user());
    let (customer, ours) = {
        let mut account = shared(&shop.provider.account);
        let customer = account.customer();
        let ours = account.subscribe(&customer, Some(&first), 0, None);
        (customer, ours)
    };
    shop.deliver();
    until("it is followed", || shop.record(&ours).is_some());

    let theirs = shared(&shop.provider.account).subscribe(&customer, Some(&other), 0, None);
    shop.deliver();
    shop.until_state("waiting:customer_conflict");

    assert!(shop.record(&theirs).is_none());
    assert_eq!(shop.record(&ours).unwrap()["user_id"], first);
    let bound = shop.post(
        "/provider-links",
        &json!({ "source": "shop", "customer": customer, "user_id": other }),
    );
    assert_eq!((bound.status, &bound.json()["code"]), (409, &json!("customer_conflict")));

    // Neither an invoice, which names nobody, nor a sync passes the conflict.
    shared(&shop.provider.account).invoice(&theirs, "initial", true);
    shop.deliver();
    let conflicts = || shop.states().iter().filter(|it| *it == "waiting:customer_conflict").count();
    until("the invoice waits", || conflicts() == 2);
    let sync = json!({ "source": "shop", "subscription": theirs });
    let synced = shop.post("/provider-syncs", &sync);
    assert_eq!((synced.status, &synced.json()["reason"]), (202, &json!("customer_conflict")));
    assert!(shop.record(&theirs).is_none());
    let decided = json!({ "source": "shop", "subscription": theirs, "user_id": other });
    assert_eq!(shop.post("/provider-syncs", &decided).status, 200);
    assert_eq!(shop.record(&theirs).unwrap()["user_id"], other);
    until("nothing waits any more", || conflicts() == 0);
}

#[test]
fn p7_an_e_mail_address_at_the_checkout_makes_nobody_a_user() {
    let shop = Shop::of(Stripe);
    let id = {
        let mut account = shared(&shop.provider.account);
        let customer = account.customer();
        account.customers.insert(customer.clone(), "ada@example.com".into());
        account.subscribe(&customer, None, 0, None)
    };
    shop.deliver();

    shop.until_state("waiting:unknown_customer");

    assert!(shop.record(&id).is_none());
    let asked = shop.provider.requests();
    assert!(!asked.iter().any(|path| path.starts_with("/v1/customers/")), "{asked:?}");
}

#[test]
fn p8_a_host_that_a_payload_names_gets_no_request() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let there = format!("http://{}/v1/subscriptions/sub_1", listener.local_addr().unwrap());
    let shop = Shop::of(Stripe);
    let thin = json!({
        "id": "evt_1", "object": "v2.core.event", "type": "customer.subscription.updated",
        "livemode": false, "url": there,
        "related_object": { "id": "sub_1", "type": "subscription", "url": there },
    });
    assert_eq!(shop.signed(thin.to_string()).status, 200);
    let whole = json!({
        "id": "evt_2", "object": "event", "type": "customer.subscription.updated", "livemode": false,
        "data": { "object": { "id": "sub_2", "object": "subscription", "url": there } },
    });
    assert_eq!(shop.signed(whole.to_string()).status, 200);

    until("both are decided", || shop.states() == ["waiting:not_found", "waiting:not_found"]);

    assert!(listener.accept().is_err(), "the host was called");
    assert_eq!(shop.provider.gets("/v1/subscriptions/sub_1"), 1);
}

#[test]
fn p9_an_id_that_is_a_path_is_never_fetched() {
    let shop = Shop::of(Stripe);
    let long = "x".repeat(256);
    let ids = [
        "sub_1/../x",
        "..",
        "../customers/cus_1",
        "sub_1?expand[]=x",
        "sub_1#x",
        "sub_1%2f..",
        "sub 1",
        "sub_1\n",
        "",
        "süb",
        &long,
    ];
    for (nth, id) in ids.iter().enumerate() {
        let answer = shop.signed(event(&format!("evt_{nth}"), id));
        assert_eq!(answer.status, 200, "{id:?}");
    }

    assert_eq!(shop.states(), vec!["failed:unreadable"; ids.len()]);
    assert_eq!(shop.provider.requests(), Vec::<String>::new());
    for id in ids {
        let answer = shop.post("/provider-syncs", &json!({ "source": "shop", "subscription": id }));
        assert_eq!(answer.status, 422, "{id:?}: {answer:?}");
    }
}

#[test]
fn p10_a_body_of_brackets_or_of_huge_numbers_is_answered_at_once() {
    let shop = Shop::of(Stripe);
    let huge = event("evt_1", "sub_1")
        .replace("\"livemode\"", &format!("\"x\":1{},\"livemode\"", "0".repeat(900_000)));
    let bodies = [
        "[".repeat(1_048_576),
        "{\"a\":".repeat(200_000),
        format!("\"{}", "\\u0000".repeat(170_000)),
        huge,
        "9".repeat(1_048_576),
    ];
    for body in bodies {
        let begun = Instant::now();
        let answer = shop.signed(body);
        let took = begun.elapsed();
        assert_eq!(answer.status, 200, "{answer:?}");
        // Quadratic work on a megabyte would take hours.
        assert!(took < Duration::from_mins(1), "{took:?}");
    }
    let answer = shop.signed("[".repeat(1_048_577));
    assert_eq!(answer.status, 413, "{answer:?}");
}

/// That the flood itself is limited by its address is tested where the limits are.
#[test]
fn p11_honest_callers_are_answered_during_a_flood_of_unsigned_webhooks() {
    let shop = Shop::of(Stripe);
    let body = event("evt_1", "sub_1");
    let forged = format!("Stripe-Signature: t={},v1={}\r\n", now(), "0".repeat(64));
    let (begun, lasts) = (Instant::now(), Duration::from_secs(2));
    let mut times = Vec::new();

    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while begun.elapsed() < lasts {
                    let answer = shop.webhook(&forged, body.as_bytes());
                    assert!([400, 429, 503].contains(&answer.status), "{answer:?}");
                }
            });
        }
        while begun.elapsed() < lasts {
            let asked = Instant::now();
            assert_eq!(shop.get("/subscription-plans/monthly").status, 200);
            times.push(asked.elapsed());
        }
    });

    times.sort();
    let slow = times[times.len() * 99 / 100];
    println!("{} honest requests, p99 {slow:?}", times.len());
    assert_eq!(shop.states(), Vec::<String>::new());
    assert_eq!(shop.provider.requests(), Vec::<String>::new());
}

#[test]
fn p12_a_flood_of_signed_webhooks_of_one_object_fetches_it_once_a_second() {
    let shop = Shop::of(Stripe);
    let (id, _) = shop.subscribed(&user());
    let path = format!("/v1/subscriptions/{id}");
    let (before, begun) = (shop.provider.gets(&path), Instant::now());

    for nth in 0..200 {
        assert_eq!(shop.signed(event(&format!("evt_flood_{nth}"), &id)).status, 200);
    }
    until("all are decided", || {
        let open = shop.get("/provider-events?state=pending&limit=1").json();
        open["data"].as_array().unwrap().is_empty()
    });

    let fetched = shop.provider.gets(&path) - before;
    let seconds = usize::try_from(begun.elapsed().as_secs()).unwrap();
    assert!(fetched <= seconds + 2, "{fetched} fetches in {seconds} s");
}

#[test]
fn p13_a_paid_payment_keeps_its_amount() {
    let shop = Shop::of(Stripe);
    let (id, record) = shop.subscribed(&user());
    let invoice = shared(&shop.provider.account).invoice(&id, "subscription_create", true);
    shop.deliver();
    let payments = || {
        let path = format!("/subscriptions/{}/payments", record["id"].as_str().unwrap());
        shop.get(&path).json()["data"].as_array().unwrap().clone()
    };
    until("it is paid", || payments().iter().any(|payment| payment["status"] == "succeeded"));
    let before = payments();

    shared(&shop.provider.account).change_invoice(&invoice, "invoice.paid", |of| {
        of.total = 1;
        of.payments[0].amount = 1;
    });
    shop.deliver();

    shop.until_state("failed:settled_differs");
    assert_eq!(payments(), before);
}

#[test]
fn p14_logs_exports_and_documents_show_no_secret_and_no_person() {
    for kind in ProviderKind::ALL {
        let shop = Shop::with(kind, "", |command| {
            command.args(["--log", "debug"]);
        });
        let (id, record) = shop.subscribed(&user());
        let reason = if kind == Stripe { "subscription_create" } else { "initial" };
        shared(&shop.provider.account).invoice(&id, reason, true);
        shared(&shop.provider.account).customer();
        shop.deliver();
        shop.provider.fails(Fault::Status(401, None), 1);
        shop.signed("not JSON");
        let answer = shop.post("/provider-syncs", &json!({ "source": "shop", "subscription": id }));
        assert!(answer.status < 500, "{answer:?}");
        shop.provider.recovers();
        if kind == LemonSqueezy {
            let url = record["manage_url"].as_str().unwrap();
            assert!(url.starts_with("https://") && !url.contains('?'), "{url}");
        }
        let shown = [
            shop.get("/providers").text,
            shop.get("/provider-events?limit=100").text,
            shop.get("/subscriptions").text,
            shop.get("/metrics").text,
        ]
        .concat();
        shop.running.signal("TERM");
        let (code, out, log) = shop.running.end();
        assert_eq!(code, Some(0), "{log}");
        let (exported, errors) = run(command_in(&shop.folder).args(["export", "all.jsonl"]));
        assert!(exported.status.success(), "{errors}");
        let file = std::fs::read_to_string(shop.folder.join("all.jsonl")).unwrap();

        assert!(file.contains("provider_link") && file.contains("provider_event"), "{file}");
        for (name, text) in [("answers", shown), ("output", out), ("log", log), ("export", file)] {
            for secret in [SECRET, KEY, "cmtfdGVzdF9v", "people.example", "signature=", "A Person"]
            {
                assert!(!text.contains(secret), "{kind}: {secret} in the {name}: {text}");
            }
        }
    }
}

/// A server for each fault: one that cannot read from its provider pauses.
#[test]
fn p16_an_api_that_fails_or_lies_changes_nothing_and_is_asked_again() {
    let faults = [
        Fault::Status(429, Some(1)),
        Fault::Status(500, None),
        Fault::Status(503, Some(1)),
        Fault::Status(401, None),
        Fault::Status(403, None),
        Fault::Status(400, None),
        Fault::Redirects,
        Fault::WrongId,
        Fault::NotJson,
        Fault::Gibibyte,
    ];
    std::thread::scope(|scope| {
        for fault in faults {
            scope.spawn(|| changes_nothing(fault));
        }
    });
}

#[expect(clippy::needless_pass_by_value, reason = "a thread owns its fault")]
fn changes_nothing(fault: Fault) {
    let shop = Shop::of(Stripe);
    let (id, record) = shop.subscribed(&user());
    let path = format!("/v1/subscriptions/{id}");
    let sync = json!({ "source": "shop", "subscription": id });
    let before = shop.provider.gets(&path);
    shared(&shop.provider.account).change(&id, |of| of.quantity = 7);
    shared(&shop.provider.account).outbox.clear();
    shop.provider.fails(fault.clone(), u64::MAX);

    let answer = shop.post("/provider-syncs", &sync);

    assert_eq!(answer.status, 202, "{fault:?}: {answer:?}");
    assert!(shop.provider.gets(&path) > before, "{fault:?}");
    assert_eq!(shop.record(&id).unwrap(), record, "{fault:?}");
    assert_eq!(shop.provider.gets("/elsewhere"), 0);
    assert_eq!(shop.provider.writes(), 0);
    assert!(shop.provider.sent() < 64 << 20, "{} bytes were read", shop.provider.sent());

    shop.provider.recovers();
    until("it is followed again", || {
        shop.post("/provider-syncs", &sync);
        shop.record(&id).unwrap()["quantity"] == 7
    });
}

#[test]
fn p16_an_api_that_hangs_holds_up_nobody() {
    let shop = Shop::of(Stripe);
    let (id, record) = shop.subscribed(&user());
    shop.provider.fails(Fault::Hangs, u64::MAX);
    shared(&shop.provider.account).change(&id, |of| of.quantity = 7);
    let path = format!("/v1/subscriptions/{id}");
    let before = shop.provider.gets(&path);
    shop.deliver();
    until("it hangs", || shop.provider.gets(&path) > before);

    let begun = Instant::now();
    assert_eq!(shop.signed(event("evt_more", "sub_1")).status, 200);
    assert_eq!(shop.get("/providers").status, 200);
    // Behind the request that hangs it would be ten.
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    assert_eq!(shop.record(&id).unwrap(), record);

    // After 10 s the request has timed out, and the events say so.
    shop.until_state("pending:provider_unavailable");
}

#[test]
fn p17_billing_that_goes_on_revives_nothing_that_was_released_or_deleted() {
    for how in ["PUT", "DELETE"] {
        let shop = Shop::of(Stripe);
        let (id, record) = shop.subscribed(&user());
        let path = format!("/subscriptions/{}", record["id"].as_str().unwrap());
        let body = if how == "PUT" { json!({ "managed_by": "caller" }) } else { Value::Null };
        let answer = shop.send(how, &path, &body);
        assert!([200, 204].contains(&answer.status), "{how}: {answer:?}");
        let before = shop.record(&id);

        shared(&shop.provider.account).change(&id, |of| of.quantity = 7);
        shop.deliver();

        shop.until_state("ignored:detached");
        assert_eq!(shop.record(&id), before, "{how}");
    }
}

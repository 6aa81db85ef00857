//! New subscriptions: what the clock needs to bill them, and what it asks for at once.

use subscription_core::billing::Policy;
use subscription_core::{
    Error, Field, ManagedBy, NewSubscription, PaymentStatus, Quantity, Rules as _,
    SubscriptionStatus, Version,
};
use test_support::billing::Life;
use test_support::billing::life::plan;
use test_support::service_world::{at, faults, of};

use SubscriptionStatus::{Active, Cancelled, Expired, OnTrial, PastDue, Paused, Pending, Unpaid};

const NOW: &str = "2026-03-01T00:00:00Z";

fn created(
    currency: Option<&str>,
    change: impl FnOnce(&mut NewSubscription),
) -> Result<Life, Error> {
    Life::of_plan(Policy::default(), &plan(of("monthly"), currency), at(NOW), change)
}

#[test]
fn a_subscription_that_starts_now_asks_for_its_first_period_at_once() {
    let life = created(Some("USD"), |_| {}).unwrap();

    let one = &life.subscription;
    assert_eq!((one.status, one.version, one.is_active), (Active, Version::FIRST, true));
    assert_eq!(one.price().map(|price| price.to_string()).as_deref(), Some("10"));
    assert_eq!(one.currency(), Some(of("USD")));
    assert_eq!(one.next_action_at(), Some(at("2026-03-29T00:00:00Z")), "the reminder");
    let asked = life.payments[0].asked.as_ref().unwrap();
    assert_eq!((asked.kind.as_str(), life.amounts()), ("initial", vec!["10.00".to_owned()]));
    assert_eq!((asked.period_start, asked.period_end), (at(NOW), one.renews_at));
    assert_eq!((asked.value.to_string(), asked.cycle), ("10.00".to_owned(), of("monthly")));
    assert_eq!(life.writes.len(), 1);
}

#[test]
fn one_that_starts_later_waits_and_asks_then() {
    let mut life =
        created(Some("USD"), |new| new.starts_at = Some(at("2026-03-10T00:00:00Z"))).unwrap();
    assert_eq!((life.status(), life.payments.len()), (Pending, 0));
    assert_eq!(life.subscription.next_action_at(), Some(at("2026-03-10T00:00:00Z")));

    life.until("2026-03-11T00:00:00Z");

    assert_eq!((life.status(), life.asked_days()), (Active, vec!["2026-03-10".to_owned()]));
    assert_eq!(life.subscription.renews_at, Some(at("2026-04-10T00:00:00Z")));
}

#[test]
fn a_trial_asks_for_nothing_until_it_ends() {
    let trial = |new: &mut NewSubscription| new.trial_ends_at = at("2026-03-15T00:00:00Z").into();
    let mut life = created(Some("USD"), trial).unwrap();
    assert_eq!((life.status(), life.payments.len()), (OnTrial, 0));
    assert_eq!(life.subscription.current_period_start(), Some(at(NOW)));
    assert_eq!(life.subscription.renews_at, Some(at("2026-03-15T00:00:00Z")));

    life.until("2026-03-15T00:00:00Z");

    assert_eq!((life.status(), life.asked_days()), (Active, vec!["2026-03-15".to_owned()]));
}

#[test]
fn a_short_trial_reminds_at_its_start() {
    let life = created(Some("USD"), |new| new.trial_ends_at = at("2026-03-02T00:00:00Z").into());

    assert_eq!(life.unwrap().steps(), ["2026-03-01 reminded"]);
}

#[test]
fn all_that_the_clock_needs_is_named_at_once_with_the_way_out() {
    let past = at("2026-02-01T00:00:00Z");
    let expect = |result: Result<Life, Error>, expected: &[&str]| {
        let message = result.as_ref().unwrap_err().to_string();
        assert_eq!(message.matches("managed_by: caller").count(), expected.len(), "{message}");
        assert_eq!(faults(result), expected);
    };

    expect(created(None, |_| {}), &["currency required"]);
    expect(created(None, |new| new.currency = Some(of("EUR"))), &["price required"]);
    expect(created(Some("USD"), |new| new.currency = Some(of("EUR"))), &["price required"]);
    expect(
        created(None, |new| (new.starts_at, new.renews_at) = (Some(past), at(NOW).into())),
        &["currency required", "renews_at out_of_range"],
    );
    expect(
        created(Some("JPY"), |new| {
            new.price = Some(of("9.5"));
            new.credit = Some(of("0.25"));
        }),
        &["price out_of_range", "credit out_of_range"],
    );
    expect(created(Some("USD"), |new| new.renews_at = Field::Null), &["renews_at required"]);
    expect(
        created(Some("USD"), |new| {
            new.trial_ends_at = at("2026-03-15T00:00:00Z").into();
            new.renews_at = at("2026-04-01T00:00:00Z").into();
        }),
        &["renews_at out_of_range"],
    );
    expect(
        created(Some("USD"), |new| {
            new.starts_at = Some(past);
            new.trial_ends_at = at("2026-02-15T00:00:00Z").into();
        }),
        &["trial_ends_at out_of_range"],
    );
    let one_time_trial = |new: &mut NewSubscription| {
        new.status = Some(OnTrial);
        new.billing_cycle = Some(of("one_time"));
    };
    expect(created(Some("USD"), one_time_trial), &["trial_ends_at required"]);
    // The field that is wrong is the one that was sent.
    let late = at("2026-02-15T00:00:00Z");
    for (status, trial) in [(OnTrial, Field::Absent), (Active, Field::Value(late))] {
        let made = created(Some("USD"), |new| {
            (new.status, new.starts_at) = (Some(status), Some(past));
            (new.renews_at, new.trial_ends_at) = (late.into(), trial);
        });
        expect(made, &["renews_at out_of_range"]);
    }
}

#[test]
fn a_price_of_the_plan_times_the_quantity_must_fit() {
    let mut dear = plan(of("monthly"), Some("USD"));
    dear.price = of("999999999999999.99");

    let made = Life::of_plan(Policy::default(), &dear, at(NOW), |new| {
        new.quantity = Some(Quantity::new(2).unwrap());
    });

    assert_eq!(faults(made), ["quantity out_of_range"]);
}

#[test]
fn another_currency_with_a_price_is_billed_in_that() {
    let life = created(Some("USD"), |new| {
        (new.currency, new.price) = (Some(of("JPY")), Some(of("900")));
    });

    let payment = &life.unwrap().payments[0];
    assert_eq!((payment.currency, payment.amount.to_string()), (of("JPY"), "900".to_owned()));
}

#[test]
fn a_status_makes_it_an_import_whose_running_period_is_paid() {
    // The status, the value of the period in cents, and whether a payment is behind.
    let cases = [
        (Active, "10.00", false),
        (PastDue, "10.00", true),
        (Unpaid, "10.00", true),
        (Paused, "10.00", false),
        (Cancelled, "10.00", false),
        (OnTrial, "0", false),
    ];
    for (status, value, behind) in cases {
        let life = created(Some("USD"), |new| {
            new.status = Some(status);
            new.starts_at = Some(at("2025-12-10T00:00:00Z"));
            new.renews_at = at("2026-03-10T00:00:00Z").into();
        })
        .unwrap();

        let one = &life.subscription;
        assert_eq!((one.status, life.payments.len()), (status, 0));
        let billing = one.billing.as_ref().unwrap();
        assert_eq!(billing.period_value.to_string(), value, "{status}");
        assert_eq!(one.past_due_since().is_some(), behind, "{status}");
        let start = if status == OnTrial { "2025-12-10T00:00:00Z" } else { "2026-02-10T00:00:00Z" };
        assert_eq!(billing.current_period_start, Some(at(start)), "{status}");
    }
}

#[test]
fn an_imported_trial_ends_with_its_renewal() {
    let mut life = created(Some("USD"), |new| {
        new.status = Some(OnTrial);
        new.renews_at = at("2026-03-10T00:00:00Z").into();
    })
    .unwrap();
    assert_eq!(life.subscription.trial_ends_at(), Some(at("2026-03-10T00:00:00Z")));

    life.until("2026-03-10T00:00:00Z");

    assert_eq!(life.payments[0].asked.as_ref().unwrap().kind.as_str(), "initial");
}

#[test]
fn an_import_that_does_not_renew_needs_no_renewal_ahead() {
    for status in [Unpaid, Paused, Cancelled, Expired] {
        let life = created(Some("USD"), |new| {
            new.status = Some(status);
            new.starts_at = Some(at("2025-12-10T00:00:00Z"));
            new.renews_at = at("2026-02-10T00:00:00Z").into();
            new.ends_at = (status == Expired).then(|| at("2026-02-10T00:00:00Z"));
        });

        assert!(life.is_ok(), "{status}: {life:?}");
    }
}

#[test]
fn an_unpaid_import_restarts_when_its_payment_is_made() {
    let mut life = created(Some("USD"), |new| {
        new.status = Some(Unpaid);
        new.starts_at = Some(at("2025-12-10T00:00:00Z"));
        new.renews_at = at("2026-02-10T00:00:00Z").into();
    })
    .unwrap();
    // The payment that failed elsewhere is posted.
    let mut failed = created(Some("USD"), |_| {}).unwrap().payments.remove(0);
    failed.status = PaymentStatus::Failed;
    life.payments.push(failed);

    life.report(0, PaymentStatus::Succeeded);

    assert_eq!(
        (life.status(), life.asked_days()[1..].to_vec()),
        (Active, vec!["2026-03-01".to_owned()])
    );
}

#[test]
fn a_subscription_of_a_caller_is_left_as_it_is() {
    let life = created(None, |new| new.managed_by = Some(ManagedBy::Caller)).unwrap();

    assert_eq!((life.subscription.billing, life.payments.len()), (None, 0));
    assert!(life.rules.bills());
}

//! A subscription in the state of its provider: what is set, what stays, and what is corrected.

use std::time::Duration;

use subscription_core::subscriptions::ScheduledChange;
use subscription_core::{
    Amount, BillingCycle, BillingState, HttpsUrl, ManagedBy, Metadata, NewSubscription,
    ObservedSubscription, Quantity, Renewal, SeededRandomness, Subscription, SubscriptionId,
    SubscriptionStatus, Timestamp,
};
use test_support::service_world::{at, of};

use super::{RENEWAL, START, made, now, observed, plan, user};

const DAY: Duration = Duration::from_hours(24);

fn with(change: impl FnOnce(&mut ObservedSubscription)) -> ObservedSubscription {
    let mut observed = observed(plan());
    change(&mut observed);
    observed
}

fn status(status: SubscriptionStatus) -> ObservedSubscription {
    with(|it| it.status = status)
}

/// A subscription that its caller manages, since 1 January.
fn of_caller(change: impl FnOnce(&mut NewSubscription)) -> Subscription {
    let mut new = NewSubscription::new(user(), plan());
    new.starts_at = Some(at("2025-01-01T00:00:00Z"));
    change(&mut new);
    let id = SubscriptionId::new(now(), &SeededRandomness::new(1)).unwrap();
    Subscription::create(new, BillingCycle::MONTHLY, id, now()).unwrap()
}

#[test]
fn a_new_one_has_every_field_of_the_observation() {
    let seen = with(|it| {
        it.status = SubscriptionStatus::OnTrial;
        it.trial_ends_at = Some(at(RENEWAL));
        it.resumes_at = Some(at("2025-03-01T00:00:00Z"));
        it.quantity = Quantity::new(3).unwrap();
    });

    let made = made(seen.clone());

    assert_eq!((made.user_id, made.subscription_plan_id), (user(), plan()));
    assert_eq!(made.external_subscription_id, Some(seen.external_subscription_id));
    assert_eq!((made.managed_by, made.quantity), (ManagedBy::Provider, seen.quantity));
    assert_eq!((made.status, made.is_active), (SubscriptionStatus::OnTrial, true));
    assert_eq!((made.starts_at, made.renews_at), (at(START), Some(at(RENEWAL))));
    assert_eq!((made.trial_ends_at(), made.resumes_at()), (seen.trial_ends_at, seen.resumes_at));
    assert_eq!(made.current_period_start(), Some(at(START)));
    assert_eq!((made.price(), made.currency()), (seen.price, seen.currency));
    assert_eq!(made.manage_url(), seen.manage_url.as_ref());
    assert_eq!((made.created_at, made.updated_at, made.version.get()), (now(), now(), 1));
    assert_eq!((made.anchor_at, made.past_due_since()), (None, None));
    assert_eq!(made.check(), Ok(()));
}

#[test]
fn the_record_of_a_caller_is_taken_over_with_its_id_its_user_its_block_and_its_metadata() {
    let before = of_caller(|new| {
        new.external_subscription_id = Some(of("1"));
        new.metadata = Metadata::new([("a", "1")]).unwrap();
        new.is_active = Some(false);
        new.credit = Some(of("5.00"));
        new.currency = Some(of("EUR"));
    });

    let after = before.observe(with(|it| it.external_subscription_id = of("ls_1")), now()).unwrap();

    assert_eq!((after.id, after.user_id, after.created_at), (before.id, user(), now()));
    assert_eq!((after.blocked, after.is_active), (true, false));
    assert_eq!(after.metadata, before.metadata);
    assert_eq!(after.credit(), Some(of("5.00")));
    assert_eq!(after.external_subscription_id, Some(of("ls_1")));
    assert_eq!(after.managed_by, ManagedBy::Provider);
    assert_eq!(after.version, before.version.next());
}

#[test]
fn any_status_follows_any_other() {
    for from in SubscriptionStatus::all() {
        for to in SubscriptionStatus::all() {
            let before = made(status(from));

            let after = before.observe(status(to), now().saturating_add(DAY));

            assert_eq!(after.as_ref().map_or(from, |after| after.status), to);
            assert_eq!(after.is_none(), from == to, "{from} {to}");
        }
    }
}

#[test]
fn what_the_clock_would_do_is_cleared() {
    let mut before = of_caller(|_| {});
    before.managed_by = ManagedBy::Clock;
    let billing = BillingState {
        next_action_at: Some(now()),
        scheduled_change: Some(ScheduledChange::Pause { resumes_at: None }),
        lapses_at: Some(now()),
        dunning_ended_at: Some(now()),
        reminded_for: Some(now()),
        settled_at: Some(now()),
        cancelled: None,
        period_value: of("9.00"),
        ..BillingState::default()
    };
    before.billing = Some(Box::new(billing));

    let after = before.observe(observed(plan()), now()).unwrap();

    let fresh = made(observed(plan()));
    assert_eq!(after.billing, fresh.billing);
}

#[test]
fn a_renewal_is_kept_where_the_observation_does_not_say() {
    let late = with(|it| {
        it.status = SubscriptionStatus::PastDue;
        it.renews_at = Renewal::Kept;
    });

    let after = made(observed(plan())).observe(late.clone(), now()).unwrap();

    assert_eq!(after.renews_at, Some(at(RENEWAL)));
    assert_eq!(made(late).renews_at, None, "a new one has none");
    let none = with(|it| it.renews_at = Renewal::None);
    assert_eq!(after.observe(none, now()).unwrap().renews_at, None);
}

#[test]
fn a_renewal_on_the_grid_keeps_the_grid_and_one_off_it_moves_the_grid() {
    let renews = |at: Timestamp| with(|it| it.renews_at = Renewal::At(at));
    let first = made(observed(plan()));

    let on = first.observe(renews(at("2025-03-10T00:00:00Z")), now()).unwrap();
    let off = on.observe(renews(at("2025-04-15T00:00:00Z")), now()).unwrap();
    let next = off.observe(renews(at("2025-05-15T00:00:00Z")), now()).unwrap();
    let back = next.observe(renews(at("2025-05-14T00:00:00Z")), now()).unwrap();

    assert_eq!(on.anchor_at, None);
    assert_eq!(off.anchor_at, Some(at("2025-04-15T00:00:00Z")));
    assert_eq!(next.anchor_at, off.anchor_at);
    assert_eq!(back.anchor_at, Some(at("2025-05-14T00:00:00Z")));
}

#[test]
fn dates_before_the_start_are_raised_to_it() {
    let early = at("2024-12-01T00:00:00Z");
    let one = made(with(|it| {
        it.renews_at = Renewal::At(early);
        it.ends_at = Some(early);
        it.resumes_at = Some(early);
        it.current_period_start = Some(early);
    }));

    assert_eq!((one.renews_at, one.ends_at), (Some(at(START)), Some(at(START))));
    assert_eq!(one.resumes_at(), Some(at(START)));
    assert_eq!(one.check(), Ok(()));
    let kept = with(|it| {
        it.starts_at = at("2025-02-20T00:00:00Z");
        it.renews_at = Renewal::Kept;
    });
    let later = made(observed(plan())).observe(kept, now()).unwrap();
    assert_eq!(later.renews_at, Some(later.starts_at), "the one that was kept");
}

#[test]
fn a_trial_that_ends_at_the_start_is_none() {
    for end in [START, "2024-01-01T00:00:00Z"] {
        let one = made(with(|it| {
            it.status = SubscriptionStatus::OnTrial;
            it.trial_ends_at = Some(at(end));
        }));

        assert_eq!((one.trial_ends_at(), one.check()), (None, Ok(())));
    }
}

#[test]
fn one_that_is_paid_once_does_not_renew() {
    let once = with(|it| it.billing_cycle = BillingCycle::ONE_TIME);

    assert_eq!(made(once.clone()).renews_at, None);
    let kept = ObservedSubscription { renews_at: Renewal::Kept, ..once };
    assert_eq!(made(observed(plan())).observe(kept, now()).unwrap().renews_at, None);
}

#[test]
fn one_that_is_over_has_an_end_that_stays() {
    let later = now().saturating_add(DAY);
    for status in [SubscriptionStatus::Cancelled, SubscriptionStatus::Expired] {
        let ended = with(|it| (it.status, it.renews_at) = (status, Renewal::None));

        let first = made(observed(plan())).observe(ended.clone(), now()).unwrap();

        assert_eq!((first.ends_at, first.is_active), (Some(now()), false), "{status}");
        assert_eq!(first.observe(ended, later), None, "{status}");
    }
    let in_a_year = Some(at("2026-01-01T00:00:00Z"));
    let ended = |status| with(|it| (it.status, it.ends_at) = (status, in_a_year));
    let cancelled = made(ended(SubscriptionStatus::Cancelled));
    assert_eq!((cancelled.ends_at, cancelled.is_active), (in_a_year, true));
    let expired = made(ended(SubscriptionStatus::Expired));
    assert_eq!((expired.ends_at, expired.is_active), (Some(now()), false), "not in the future");
    assert_eq!(expired.observe(ended(SubscriptionStatus::Expired), later), None);
}

#[test]
fn it_is_past_due_since_the_first_observation_that_says_so() {
    let later = now().saturating_add(DAY);
    let late = made(status(SubscriptionStatus::PastDue));

    let unpaid = late.observe(status(SubscriptionStatus::Unpaid), later).unwrap();
    let paid = unpaid.observe(status(SubscriptionStatus::Active), later).unwrap();
    let again = paid.observe(status(SubscriptionStatus::PastDue), later).unwrap();

    let since = [late, unpaid, paid, again].map(|it| it.past_due_since());
    assert_eq!(since, [Some(now()), Some(now()), None, Some(later)]);
}

#[test]
fn the_current_period_is_shown_only_if_it_ends_with_the_renewal() {
    // The provider has moved on, and the renewal that is not paid is kept.
    let late = with(|it| {
        it.status = SubscriptionStatus::PastDue;
        it.renews_at = Renewal::Kept;
        it.current_period_start = Some(at(RENEWAL));
    });
    let cancelled = with(|it| {
        it.status = SubscriptionStatus::Cancelled;
        it.renews_at = Renewal::None;
        it.ends_at = Some(at(RENEWAL));
    });

    let after = made(observed(plan())).observe(late, now()).unwrap();

    assert_eq!(after.current_period_start(), Some(at(START)));
    assert_eq!(made(cancelled).current_period_start(), None);
}

#[test]
fn a_price_that_its_currency_or_quantity_does_not_allow_is_left_out() {
    for (price, currency, quantity) in
        [("19.905", "EUR", 1), ("19.90", "JPY", 1), ("999999999999999", "USD", 1_000_000)]
    {
        let one = made(with(|it| {
            (it.price, it.currency) = (Some(of(price)), Some(of(currency)));
            it.quantity = Quantity::new(quantity).unwrap();
        }));

        assert_eq!((one.price(), one.check()), (None, Ok(())), "{price} {currency}");
        assert_eq!(one.currency(), Some(of(currency)));
    }
}

#[test]
fn credit_stays_in_its_currency_or_is_gone() {
    let owed = |currency: Option<&str>| {
        let before = of_caller(|new| {
            (new.credit, new.currency) = (Some(of("0.50")), Some(of("EUR")));
        });
        let seen = with(|it| it.currency = currency.map(of));
        let after = before.observe(seen, now()).unwrap();
        (after.credit().unwrap(), after.currency(), after.price())
    };

    let (price, eur) = (Some(of("19.90")), Some(of("EUR")));
    assert_eq!(owed(Some("EUR")), (of("0.50"), eur, price));
    assert_eq!(owed(None), (of("0.50"), eur, None), "the price has no currency");
    assert_eq!(owed(Some("USD")), (Amount::ZERO, Some(of("USD")), price));
}

#[test]
fn an_observation_that_is_older_than_the_record_does_not_turn_its_clock_back() {
    let before = made(observed(plan()));
    let earlier = at("2025-01-20T00:00:00Z");

    let after = before.observe(status(SubscriptionStatus::PastDue), earlier).unwrap();

    assert_eq!((after.updated_at, after.past_due_since()), (now(), Some(now())));
}

#[test]
fn access_that_begins_by_the_clock_alone_is_no_difference() {
    let early = with(|it| it.starts_at = at("2025-02-01T00:00:00Z"));
    let before = made(early.clone());

    let later = before.observe(early, at("2025-02-02T00:00:00Z"));

    assert!(!before.is_active);
    assert_eq!(later, None);
}

#[test]
fn one_whose_account_is_deleted_leaves_its_provider() {
    let expired = made(observed(plan())).expire(now()).unwrap();

    assert_eq!((expired.managed_by, expired.manage_url()), (ManagedBy::Caller, None));
    assert_eq!(expired.check(), Ok(()));
}

#[test]
fn a_page_to_manage_it_is_https_and_only_a_providers() {
    for text in ["http://shop.example.com", "https:shop", "javascript:alert(1)", "", "https://"] {
        assert!(text.parse::<HttpsUrl>().is_err(), "{text}");
    }
    assert_eq!(
        of::<HttpsUrl>(" HTTPS://shop.example.com/a?b ").as_str(),
        "HTTPS://shop.example.com/a?b"
    );

    let mut one = made(observed(plan()));
    one.managed_by = ManagedBy::Caller;

    let faults = one.check().unwrap_err();
    let faults: Vec<_> = faults.iter().map(|fault| fault.field.as_ref()).collect();
    assert_eq!(faults, ["manage_url"]);
}

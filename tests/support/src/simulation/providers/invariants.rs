//! The invariants of our records of provider accounts. Each is a function that checks a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use subscription_core::providers::{ObjectKind, PauseMeans, ProviderEvent, SyncCounts};
use subscription_core::store::{ChangeSet, Record};
use subscription_core::{Payment, PlanId, Subscription, SubscriptionId};

use crate::fake_provider::oracle::{self, ExpectedPayment, ExpectedSubscription};
use crate::fake_provider::{Account, Invoice, ONE_TIME};

/// The name of an invariant that is checked after each commit.
pub const COMMITS_SHOW_STATES_OF_THEIR_TIME: &str = "commits_show_states_of_their_time";

type Invariant = fn(&Account, &Records, &End) -> Result<(), String>;

/// Every invariant that is checked at the end of a run.
pub const AT_THE_END: [(&str, Invariant); 5] = [
    ("the_end_state_is_the_providers", the_end_state_is_the_providers),
    ("one_record_for_each_object", one_record_for_each_object),
    ("nothing_is_dropped", nothing_is_dropped),
    ("no_drift_after_a_sync", no_drift_after_a_sync),
    ("nobody_has_what_names_another", nobody_has_what_names_another),
];

/// The end of a run: nothing is due any more, and a sync has replaced lost events.
#[derive(Debug, Default)]
pub struct End {
    pub subscriptions: Vec<Arc<Subscription>>,
    pub payments: Vec<Arc<Payment>>,
    /// The keys of the webhooks that were received.
    pub taken_in: Vec<String>,
    pub events: Vec<ProviderEvent>,
    /// The result of one more sync after the last one. It must find nothing to do.
    pub sync: SyncCounts,
}

/// Our records after the commits so far. For each object, `places` has the index of the provider's state at the last
/// commit.
#[derive(Debug, Default)]
pub struct Records {
    pub plans: BTreeMap<&'static str, PlanId>,
    pub pause: PauseMeans,
    subscriptions: BTreeMap<SubscriptionId, Arc<Subscription>>,
    payments: BTreeMap<String, Arc<Payment>>,
    places: BTreeMap<String, usize>,
}

impl Records {
    /// Uses the records of the end, for a run whose commits were not observed.
    pub fn take(&mut self, end: &End) {
        let all = end.subscriptions.iter();
        self.subscriptions = all.map(|record| (record.id, Arc::clone(record))).collect();
    }

    /// Adds a commit. A link in the commit means that its object was observed. Then the record must show a state that
    /// the provider has had since the object's previous commit.
    pub fn add(&mut self, account: &Account, changes: &ChangeSet) -> Result<(), String> {
        let mut links = Vec::new();
        for write in &changes.writes {
            match write {
                Record::Subscription(record) => {
                    self.subscriptions.insert(record.id, Arc::clone(record));
                }
                Record::Payment(record) => {
                    let external = record.external_payment_id.as_ref().map(ToString::to_string);
                    self.payments.insert(external.unwrap_or_default(), Arc::clone(record));
                }
                Record::Document(document)
                    if document.key.collection.as_str() == "provider_link" =>
                {
                    links.push(serde_json::from_str::<Value>(&document.body).unwrap());
                }
                _ => {}
            }
        }
        links.iter().try_for_each(|link| self.check(account, link))
    }

    fn check(&mut self, account: &Account, link: &Value) -> Result<(), String> {
        let text = |field: &str| link[field].as_str().unwrap_or_default().to_owned();
        let (kind, id) = (text("kind"), text("id"));
        let since = self.places.get(&id).copied().unwrap_or_default();
        let record = text("subscription_id").parse().ok();
        let record = record.and_then(|id: SubscriptionId| self.subscriptions.get(&id));
        let (shows, now) = match kind.as_str() {
            "subscription" => {
                let history = &account.subscriptions[&id];
                let record = record.ok_or_else(|| format!("{id} has a link and no record"))?;
                let states = history.since(since);
                let states =
                    states.map(|state| oracle::subscription(account.kind, self.pause, state));
                (self.shows_one_of(record, states), history.last_place())
            }
            "order" if account.orders[&id].last().price == ONE_TIME => {
                let history = &account.orders[&id];
                let record = record.ok_or_else(|| format!("{id} has a link and no record"))?;
                let states = history.since(since).map(oracle::order);
                (self.shows_one_of(record, states), history.last_place())
            }
            "invoice" => {
                let history = &account.invoices[&id];
                let states: Vec<_> = history.since(since).cloned().collect();
                (self.invoice_shows_one_of(account, &states), history.last_place())
            }
            _ => return Ok(()),
        };
        self.places.insert(id.clone(), now);
        shows.map_err(|found| {
            format!(
                "a commit of {kind} {id} shows none of the states from {since} to {now}: {found}"
            )
        })
    }

    fn shows_one_of(
        &self,
        record: &Subscription,
        states: impl Iterator<Item = ExpectedSubscription>,
    ) -> Result<(), String> {
        let mut found = Vec::new();
        for expected in states {
            match self.same_subscription(&expected, record) {
                Ok(()) => return Ok(()),
                Err(differs) => found.push(differs),
            }
        }
        Err(found.join("; "))
    }

    /// Checks that our payments fit one of the states of an invoice. Payments are fetched after the invoice, and
    /// disputes after the payments, so they may be those of later states.
    fn invoice_shows_one_of(&self, account: &Account, states: &[Invoice]) -> Result<(), String> {
        let mut found = Vec::new();
        for (first, invoice) in states.iter().enumerate() {
            for (second, paid) in states.iter().enumerate().skip(first) {
                for disputed in states.iter().skip(second) {
                    let mut mixed = Invoice { payments: paid.payments.clone(), ..invoice.clone() };
                    for (payment, later) in mixed.payments.iter_mut().zip(&disputed.payments) {
                        payment.dispute = payment.dispute.as_ref().and(later.dispute.clone());
                    }
                    match self.shows_invoice(account, &mixed) {
                        Ok(()) => return Ok(()),
                        Err(differs) => found.push(differs),
                    }
                }
            }
        }
        Err(found.join("; "))
    }

    fn shows_invoice(&self, account: &Account, invoice: &Invoice) -> Result<(), String> {
        oracle::invoice(account.kind, invoice).iter().try_for_each(|payment| {
            let ours = self.payments.get(&payment.external_id);
            let ours = ours.ok_or_else(|| format!("no payment {}", payment.external_id))?;
            self.same_payment(account, payment, ours)
        })
    }

    fn same_subscription(
        &self,
        expected: &ExpectedSubscription,
        ours: &Subscription,
    ) -> Result<(), String> {
        let text = |moment: Option<subscription_core::Timestamp>| moment.map(|at| at.to_string());
        let external = ours.external_subscription_id.as_ref().map(ToString::to_string);
        let plan = self.plans.get(expected.plan) == Some(&ours.subscription_plan_id);
        let ends_at = text(ours.ends_at);
        let renews_at = text(ours.renews_at);
        let trial_ends_at = text(ours.trial_ends_at());
        let resumes_at = text(ours.resumes_at());
        let quantity = i64::from(ours.quantity.get());
        let differing = [
            ("external id", external.as_ref() != Some(&expected.external_id)),
            ("plan", !plan),
            ("status", ours.status.as_str() != expected.status),
            ("starts_at", ours.starts_at.to_string() != expected.starts_at),
            ("ends_at", expected.ends_at.as_ref().is_some_and(|it| *it != ends_at)),
            ("renews_at", expected.renews_at.as_ref().is_some_and(|it| *it != renews_at)),
            ("trial_ends_at", trial_ends_at != expected.trial_ends_at),
            ("resumes_at", resumes_at != expected.resumes_at),
            ("quantity", quantity != expected.quantity),
        ];
        differs(&differing, || {
            format!(
                "{expected:?}, but {:?} {} from {} to {ends_at:?}, renews {renews_at:?}, trial {trial_ends_at:?}, resumes {resumes_at:?}, × {quantity:?}",
                external, ours.status, ours.starts_at
            )
        })
    }

    fn same_payment(
        &self,
        account: &Account,
        expected: &ExpectedPayment,
        ours: &Payment,
    ) -> Result<(), String> {
        let asked = ours.asked.as_deref();
        let start = asked.map(|asked| asked.period_start.to_string());
        let of = self.subscriptions.get(&ours.subscription_id);
        let of = of.and_then(|of| of.external_subscription_id.as_ref()).map(ToString::to_string);
        // The period of a payment is computed from the current plan of its subscription.
        let invoice = account.invoices.values().find(|history| {
            let payments = oracle::invoice(account.kind, history.last());
            payments.iter().any(|payment| payment.external_id == expected.external_id)
        });
        let by_plan = invoice.is_some_and(|of| account.has_one_price(&of.last().subscription));
        let end = asked.and_then(|asked| asked.period_end).map(|end| end.to_string());
        let kind = asked.map(|asked| asked.kind.as_str());
        let amount = expected.amount.parse::<rust_decimal::Decimal>().ok();
        let differing = [
            ("subscription", of.as_ref() != Some(&expected.subscription)),
            ("amount", amount != Some(ours.amount.value())),
            ("currency", ours.currency.code() != expected.currency),
            ("status", ours.status.as_str() != expected.status),
            ("kind", by_plan && kind != expected.kind),
            ("period_start", by_plan && start != expected.period_start),
            ("period_end", by_plan && end != expected.period_end),
        ];
        differs(&differing, || {
            format!(
                "{expected:?}, but {} {} of {of:?}, {kind:?} from {start:?} to {end:?}",
                ours.status, ours.amount
            )
        })
    }
}

fn differs(fields: &[(&str, bool)], story: impl FnOnce() -> String) -> Result<(), String> {
    let differing: Vec<_> =
        fields.iter().filter(|(_, differs)| *differs).map(|(name, _)| *name).collect();
    if differing.is_empty() {
        Ok(())
    } else {
        Err(format!("{}: {}", differing.join(", "), story()))
    }
}

fn external(of: &Subscription) -> String {
    of.external_subscription_id.as_ref().map(ToString::to_string).unwrap_or_default()
}

fn external_payment(of: &Payment) -> String {
    of.external_payment_id.as_ref().map(ToString::to_string).unwrap_or_default()
}

/// Every object of the provider has a record that shows its state.
fn the_end_state_is_the_providers(
    account: &Account,
    records: &Records,
    end: &End,
) -> Result<(), String> {
    for expected in oracle::subscriptions(account, records.pause) {
        let ours = end.subscriptions.iter().find(|ours| external(ours) == expected.external_id);
        let ours = ours.ok_or_else(|| format!("no record of {}", expected.external_id))?;
        records.same_subscription(&expected, ours)?;
    }
    for expected in oracle::payments(account) {
        let ours = end.payments.iter().find(|it| external_payment(it) == expected.external_id);
        let ours = ours.ok_or_else(|| format!("no record of {}", expected.external_id))?;
        records.same_payment(account, &expected, ours)?;
    }
    Ok(())
}

/// Each record belongs to one object of the provider, and no other record belongs to that object.
fn one_record_for_each_object(
    account: &Account,
    records: &Records,
    end: &End,
) -> Result<(), String> {
    let expected = oracle::subscriptions(account, records.pause);
    let expected = expected.into_iter().map(|expected| expected.external_id);
    same_names(expected, end.subscriptions.iter().map(|ours| external(ours)))?;
    let expected = oracle::payments(account).into_iter().map(|payment| payment.external_id);
    same_names(expected, end.payments.iter().map(|ours| external_payment(ours)))
}

fn same_names(
    expected: impl Iterator<Item = String>,
    ours: impl Iterator<Item = String>,
) -> Result<(), String> {
    let (mut expected, mut ours): (Vec<_>, Vec<_>) = (expected.collect(), ours.collect());
    expected.sort();
    ours.sort();
    if ours == expected { Ok(()) } else { Err(format!("{ours:?}, not {expected:?}")) }
}

/// Every webhook that was received is stored, and its processing is finished.
fn nothing_is_dropped(_: &Account, _: &Records, end: &End) -> Result<(), String> {
    for key in &end.taken_in {
        let event = end.events.iter().find(|event| *event.key == **key);
        let event = event.ok_or_else(|| format!("the event {key} is gone"))?;
        if !event.status().is_finished() {
            return Err(format!("the event {key} is left: {event:?}"));
        }
    }
    Ok(())
}

/// A sync after the last one finds nothing to do.
fn no_drift_after_a_sync(_: &Account, _: &Records, end: &End) -> Result<(), String> {
    let SyncCounts { made, changed, waiting, failed, drift, .. } = end.sync;
    if [made, changed, waiting, failed, drift] == [0; 5] {
        Ok(())
    } else {
        Err(format!("{:?}", end.sync))
    }
}

/// A record belongs to the user whom its object names, unless every event that named the user was lost. An operator has
/// decided only the objects that were listed as a conflict.
fn nobody_has_what_names_another(account: &Account, _: &Records, end: &End) -> Result<(), String> {
    for event in &end.events {
        let (Some(object), Some(_)) = (&event.resolved, event.user_id) else { continue };
        let external_id = match object.kind {
            ObjectKind::Subscription => oracle::external_id(account.kind, object.id.as_str()),
            ObjectKind::Order => format!("ls_ord_{}", object.id),
            _ => continue,
        };
        let user = account.user_of(object.kind, object.id.as_str()).unwrap_or_default();
        let ours = end.subscriptions.iter().find(|ours| external(ours) == external_id);
        if let Some(ours) = ours.filter(|ours| ours.user_id.to_string() != user) {
            return Err(format!("{external_id} is of {}, but names {user}", ours.user_id));
        }
    }
    Ok(())
}

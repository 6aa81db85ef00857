//! `observe`: reads the link of an object, fetches the object, decides, and commits.
//!
//! Every commit writes the link at the version after the one that was read before the fetch. So of two
//! observations, the one that is committed later has also fetched later: old state never overwrites new state.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::decide;
use super::documents::{Link, ProviderEvent};
use super::facade::{Account, Providers};
use super::fetch::Stop;
use super::finding::{Finding, FoundInvoice, FoundObject, FoundOrder, FoundSubscription};
use super::object::{ObjectId, ObjectKind, ObjectRef};
use super::pace::{Held, Turn};
use super::plans::{AllPlans, Plans};
use super::runner::Round;
use super::standing::{Reason, Standing};
use super::users::Named;
use crate::error::Error;
use crate::payments::{ObservedPayment, ObservedPeriod, Payment, SettledDiffers};
use crate::plans::{BillingCycle, Plan};
use crate::service::Followed;
use crate::store::{
    ChangeSet, Document, Guard, Key, Record, StoreError, StoreExt as _, Stored, UniqueValue,
};
use crate::subscriptions::{ManagedBy, ObservedSubscription, Subscription, SubscriptionStatus};
use crate::values::clock::Timestamp;
use crate::values::id::{PaymentId, SubscriptionId};
use crate::values::text::ExternalId;
use crate::values::version::Version;

/// The largest number of tries that may lose to other writers.
const TRIES_MAX: u32 = 5;

/// How long after an invoice was paid its payment may be missing in the list of payments.
const LISTED_AFTER: Duration = Duration::from_mins(5);

/// An event that an observation answers, with the version of its document.
pub(super) type Ticket = Stored<ProviderEvent>;

/// An object to observe.
#[derive(Debug)]
pub(super) struct Observation<'a> {
    pub(super) account: &'a Account,
    /// A subscription, an invoice or an order.
    pub(super) object: ObjectRef,
    /// The events that it answers. One that is not stored yet is stored only if it is not finished.
    pub(super) tickets: Vec<Ticket>,
    pub(super) named: Named,
    /// The object as a page of a sync shows it: enough if there is no link, or if nothing differs.
    pub(super) shown: Option<Value>,
    /// True if a link is not written where nothing else changes. Only a sync may do so.
    pub(super) skips_same: bool,
    /// True if nothing is to be written.
    pub(super) dry_run: bool,
    /// The turn of its next read.
    pub(super) turn: Turn,
    /// The plans as a round of events has read them; `None` if they are to be read.
    pub(super) plans: Option<AllPlans>,
    /// The round of events that it belongs to.
    pub(super) round: Option<&'a Round>,
}

impl<'a> Observation<'a> {
    /// The observation of an object for events. The users whom the events name are the object's.
    pub(super) fn of(account: &'a Account, object: ObjectRef, tickets: Vec<Ticket>) -> Self {
        let mut named = Named::default();
        for ticket in &tickets {
            named.add(&ticket.body);
        }
        let shown = None;
        let skips_same = false;
        let dry_run = false;
        let turn = Turn::First;
        let plans = None;
        let round = None;
        Self { account, object, tickets, named, shown, skips_same, dry_run, turn, plans, round }
    }

    /// True if one of its events is stored.
    fn has_stored(&self) -> bool {
        self.tickets.iter().any(|ticket| ticket.version != Version::NEW)
    }
}

/// The result of an observation.
#[derive(Debug)]
pub(super) enum Observed {
    /// The events were answered.
    Done(Verdict),
    /// The object cannot be read now.
    Held(Held),
    /// Other writers were faster at each try.
    Lost,
}

/// The answer to the events of an object.
#[derive(Debug, Clone)]
pub(super) struct Verdict {
    pub(super) standing: Standing,
    pub(super) path: Option<Box<str>>,
    pub(super) customer: Option<ObjectId>,
    pub(super) subscription_id: Option<SubscriptionId>,
    /// True if the object had no link before.
    pub(super) is_new: bool,
}

/// The records to write for an object.
#[derive(Debug)]
struct Decision {
    verdict: Verdict,
    subscription: Followed<Subscription>,
    payments: Vec<Followed<Payment>>,
    /// The plan by which the records were decided.
    plan: Option<Arc<Plan>>,
    /// The links to write.
    links: Vec<Document>,
    /// The binding of the customer, if it is new.
    binding: Option<Document>,
}

/// One try: the moment, and the link that was read before the fetch.
struct Try<'a> {
    account: &'a Account,
    object: &'a ObjectRef,
    named: &'a Named,
    link: Option<Stored<Link>>,
    now: Timestamp,
    turn: Turn,
    plans: Option<AllPlans>,
}

impl Providers {
    /// Observes an object; for an invoice whose subscription has no link, the subscription first.
    pub(super) async fn observe(&self, mut of: Observation<'_>) -> Result<Observed, Error> {
        for _ in 0..TRIES_MAX {
            let needed = match self.observe_one(&mut of).await? {
                Ok(observed) => return Ok(observed),
                Err(needed) => needed,
            };
            let mut first = Observation::of(of.account, needed, Vec::new());
            first.named = of.named.clone();
            first.dry_run = of.dry_run;
            first.turn = of.turn;
            first.plans = of.plans.clone();
            first.round = of.round;
            let verdict = match self.observe_one(&mut first).await? {
                Ok(Observed::Done(verdict)) => verdict,
                Ok(observed) => return Ok(observed),
                Err(_) => return Ok(Observed::Lost),
            };
            let follows = matches!(verdict.standing, Standing::APPLIED | Standing::SAME);
            if !follows || of.dry_run {
                return self.answer(&mut of, verdict).await;
            }
        }
        Ok(Observed::Lost)
    }

    /// Observes one object, or returns the subscription that must be observed first.
    async fn observe_one(
        &self,
        of: &mut Observation<'_>,
    ) -> Result<Result<Observed, ObjectRef>, Error> {
        let account = of.account;
        for _ in 0..=TRIES_MAX {
            let now = self.now();
            let link = Link::key(&account.source.name, &of.object)?;
            let link: Option<Stored<Link>> = Stored::load(self.store(), &link).await?;
            let is_linked = link.is_some();
            // A record may be made: its user is named by all events of the object, not by these alone.
            let makes_record = link.as_ref().is_none_or(|link| link.body.attach);
            if makes_record && of.object.kind != ObjectKind::Invoice {
                for event in self.events_of(&account.source.name, &of.object).await? {
                    of.named.add(&event.body);
                }
            }
            let shown = of.shown.take();
            let is_shown = shown.is_some();
            let turn = of.turn;
            if !is_shown {
                of.turn = Turn::Later;
            }
            let object = &of.object;
            let named = &of.named;
            let plans = of.plans.clone();
            let mut tries = Try { account, object, named, link, now, turn, plans };
            let decided = match self.decide(&mut tries, shown).await {
                Ok(decision) => Ok(decision),
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Held(held)) => return Ok(Ok(Observed::Held(held))),
                Err(Stop::Needs(subscription)) => return Ok(Err(subscription)),
                Err(Stop::Stands { standing, path, customer }) => Err(Verdict {
                    standing,
                    path,
                    customer,
                    subscription_id: tries.link.and_then(|link| link.body.subscription_id),
                    is_new: !is_linked,
                }),
            };
            let standing = decided.as_ref().map_or_else(|it| it.standing, |it| it.verdict.standing);
            // A page may show a state from before the link was read: the object is fetched again for a difference,
            // and for a stored event, which is answered with the link.
            let writes = standing != Standing::SAME || of.has_stored();
            if is_shown && is_linked && writes {
                continue;
            }
            let done = match decided {
                Err(verdict) => self.commit(of, verdict, None).await?,
                Ok(decision) => self.commit(of, decision.verdict.clone(), Some(decision)).await?,
            };
            if let Some(verdict) = done {
                return Ok(Ok(Observed::Done(verdict)));
            }
            self.reload(of).await?;
        }
        Ok(Ok(Observed::Lost))
    }

    /// Gives the events of an object the answer for another object.
    pub(super) async fn answer(
        &self,
        of: &mut Observation<'_>,
        verdict: Verdict,
    ) -> Result<Observed, Error> {
        let done = self.commit(of, Verdict { is_new: true, ..verdict }, None).await?;
        Ok(done.map_or(Observed::Lost, Observed::Done))
    }

    /// Commits the records, the links and the states of the events; `None` if another writer was faster.
    async fn commit(
        &self,
        of: &mut Observation<'_>,
        mut verdict: Verdict,
        decision: Option<Decision>,
    ) -> Result<Option<Verdict>, Error> {
        let account = of.account;
        let now = self.now();
        let is_same = verdict.standing == Standing::SAME;
        if of.dry_run || (of.skips_same && is_same && !of.has_stored()) {
            return Ok(Some(verdict));
        }
        let mut wakes = None;
        let mut is_second_live = false;
        let mut changes = ChangeSet::default();
        if let Some(decision) = decision {
            // Other events of the customer may wait for the binding, or for the word of the caller.
            let is_decided = decision.binding.is_some() || of.named.decided.is_some();
            wakes = verdict.customer.clone().filter(|_| is_decided);
            let links = decision.links.into_iter().chain(decision.binding);
            changes.writes.extend(links.map(Record::from));
            let service = account.acting(&self.service);
            let subscription = decision.subscription;
            let payments = decision.payments;
            // The plans may have been read before the fetch.
            changes.guards.extend(decision.plan.as_deref().map(unchanged));
            match service.observed_changes(subscription, payments, changes, now).await {
                Ok(observed) => {
                    changes = observed.changes;
                    is_second_live = observed.is_second_live;
                }
                // The plan or the account is gone since it was read.
                Err(Error::Conflict(_)) => return Ok(None),
                Err(Error::Invalid(faults)) => {
                    let field = faults.iter().next().map_or("", |fault| &*fault.field);
                    if matches!(field, "user_id" | "subscription_plan_id") {
                        return Ok(None);
                    }
                    let path = Some(format!("/{field}").into());
                    let standing = Standing::failed(Reason::Unreadable);
                    verdict = Verdict { standing, path, ..verdict };
                    changes = ChangeSet::default();
                    wakes = None;
                }
                Err(error) => return Err(error),
            }
        }
        for ticket in &of.tickets {
            changes.writes.extend(answered(ticket, &of.object, &verdict, now)?.map(Record::from));
        }
        if !changes.is_empty() {
            match self.store().commit(changes).await {
                Ok(()) => {}
                Err(StoreError::Conflict(_) | StoreError::Taken(_)) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        account.count(|tally| {
            let count = u64::try_from(of.tickets.len()).unwrap_or(u64::MAX);
            *tally.events.entry(verdict.standing).or_default() += count;
            tally.second_live += u64::from(is_second_live);
        });
        // An event that waits for its customer may have been decided on before another commit bound the customer,
        // and stored after that commit looked for events that wait.
        let unknown = verdict.standing == Standing::waiting(Reason::UnknownCustomer)
            && of.named.decided.is_none();
        if let Some(customer) = verdict.customer.as_ref().filter(|_| unknown)
            && self.customer_link(account, customer).await?.is_some()
        {
            wakes = Some(customer.clone());
        }
        if let Some(customer) = wakes {
            match of.round {
                Some(round) => round.bound(customer),
                None => self.wake(&account.source.name, &[customer].into(), None).await?,
            }
        }
        Ok(Some(verdict))
    }

    /// Reads the events of an observation again, and lets the next try read the plans. Events that another worker
    /// has answered are left out.
    async fn reload(&self, of: &mut Observation<'_>) -> Result<(), Error> {
        of.plans = None;
        for mut ticket in std::mem::take(&mut of.tickets) {
            let is_new = ticket.version == Version::NEW;
            let stored: Option<Ticket> =
                Stored::load(self.store(), &ticket.body.document_key()?).await?;
            match stored {
                Some(stored) if is_new => ticket.version = stored.version,
                Some(stored) if stored.body.standing().is_finished() => continue,
                Some(stored) => ticket = stored,
                None if is_new => {}
                None => continue,
            }
            of.tickets.push(ticket);
        }
        Ok(())
    }

    async fn decide(&self, tries: &mut Try<'_>, shown: Option<Value>) -> Result<Decision, Stop> {
        let value = match shown {
            Some(value) => value,
            None => tries.account.fetch(tries.object, tries.now, tries.turn).await?,
        };
        // The object may have ended while it was fetched: an end is never after the moment of its observation.
        tries.now = self.now();
        match tries.account.map(tries.object, &value)? {
            Finding::Subscription(found) => self.decide_subscription(tries, &found).await,
            Finding::Invoice(found) => self.decide_invoice(tries, &found).await,
            Finding::Order(found) => self.decide_order(tries, &found).await,
        }
    }

    async fn decide_subscription(
        &self,
        tries: &Try<'_>,
        found: &FoundSubscription,
    ) -> Result<Decision, Stop> {
        let by_id = self.with_external_id(Some(&found.external_id)).await?;
        let mut record = self.record(tries, by_id).await?;
        let plans = self.plans(tries).await?;
        let (item, plan) = plans.of_items(&found.items)?;
        if record.is_none()
            && let Some(former) = self.with_external_id(found.former_id.as_ref()).await?
        {
            // A bare number may be another provider's: only a record on a plan of this product is taken over.
            let its_plan = plans.plans.iter().find(|plan| plan.id == former.subscription_plan_id);
            let same_product = its_plan.is_some_and(|other| {
                other.id == plan.id
                    || (plan.product_id.is_some() && other.product_id == plan.product_id)
            });
            if same_product && former.managed_by == ManagedBy::Caller {
                record = Some(former);
            }
        }
        let observed = decide::subscription(found, item, plan, &tries.account.source);
        self.follow(tries, &found.object, record, observed, plan).await
    }

    async fn decide_order(&self, tries: &Try<'_>, order: &FoundOrder) -> Result<Decision, Stop> {
        let mut plans = self.plans(tries).await?;
        let is_mapped = plans.of(&order.sold) != Err(Reason::UnknownPlan);
        // Anybody can order something for nothing under the address of another.
        let is_paid = order.payment.is_some() && order.status == SubscriptionStatus::Active;
        plans.plans.retain(|plan| plan.billing_cycle == BillingCycle::ONE_TIME);
        let plan = match plans.of(&order.sold) {
            Ok(plan) => plan,
            Err(Reason::AmbiguousPlan) => {
                return Err(Standing::waiting(Reason::AmbiguousPlan).into());
            }
            Err(_) => return self.bind_by_order(tries, order, is_paid && is_mapped).await,
        };
        let by_id = self.with_external_id(Some(&order.external_id)).await?;
        let record = self.record(tries, by_id).await?;
        let observed = decide::order(order, plan, &tries.account.source);
        let mut decision = self.follow(tries, &order.object, record, observed, plan).await?;
        decision.binding = decision.binding.filter(|_| is_paid);
        if let (Some(paid), Some(id)) = (&order.payment, decision.verdict.subscription_id) {
            let period = decide::period_of_order(order, paid.amount);
            let observed = decide::payment(paid, Some(period));
            self.follow_payment(&mut decision, observed, id, tries.now).await?;
        }
        Ok(decision)
    }

    /// An order that makes no record binds its customer, if it is the purchase of a plan and names one user.
    async fn bind_by_order(
        &self,
        tries: &Try<'_>,
        order: &FoundOrder,
        is_purchase: bool,
    ) -> Result<Decision, Stop> {
        let standing = Standing::ignored(Reason::NotASubscription);
        let mut decision = tries.decision(standing, order.object.customer.clone());
        if !is_purchase {
            return Ok(decision);
        }
        let mut named = tries.named.clone();
        match self.user_for(tries.account, &order.object, None, &mut named, tries.now).await {
            Ok((_, binding)) => decision.binding = binding,
            Err(Stop::Stands { .. }) => {}
            Err(stop) => return Err(stop),
        }
        Ok(decision)
    }

    async fn decide_invoice(
        &self,
        tries: &Try<'_>,
        invoice: &FoundInvoice,
    ) -> Result<Decision, Stop> {
        // A payment of the invoice itself would stay beside the one that is listed later.
        if invoice.unlisted_since.is_some_and(|at| tries.now.since(at) < LISTED_AFTER) {
            return Err(Standing::waiting(Reason::NotFound).into());
        }
        let name = &tries.account.source.name;
        let paid_for =
            ObjectRef { kind: ObjectKind::Subscription, id: invoice.subscription.clone() };
        let link: Option<Stored<Link>> =
            Stored::load(self.store(), &Link::key(name, &paid_for)?).await?;
        let Some(link) = link.filter(|link| !link.body.attach) else {
            return Err(Stop::Needs(paid_for));
        };
        let record = self.linked(Some(&link)).await?;
        let record = decide::record_of(Some(&link.body), record, None)?;
        let record = record.ok_or(Standing::ignored(Reason::Detached))?;
        let plans = self.plans(tries).await?;
        let mut decision = tries.decision(Standing::SAME, invoice.object.customer.clone());
        decision.verdict.subscription_id = Some(record.id);
        decision.subscription.before = Some(Arc::clone(&record));
        let mut all = plans.plans.iter();
        let plan = all.find(|plan| plan.id == record.subscription_plan_id).cloned();
        for paid in &invoice.payments {
            let period = decide::period(invoice, paid, &record, &plans);
            let observed = decide::payment(paid, period);
            self.follow_payment(&mut decision, observed, record.id, tries.now).await?;
        }
        decision.plan = plan.filter(|_| decision.payments.iter().any(|it| it.after.is_some()));
        // A link is made only with a record.
        if tries.link.is_some() || !invoice.payments.is_empty() {
            decision.links.push(tries.next_link(record.id, &decision.verdict, false)?);
        }
        Ok(decision)
    }

    async fn plans<'t>(&self, tries: &Try<'t>) -> Result<Plans<'t>, Error> {
        let plans = match &tries.plans {
            Some(plans) => plans.to_vec(),
            None => self.all_plans().await?,
        };
        Ok(Plans { plans, by_price: &tries.account.source.plans })
    }

    async fn with_external_id(
        &self,
        id: Option<&ExternalId>,
    ) -> Result<Option<Arc<Subscription>>, Error> {
        let Some(id) = id else { return Ok(None) };
        Ok(self.store().find_as(UniqueValue::ExternalSubscription(id)).await?)
    }

    /// The record that a link names.
    async fn linked(
        &self,
        link: Option<&Stored<Link>>,
    ) -> Result<Option<Arc<Subscription>>, Error> {
        match link.and_then(|link| link.body.subscription_id) {
            Some(id) => Ok(self.store().get_as(&id).await?),
            None => Ok(None),
        }
    }

    async fn record(
        &self,
        tries: &Try<'_>,
        by_id: Option<Arc<Subscription>>,
    ) -> Result<Option<Arc<Subscription>>, Stop> {
        let linked = self.linked(tries.link.as_ref()).await?;
        Ok(decide::record_of(tries.link.as_ref().map(|link| &link.body), linked, by_id)?)
    }

    /// The decision for a subscription: it is followed, or made for the user whose it is.
    async fn follow(
        &self,
        tries: &Try<'_>,
        object: &FoundObject,
        before: Option<Arc<Subscription>>,
        observed: ObservedSubscription,
        plan: &Arc<Plan>,
    ) -> Result<Decision, Stop> {
        let now = tries.now;
        let mut decision = tries.decision(Standing::SAME, object.customer.clone());
        let mut named = tries.named.clone();
        let mut unnamed = tries.link.as_ref().is_some_and(|link| link.body.unnamed);
        let (id, after) = if let Some(before) = &before {
            (before.id, before.observe(observed, now))
        } else {
            let checkout = matches!(tries.object.kind, ObjectKind::Subscription);
            let checkout = checkout.then_some(&object.id);
            let found = self.user_for(tries.account, object, checkout, &mut named, now).await;
            let (user, binding) = found.map_err(|stop| stop.of_customer(object))?;
            decision.binding = binding;
            unnamed = named.users.is_empty();
            let id = SubscriptionId::new(now, self.service.randomness()).map_err(Error::from)?;
            (id, Some(Subscription::observe_new(observed, id, user, now)))
        };
        if after.is_some() {
            decision.verdict.standing = Standing::APPLIED;
            decision.plan = Some(Arc::clone(plan));
        }
        unnamed &= named.decided.is_none();
        let mut users = named.users.iter().chain(&object.user_id);
        // The first event that names a user came after the record was made, and a record is never moved.
        if unnamed
            && let Some(before) = &before
            && users.any(|user| *user != before.user_id)
        {
            decision.verdict.standing = Standing::waiting(Reason::CustomerConflict);
        }
        decision.verdict.subscription_id = Some(id);
        decision.links.push(tries.next_link(id, &decision.verdict, unnamed)?);
        decision.subscription = Followed { before, after };
        Ok(decision)
    }

    /// Adds a payment to a decision. The period of one that was mirrored before stays: it was paid then.
    async fn follow_payment(
        &self,
        decision: &mut Decision,
        mut observed: ObservedPayment,
        paid_for: SubscriptionId,
        now: Timestamp,
    ) -> Result<(), Stop> {
        let id = observed.external_payment_id.clone();
        let before: Option<Arc<Payment>> =
            self.store().find_as(UniqueValue::ExternalPayment(&id)).await?;
        let mirrored = before.as_ref().and_then(|before| before.asked.as_deref());
        if let Some(asked) = mirrored.filter(|asked| asked.mirrored) {
            let start = asked.period_start;
            let end = asked.period_end;
            let kind = asked.kind;
            let cycle = asked.cycle;
            let value = asked.value;
            observed.period = Some(ObservedPeriod { kind, start, end, cycle, value });
        }
        let after = if let Some(before) = &before {
            before.observe(observed, now)
        } else {
            let id = PaymentId::new(now, self.service.randomness()).map_err(Error::from)?;
            Ok(Some(Payment::observe_new(observed, id, paid_for, now)))
        };
        let failed = Standing::failed(Reason::SettledDiffers);
        match after {
            Err(SettledDiffers) => decision.verdict.standing = failed,
            Ok(after) => {
                if after.is_some() && decision.verdict.standing == Standing::SAME {
                    decision.verdict.standing = Standing::APPLIED;
                }
                decision.payments.push(Followed { before, after });
            }
        }
        Ok(())
    }
}

impl Try<'_> {
    fn decision(&self, standing: Standing, customer: Option<ObjectId>) -> Decision {
        let is_new = self.link.is_none();
        let path = None;
        let subscription_id = None;
        Decision {
            verdict: Verdict { standing, path, customer, subscription_id, is_new },
            subscription: Followed { before: None, after: None },
            payments: Vec::new(),
            plan: None,
            links: Vec::new(),
            binding: None,
        }
    }

    /// The link after this observation.
    fn next_link(
        &self,
        id: SubscriptionId,
        verdict: &Verdict,
        unnamed: bool,
    ) -> Result<Document, Error> {
        let link = Link {
            source: self.account.source.name.clone(),
            kind: self.object.kind,
            id: self.object.id.clone(),
            customer: verdict.customer.clone(),
            user_id: None,
            subscription_id: Some(id),
            attach: false,
            unnamed,
        };
        link.document(self.link.as_ref().map_or(Version::NEW, |link| link.version))
    }
}

/// The guard that a plan is not changed before the commit.
fn unchanged(plan: &Plan) -> Guard {
    Guard::Unchanged { key: Key::Plan(plan.id), version: plan.version }
}

/// The document of an event after an answer; `None` if it need not be stored.
fn answered(
    ticket: &Ticket,
    object: &ObjectRef,
    verdict: &Verdict,
    now: Timestamp,
) -> Result<Option<Document>, Error> {
    let mut event = ticket.body.clone();
    let standing = verdict.standing.after_waiting(event.received_at, now);
    if ticket.version == Version::NEW && standing.is_finished() {
        return Ok(None);
    }
    event.state = standing.state;
    event.reason = standing.reason;
    event.attempts = event.attempts.saturating_add(1);
    event.path.clone_from(&verdict.path);
    event.resolved = Some(object.clone()).filter(ObjectRef::is_followed);
    event.customer = verdict.customer.clone().or(event.customer);
    event.subscription_id = verdict.subscription_id.or(event.subscription_id);
    event.document(ticket.version, standing.due_at(event.attempts, now)).map(Some)
}

//! The records of an observed object: its subscription, its payments and its link.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::decide;
use super::observation::{Attempt, Observation};
use super::outcome::{EventOutcome, Interrupted};
use super::plans::Plans;
use crate::error::Error;
use crate::payments::{ObservedPayment, ObservedPeriod, Payment, SettledDiffers};
use crate::plans::{BillingCycle, Plan};
use crate::providers::inbox::documents::Link;
use crate::providers::{
    EventStatus, Finding, FoundInvoice, FoundObject, FoundOrder, FoundSubscription, ObjectId,
    ObjectKind, ObjectRef, Providers, Reason,
};
use crate::service::Followed;
use crate::store::{Document, StoreExt as _, Stored, UniqueValue};
use crate::subscriptions::{ManagedBy, ObservedSubscription, Subscription, SubscriptionStatus};
use crate::values::{ExternalId, PaymentId, SubscriptionId, Timestamp, Version};

/// For this time after an invoice was paid, the provider's list of payments may not have the payment yet.
const LISTED_AFTER: Duration = Duration::from_mins(5);

/// The records to write for an object.
#[derive(Debug)]
pub(crate) struct Decision {
    pub(crate) outcome: EventOutcome,
    pub(crate) subscription: Followed<Subscription>,
    pub(crate) payments: Vec<Followed<Payment>>,
    /// The plan from which values of the records were taken. The commit fails if this plan has changed. `None` if no
    /// record that is written depends on a plan.
    pub(crate) plan: Option<Arc<Plan>>,
    /// The links to write.
    pub(crate) links: Vec<Document>,
    /// The document that binds the customer to a user, if the customer was not bound before.
    pub(crate) binding: Option<Document>,
}

impl Providers {
    /// Decides which records an observation writes. `shown` is the object as a page of a sync has shown it; `None` if
    /// it must be fetched.
    pub(crate) async fn decide(
        &self,
        of: &Observation<'_>,
        attempt: &mut Attempt,
        shown: Option<Value>,
    ) -> Result<Decision, Interrupted> {
        let value = match shown {
            Some(value) => value,
            None => of.account.fetch(&of.object, attempt.now, attempt.read_order).await?,
        };
        // The time is read again after the fetch: a subscription may have ended during the fetch, and its end must not
        // be later than the time of the observation.
        attempt.now = self.now();
        match of.account.map(&of.object, &value)? {
            Finding::Subscription(found) => self.decide_subscription(of, attempt, &found).await,
            Finding::Invoice(found) => self.decide_invoice(of, attempt, &found).await,
            Finding::Order(found) => self.decide_order(of, attempt, &found).await,
        }
    }

    async fn decide_subscription(
        &self,
        of: &Observation<'_>,
        attempt: &Attempt,
        found: &FoundSubscription,
    ) -> Result<Decision, Interrupted> {
        let by_id = self.with_external_id(Some(&found.external_id)).await?;
        let mut record = self.record(attempt, by_id).await?;
        let plans = self.plans(of).await?;
        let (item, plan) = plans.of_items(&found.items)?;
        if record.is_none()
            && let Some(former) = self.with_external_id(found.former_id.as_ref()).await?
        {
            // The former id is a bare number, which may be the id of an object at another provider. So a record with
            // this id is taken over only if its plan is of the same product.
            let its_plan = plans.plans.iter().find(|plan| plan.id == former.subscription_plan_id);
            let same_product = its_plan.is_some_and(|other| {
                other.id == plan.id
                    || (plan.product_id.is_some() && other.product_id == plan.product_id)
            });
            if same_product && former.managed_by == ManagedBy::Caller {
                record = Some(former);
            }
        }
        let observed = decide::subscription(found, item, plan, &of.account.source);
        self.follow(of, attempt, &found.object, record, observed, plan).await
    }

    async fn decide_order(
        &self,
        of: &Observation<'_>,
        attempt: &Attempt,
        order: &FoundOrder,
    ) -> Result<Decision, Interrupted> {
        let mut plans = self.plans(of).await?;
        let is_mapped = plans.of(&order.sold) != Err(Reason::UnknownPlan);
        // Anybody can place an order that costs nothing with the e-mail address of somebody else. So only a paid order
        // binds its customer to a user.
        let is_paid = order.payment.is_some() && order.status == SubscriptionStatus::Active;
        plans.plans.retain(|plan| plan.billing_cycle == BillingCycle::ONE_TIME);
        let plan = match plans.of(&order.sold) {
            Ok(plan) => plan,
            Err(Reason::AmbiguousPlan) => {
                return Err(EventStatus::waiting(Reason::AmbiguousPlan).into());
            }
            Err(_) => return self.bind_by_order(of, attempt, order, is_paid && is_mapped).await,
        };
        let by_id = self.with_external_id(Some(&order.external_id)).await?;
        let record = self.record(attempt, by_id).await?;
        let observed = decide::order(order, plan, &of.account.source);
        let mut decision = self.follow(of, attempt, &order.object, record, observed, plan).await?;
        decision.binding = decision.binding.filter(|_| is_paid);
        if let (Some(paid), Some(id)) = (&order.payment, decision.outcome.subscription_id) {
            let period = decide::period_of_order(order, paid.amount);
            let observed = decide::payment(paid, Some(period));
            self.follow_payment(&mut decision, observed, id, attempt.now).await?;
        }
        Ok(decision)
    }

    /// Decides an order for which no subscription is created. The order only binds its customer to a user, if
    /// `is_purchase` is true (a plan was bought and paid) and the user is known.
    async fn bind_by_order(
        &self,
        of: &Observation<'_>,
        attempt: &Attempt,
        order: &FoundOrder,
        is_purchase: bool,
    ) -> Result<Decision, Interrupted> {
        let status = EventStatus::ignored(Reason::NotASubscription);
        let mut decision = attempt.decision(status, order.object.customer.clone());
        if !is_purchase {
            return Ok(decision);
        }
        let mut claims = of.claims.clone();
        match self.user_for(of.account, &order.object, None, &mut claims, attempt.now).await {
            Ok((_, binding)) => decision.binding = binding,
            Err(Interrupted::Settled(_)) => {}
            Err(interrupted) => return Err(interrupted),
        }
        Ok(decision)
    }

    async fn decide_invoice(
        &self,
        of: &Observation<'_>,
        attempt: &Attempt,
        invoice: &FoundInvoice,
    ) -> Result<Decision, Interrupted> {
        // The invoice was paid, but the provider's list of its payments may not have the payment yet. A payment that is
        // created from the invoice itself now would be there twice once the list has it. So the event waits.
        if invoice.unlisted_since.is_some_and(|at| attempt.now.since(at) < LISTED_AFTER) {
            return Err(EventStatus::waiting(Reason::NotFound).into());
        }
        let name = &of.account.source.name;
        let paid_for =
            ObjectRef { kind: ObjectKind::Subscription, id: invoice.subscription.clone() };
        let link: Option<Stored<Link>> =
            Stored::load(self.store(), &Link::key(name, &paid_for)?).await?;
        let Some(link) = link.filter(|link| !link.body.attach) else {
            return Err(Interrupted::NeedsFirst(paid_for));
        };
        let record = self.linked(Some(&link)).await?;
        let record = decide::record_of(Some(&link.body), record, None)?;
        let record = record.ok_or(EventStatus::ignored(Reason::Detached))?;
        let plans = self.plans(of).await?;
        let mut decision = attempt.decision(EventStatus::SAME, invoice.object.customer.clone());
        decision.outcome.subscription_id = Some(record.id);
        decision.subscription.before = Some(Arc::clone(&record));
        let mut all = plans.plans.iter();
        let plan = all.find(|plan| plan.id == record.subscription_plan_id).cloned();
        for paid in &invoice.payments {
            let period = decide::period(invoice, paid, &record, &plans);
            let observed = decide::payment(paid, period);
            self.follow_payment(&mut decision, observed, record.id, attempt.now).await?;
        }
        decision.plan = plan.filter(|_| decision.payments.iter().any(|it| it.after.is_some()));
        // A new link is written only if there is a payment.
        if attempt.link.is_some() || !invoice.payments.is_empty() {
            decision.links.push(attempt.next_link(of, record.id, &decision.outcome, false)?);
        }
        Ok(decision)
    }

    async fn plans<'o>(&self, of: &Observation<'o>) -> Result<Plans<'o>, Error> {
        let plans = match &of.plans {
            Some(plans) => plans.to_vec(),
            None => self.all_plans().await?,
        };
        Ok(Plans { plans, by_price: &of.account.source.plans })
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
        attempt: &Attempt,
        by_id: Option<Arc<Subscription>>,
    ) -> Result<Option<Arc<Subscription>>, Interrupted> {
        let linked = self.linked(attempt.link.as_ref()).await?;
        Ok(decide::record_of(attempt.link.as_ref().map(|link| &link.body), linked, by_id)?)
    }

    /// The decision for a subscription or an order. An existing record gets the observed state. Otherwise a new record
    /// is created for the owner.
    async fn follow(
        &self,
        of: &Observation<'_>,
        attempt: &Attempt,
        object: &FoundObject,
        before: Option<Arc<Subscription>>,
        observed: ObservedSubscription,
        plan: &Arc<Plan>,
    ) -> Result<Decision, Interrupted> {
        let now = attempt.now;
        let mut decision = attempt.decision(EventStatus::SAME, object.customer.clone());
        let mut claims = of.claims.clone();
        let mut unnamed = attempt.link.as_ref().is_some_and(|link| link.body.unnamed);
        let (id, after) = if let Some(before) = &before {
            (before.id, before.observe(observed, now))
        } else {
            let checkout = matches!(of.object.kind, ObjectKind::Subscription);
            let checkout = checkout.then_some(&object.id);
            let found = self.user_for(of.account, object, checkout, &mut claims, now).await;
            let (user, binding) = found.map_err(|it| it.of_customer(object))?;
            decision.binding = binding;
            unnamed = claims.users.is_empty();
            let id = SubscriptionId::new(now, self.service.randomness()).map_err(Error::from)?;
            (id, Some(Subscription::observe_new(observed, id, user, now)))
        };
        if after.is_some() {
            decision.outcome.status = EventStatus::APPLIED;
            decision.plan = Some(Arc::clone(plan));
        }
        unnamed &= claims.decided.is_none();
        let mut users = claims.users.iter().chain(&object.user_id);
        // When the record was created, nothing named a user. Now an event or the object names a user who is not the
        // owner of the record. An observation never changes the owner, so a caller must resolve the conflict.
        if unnamed
            && let Some(before) = &before
            && users.any(|user| *user != before.user_id)
        {
            decision.outcome.status = EventStatus::waiting(Reason::CustomerConflict);
        }
        decision.outcome.subscription_id = Some(id);
        decision.links.push(attempt.next_link(of, id, &decision.outcome, unnamed)?);
        decision.subscription = Followed { before, after };
        Ok(decision)
    }

    /// Adds a payment to a decision. A payment that was copied from the provider before keeps its period, because it
    /// was paid for that period.
    async fn follow_payment(
        &self,
        decision: &mut Decision,
        mut observed: ObservedPayment,
        paid_for: SubscriptionId,
        now: Timestamp,
    ) -> Result<(), Interrupted> {
        let id = observed.external_payment_id.clone();
        let before: Option<Arc<Payment>> =
            self.store().find_as(UniqueValue::ExternalPayment(&id)).await?;
        let mirrored = before.as_ref().and_then(|before| before.asked.as_deref());
        if let Some(asked) = mirrored.filter(|asked| asked.mirrored) {
            observed.period = Some(ObservedPeriod {
                kind: asked.kind,
                start: asked.period_start,
                end: asked.period_end,
                cycle: asked.cycle,
                value: asked.value,
            });
        }
        let after = if let Some(before) = &before {
            before.observe(observed, now)
        } else {
            let id = PaymentId::new(now, self.service.randomness()).map_err(Error::from)?;
            Ok(Some(Payment::observe_new(observed, id, paid_for, now)))
        };
        let failed = EventStatus::failed(Reason::SettledDiffers);
        match after {
            Err(SettledDiffers) => decision.outcome.status = failed,
            Ok(after) => {
                if after.is_some() && decision.outcome.status == EventStatus::SAME {
                    decision.outcome.status = EventStatus::APPLIED;
                }
                decision.payments.push(Followed { before, after });
            }
        }
        Ok(())
    }
}

impl Attempt {
    fn decision(&self, status: EventStatus, customer: Option<ObjectId>) -> Decision {
        let is_new = self.link.is_none();
        Decision {
            outcome: EventOutcome { customer, is_new, ..status.into() },
            subscription: Followed { before: None, after: None },
            payments: Vec::new(),
            plan: None,
            links: Vec::new(),
            binding: None,
        }
    }

    /// The document of the link, as this observation writes it.
    fn next_link(
        &self,
        of: &Observation<'_>,
        id: SubscriptionId,
        outcome: &EventOutcome,
        unnamed: bool,
    ) -> Result<Document, Error> {
        let link = Link {
            source: of.account.source.name.clone(),
            object: of.object.clone(),
            customer: outcome.customer.clone(),
            user_id: None,
            subscription_id: Some(id),
            attach: false,
            unnamed,
        };
        link.document(self.link.as_ref().map_or(Version::NEW, |link| link.version))
    }
}

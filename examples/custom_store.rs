//! A store of your own, and the suite that says when it is right.
//!
//!     cargo run --example custom_store       # a service over it
//!     cargo test --example custom_store      # the contract, case by case
//!
//! This one is as plain as can be: one map of records under one lock, lists by sorting all there is.
//! A store over a database does the same with transactions and indexes.

#![expect(clippy::print_stdout, reason = "an example tells what it does")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use subscription_core::auth::{Client, IdentityKey, Session, User};
use subscription_core::events::RecordedEvent;
use subscription_core::store::{
    ChangeSet, Direction, Guard, IdempotencyKey, IdempotencyRecord, Key, Page, PageLimit,
    PaymentQuery, PlanQuery, Position, StoreError, SubscriptionQuery, Unique, Write,
};
use subscription_core::{
    BillingCycle, ExternalId, NewPlan, Payment, PaymentId, Plan, PlanId, SessionId, Slug, Store,
    Subscription, SubscriptionId, SubscriptionService, SubscriptionStatus, Timestamp, UserId,
    Version,
};

/// Keeps records in the order of their keys.
#[derive(Debug, Default)]
struct PlainStore(Mutex<Contents>);

#[derive(Debug, Default)]
struct Contents {
    records: BTreeMap<Key, Write>,
    events: Vec<RecordedEvent>,
    sequence: u64,
}

impl PlainStore {
    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Contents {
    fn plans(&self) -> impl Iterator<Item = &Plan> {
        self.records
            .values()
            .filter_map(|r| if let Write::Plan(plan) = r { Some(plan) } else { None })
    }

    fn subscriptions(&self) -> impl Iterator<Item = &Subscription> {
        let records = self.records.values();
        records.filter_map(|r| if let Write::Subscription(found) = r { Some(found) } else { None })
    }

    fn payments(&self) -> impl Iterator<Item = &Payment> {
        let records = self.records.values();
        records.filter_map(|r| if let Write::Payment(payment) = r { Some(payment) } else { None })
    }

    fn users(&self) -> impl Iterator<Item = &User> {
        let records = self.records.values();
        records.filter_map(|r| if let Write::User(user) = r { Some(user) } else { None })
    }

    fn sessions(&self) -> impl Iterator<Item = &Session> {
        let records = self.records.values();
        records.filter_map(|r| if let Write::Session(session) = r { Some(session) } else { None })
    }

    fn clients(&self) -> impl Iterator<Item = &Client> {
        let records = self.records.values();
        records.filter_map(|r| if let Write::Client(client) = r { Some(client) } else { None })
    }

    fn answers(&self) -> impl Iterator<Item = &IdempotencyRecord> {
        let records = self.records.values();
        records.filter_map(|r| if let Write::Idempotency(answer) = r { Some(answer) } else { None })
    }

    /// Everything that can be refused, before anything is written.
    fn check(&self, changes: &ChangeSet) -> Result<(), StoreError> {
        changes.check().map_err(StoreError::BadChangeSet)?;
        let writes = changes.writes.iter().map(|write| (write.key(), write.version().previous()));
        let deletes = changes.deletes.iter().map(|delete| (delete.key.clone(), delete.version));
        let guards = changes.guards.iter().filter_map(|guard| match guard {
            Guard::Unchanged { key, version } => Some((key.clone(), *version)),
            Guard::PlanUnused(_) | Guard::NoOtherLiveSubscription(_) | Guard::Expired { .. } => {
                None
            }
        });
        for (key, version) in guards.chain(writes).chain(deletes) {
            if self.records.get(&key).map_or(Version::NEW, Write::version) != version {
                return Err(StoreError::Conflict(key));
            }
        }
        let is_gone = |key: Key| changes.deletes.iter().any(|delete| delete.key == key);
        for guard in &changes.guards {
            match guard {
                Guard::Unchanged { .. } => {}
                Guard::PlanUnused(plan) => {
                    let mut users =
                        self.subscriptions().filter(|s| s.subscription_plan_id == *plan);
                    if users.any(|user| !is_gone(Key::Subscription(user.id))) {
                        return Err(StoreError::PlanInUse(*plan));
                    }
                }
                Guard::Expired { key, by } => {
                    let record = self.answers().find(|answer| answer.key == *key);
                    if record.is_none_or(|record| record.expires_at > *by) {
                        return Err(StoreError::Conflict(Key::Idempotency(key.clone())));
                    }
                }
                Guard::NoOtherLiveSubscription(user) => {
                    let named = changes.subscriptions_named();
                    let mut others = self.subscriptions().filter(|s| !named.contains(&s.id));
                    if others.any(|s| s.user_id == *user && s.status != SubscriptionStatus::Expired)
                    {
                        return Err(StoreError::Conflict(Key::User(*user)));
                    }
                }
            }
        }
        for (nth, write) in changes.writes.iter().enumerate() {
            let kept = self.records.values().filter(|other| !is_gone(other.key()));
            let others = kept.filter(|other| other.key() != write.key());
            let others = others.chain(changes.writes.iter().take(nth));
            let taken: Vec<_> = others.flat_map(unique).collect();
            if let Some((unique, _)) = unique(write).into_iter().find(|v| taken.contains(v)) {
                return Err(StoreError::Taken(unique));
            }
        }
        Ok(())
    }
}

/// A value that no other record may have.
fn unique(write: &Write) -> Vec<(Unique, String)> {
    let external = |unique, id: &Option<ExternalId>| -> Vec<_> {
        id.iter().map(|id| (unique, id.to_string())).collect()
    };
    match write {
        Write::Plan(plan) => vec![(Unique::PlanSlug, plan.slug.to_string())],
        Write::Subscription(s) => {
            external(Unique::ExternalSubscription, &s.external_subscription_id)
        }
        Write::Payment(payment) => external(Unique::ExternalPayment, &payment.external_payment_id),
        Write::User(user) => {
            let IdentityKey { issuer, subject } = &user.identity;
            let identity = format!("{issuer}\n{subject}");
            vec![(Unique::UserIdentity, identity), (Unique::UserEmail, user.email.key().into())]
        }
        Write::Session(_) | Write::Client(_) | Write::Idempotency(_) => Vec::new(),
    }
}

/// Sorts all there is, and cuts out a page.
fn page<'a, T: Clone + 'a>(
    records: impl Iterator<Item = &'a T>,
    position: impl Fn(&T) -> Position,
    direction: Direction,
    after: Option<&Position>,
    limit: PageLimit,
) -> Page<Arc<T>> {
    let mut sorted: Vec<_> = records.map(|record| (position(record), record)).collect();
    sorted.sort_by(|(a, _), (b, _)| match direction {
        Direction::Ascending => a.cmp(b),
        Direction::Descending => b.cmp(a),
    });
    let rest = sorted.into_iter().filter(|(position, _)| match (after, direction) {
        (None, _) => true,
        (Some(after), Direction::Ascending) => position > after,
        (Some(after), Direction::Descending) => position < after,
    });
    let mut found: Vec<_> = rest.take(limit.get() + 1).collect();
    let more = found.len() > limit.get();
    found.truncate(limit.get());
    let next = found.last().filter(|_| more).map(|(position, _)| position.clone());
    Page { items: found.into_iter().map(|(_, record)| Arc::new(record.clone())).collect(), next }
}

fn shared<T: Clone>(found: Option<&T>) -> Option<Arc<T>> {
    found.cloned().map(Arc::new)
}

#[async_trait]
impl Store for PlainStore {
    async fn plan(&self, id: PlanId) -> Result<Option<Arc<Plan>>, StoreError> {
        Ok(shared(self.contents().plans().find(|plan| plan.id == id)))
    }

    async fn plan_by_slug(&self, slug: &Slug) -> Result<Option<Arc<Plan>>, StoreError> {
        Ok(shared(self.contents().plans().find(|plan| plan.slug == *slug)))
    }

    async fn plans(&self, query: &PlanQuery) -> Result<Page<Arc<Plan>>, StoreError> {
        let contents = self.contents();
        let plans = contents.plans().filter(|plan| query.filter.admits(plan));
        let position = |plan: &Plan| query.order.position(plan);
        Ok(page(plans, position, query.direction, query.after.as_ref(), query.limit))
    }

    async fn subscription(
        &self,
        id: SubscriptionId,
    ) -> Result<Option<Arc<Subscription>>, StoreError> {
        Ok(shared(self.contents().subscriptions().find(|found| found.id == id)))
    }

    async fn subscription_by_external_id(
        &self,
        id: &ExternalId,
    ) -> Result<Option<Arc<Subscription>>, StoreError> {
        let has_id = |found: &&Subscription| found.external_subscription_id.as_ref() == Some(id);
        Ok(shared(self.contents().subscriptions().find(has_id)))
    }

    async fn subscriptions(
        &self,
        query: &SubscriptionQuery,
    ) -> Result<Page<Arc<Subscription>>, StoreError> {
        let contents = self.contents();
        let found = contents.subscriptions().filter(|s| query.filter.admits(s, query.now));
        let position = |found: &Subscription| query.order.position(found);
        Ok(page(found, position, query.direction, query.after.as_ref(), query.limit))
    }

    async fn payment(&self, id: PaymentId) -> Result<Option<Arc<Payment>>, StoreError> {
        Ok(shared(self.contents().payments().find(|payment| payment.id == id)))
    }

    async fn payment_by_external_id(
        &self,
        id: &ExternalId,
    ) -> Result<Option<Arc<Payment>>, StoreError> {
        let has_id = |payment: &&Payment| payment.external_payment_id.as_ref() == Some(id);
        Ok(shared(self.contents().payments().find(has_id)))
    }

    async fn payments(&self, query: &PaymentQuery) -> Result<Page<Arc<Payment>>, StoreError> {
        let contents = self.contents();
        let found = contents.payments().filter(|p| p.subscription_id == query.subscription_id);
        let after = query.after.as_ref();
        Ok(page(found, PaymentQuery::position, query.direction, after, query.limit))
    }

    async fn user(&self, id: UserId) -> Result<Option<Arc<User>>, StoreError> {
        Ok(shared(self.contents().users().find(|user| user.id == id)))
    }

    async fn user_by_identity(
        &self,
        identity: &IdentityKey,
    ) -> Result<Option<Arc<User>>, StoreError> {
        Ok(shared(self.contents().users().find(|user| user.identity == *identity)))
    }

    async fn closing_users(&self, limit: PageLimit) -> Result<Vec<Arc<User>>, StoreError> {
        let contents = self.contents();
        let closing = contents.users().filter(|user| user.closing).take(limit.get());
        Ok(closing.cloned().map(Arc::new).collect())
    }

    async fn session(&self, id: SessionId) -> Result<Option<Arc<Session>>, StoreError> {
        Ok(shared(self.contents().sessions().find(|session| session.id == id)))
    }

    async fn sessions(
        &self,
        user: UserId,
        now: Timestamp,
    ) -> Result<Vec<Arc<Session>>, StoreError> {
        let contents = self.contents();
        let live = contents.sessions().filter(|s| s.user_id == user && s.ended_at() > now);
        let mut live: Vec<_> = live.collect();
        live.sort_by_key(|session| std::cmp::Reverse(session.id));
        Ok(live.into_iter().cloned().map(Arc::new).collect())
    }

    async fn ended_sessions_of(
        &self,
        user: UserId,
        now: Timestamp,
        skip: usize,
        limit: PageLimit,
    ) -> Result<Vec<Arc<Session>>, StoreError> {
        let contents = self.contents();
        let ended = contents.sessions().filter(|s| s.user_id == user && s.ended_at() <= now);
        let mut ended: Vec<_> = ended.collect();
        ended.sort_by_key(|session| std::cmp::Reverse((session.ended_at(), session.id)));
        Ok(ended.into_iter().skip(skip).take(limit.get()).cloned().map(Arc::new).collect())
    }

    async fn ended_sessions(
        &self,
        before: Timestamp,
        limit: PageLimit,
    ) -> Result<Vec<Arc<Session>>, StoreError> {
        let contents = self.contents();
        let mut ended: Vec<_> = contents.sessions().filter(|s| s.ended_at() <= before).collect();
        ended.sort_by_key(|session| session.ended_at());
        Ok(ended.into_iter().take(limit.get()).cloned().map(Arc::new).collect())
    }

    async fn client(&self, id: &Slug) -> Result<Option<Arc<Client>>, StoreError> {
        Ok(shared(self.contents().clients().find(|client| client.id == *id)))
    }

    async fn clients(&self) -> Result<Vec<Arc<Client>>, StoreError> {
        Ok(self.contents().clients().cloned().map(Arc::new).collect())
    }

    async fn idempotency(
        &self,
        key: &IdempotencyKey,
    ) -> Result<Option<Arc<IdempotencyRecord>>, StoreError> {
        Ok(shared(self.contents().answers().find(|answer| answer.key == *key)))
    }

    async fn expired_idempotency(
        &self,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<Vec<Arc<IdempotencyRecord>>, StoreError> {
        let contents = self.contents();
        let mut expired: Vec<_> = contents.answers().filter(|a| a.expires_at <= now).collect();
        expired.sort_by_key(|answer| answer.expires_at);
        Ok(expired.into_iter().take(limit.get()).cloned().map(Arc::new).collect())
    }

    async fn events(&self, after: u64, limit: PageLimit) -> Result<Vec<RecordedEvent>, StoreError> {
        let contents = self.contents();
        let later = contents.events.iter().filter(|recorded| recorded.sequence > after);
        Ok(later.take(limit.get()).cloned().collect())
    }

    async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError> {
        let mut contents = self.contents();
        contents.check(&changes)?;
        for delete in changes.deletes {
            contents.records.remove(&delete.key);
        }
        for write in changes.writes {
            contents.records.insert(write.key(), write);
        }
        for event in changes.events {
            contents.sequence += 1;
            let sequence = contents.sequence;
            contents.events.push(RecordedEvent { sequence, event });
        }
        let forgotten = changes.forget_events.unwrap_or(0);
        contents.events.retain(|recorded| recorded.sequence > forgotten);
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let service = SubscriptionService::new(PlainStore::default());
    for (name, slug, price) in [("Pro", "pro", "19.90"), ("Basic", "basic", "4.90")] {
        let cycle = BillingCycle::MONTHLY;
        let new = NewPlan::new(name.parse()?, slug.parse()?, price.parse()?, cycle);
        service.create_plan(new).await?;
    }
    let page = service.plans(PlanQuery::default()).await?;
    for plan in page.items {
        println!("{:8} {:>6} {}", plan.name, plan.price, plan.billing_cycle);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::PlainStore;

    subscription_core::store_conformance!(async { PlainStore::default() });
}

//! `impl Store` for both SQL stores.

use std::sync::Arc;

use async_trait::async_trait;

use super::access;
use super::error::failed;
use super::page::{self, Statement};
use super::table::SqlRecord;
use super::value::{Cells, Columns, Value};
use super::{Dialect, SqlStore};
use crate::accounts::{Client, IdentityKey, Session, User};
use crate::events::RecordedEvent;
use crate::payments::Payment;
use crate::plans::Plan;
use crate::store::access_class::is_by_access;
use crate::store::{
    ChangeSet, IdempotencyKey, IdempotencyRecord, Key, Page, PageLimit, PaymentQuery, PlanQuery,
    Position, Store, StoreError, SubscriptionQuery,
};
use crate::subscriptions::Subscription;
use crate::values::clock::Timestamp;
use crate::values::id::{PaymentId, PlanId, SessionId, SubscriptionId, UserId};
use crate::values::text::{ExternalId, Slug};

/// The first of the rows as a record.
fn first<T: SqlRecord>(rows: &[impl Columns]) -> Result<Option<Arc<T>>, StoreError> {
    rows.first().map(record).transpose()
}

/// Every row as a record.
fn all<T: SqlRecord>(rows: &[impl Columns]) -> Result<Vec<Arc<T>>, StoreError> {
    rows.iter().map(record).collect()
}

fn read<T: SqlRecord>(row: &impl Columns) -> Result<T, StoreError> {
    T::read(&mut Cells::new(row))
}

fn record<T: SqlRecord>(row: &impl Columns) -> Result<Arc<T>, StoreError> {
    read(row).map(Arc::new)
}

/// A page, of rows of which one too many was asked for.
fn page<T: SqlRecord>(
    rows: &[impl Columns],
    limit: PageLimit,
    position: impl Fn(&T) -> Position,
) -> Result<Page<Arc<T>>, StoreError> {
    let more = rows.len() > limit.get();
    let items: Vec<_> = all(rows.get(..limit.get()).unwrap_or(rows))?;
    let next = items.last().filter(|_| more).map(|last| position(last));
    Ok(Page { items, next })
}

/// Moves subscriptions whose access has begun or ended to their new class.
async fn move_due(database: &impl Dialect, now: Timestamp) -> Result<(), StoreError> {
    let rows = database.rows(access::is_behind(now)).await?;
    let is_behind = rows.first().map_or(Ok(false), |row| row.bool(0)).map_err(failed)?;
    if is_behind && let Err(error) = database.move_due(now).await {
        // Lists are correct without it, so a full or read-only database must not fail them.
        tracing::warn!(%error, "subscriptions whose access began or ended could not be moved");
    }
    Ok(())
}

#[async_trait]
impl<D: Dialect> Store for SqlStore<D> {
    async fn plan(&self, id: PlanId) -> Result<Option<Arc<Plan>>, StoreError> {
        first(&self.0.rows(Statement::one(&Key::Plan(id))).await?)
    }

    async fn plan_by_slug(&self, slug: &Slug) -> Result<Option<Arc<Plan>>, StoreError> {
        let values = vec![Value::text(slug)];
        first(&self.0.rows(Statement::select::<Plan>("WHERE slug = $1", values)).await?)
    }

    async fn plans(&self, query: &PlanQuery) -> Result<Page<Arc<Plan>>, StoreError> {
        let rows = self.0.rows(page::plans(query)).await?;
        page(&rows, query.limit, |plan| query.order.position(plan))
    }

    async fn subscription(
        &self,
        id: SubscriptionId,
    ) -> Result<Option<Arc<Subscription>>, StoreError> {
        first(&self.0.rows(Statement::one(&Key::Subscription(id))).await?)
    }

    async fn subscription_by_external_id(
        &self,
        id: &ExternalId,
    ) -> Result<Option<Arc<Subscription>>, StoreError> {
        let rest = "WHERE external_subscription_id = $1";
        let values = vec![Value::text(id)];
        first(&self.0.rows(Statement::select::<Subscription>(rest, values)).await?)
    }

    async fn subscriptions(
        &self,
        query: &SubscriptionQuery,
    ) -> Result<Page<Arc<Subscription>>, StoreError> {
        if is_by_access(&query.filter) {
            move_due(&self.0, query.now).await?;
        }
        match page::subscriptions(query, D::fit) {
            Some(statement) => {
                let rows = self.0.rows(statement).await?;
                page(&rows, query.limit, |found| query.order.position(found))
            }
            None => Ok(Page { items: Vec::new(), next: None }),
        }
    }

    async fn payment(&self, id: PaymentId) -> Result<Option<Arc<Payment>>, StoreError> {
        first(&self.0.rows(Statement::one(&Key::Payment(id))).await?)
    }

    async fn payment_by_external_id(
        &self,
        id: &ExternalId,
    ) -> Result<Option<Arc<Payment>>, StoreError> {
        let rest = "WHERE external_payment_id = $1";
        let values = vec![Value::text(id)];
        first(&self.0.rows(Statement::select::<Payment>(rest, values)).await?)
    }

    async fn payments(&self, query: &PaymentQuery) -> Result<Page<Arc<Payment>>, StoreError> {
        let rows = self.0.rows(page::payments(query)).await?;
        page(&rows, query.limit, PaymentQuery::position)
    }

    async fn user(&self, id: UserId) -> Result<Option<Arc<User>>, StoreError> {
        first(&self.0.rows(Statement::one(&Key::User(id))).await?)
    }

    async fn user_by_identity(
        &self,
        identity: &IdentityKey,
    ) -> Result<Option<Arc<User>>, StoreError> {
        let rest = "WHERE issuer = $1 AND subject = $2";
        let values = vec![Value::text(&identity.issuer), Value::text(&identity.subject)];
        first(&self.0.rows(Statement::select::<User>(rest, values)).await?)
    }

    async fn closing_users(&self, limit: PageLimit) -> Result<Vec<Arc<User>>, StoreError> {
        let rest = "WHERE closing ORDER BY id LIMIT $1";
        let values = vec![Value::count(limit.get() as u64)];
        all(&self.0.rows(Statement::select::<User>(rest, values)).await?)
    }

    async fn session(&self, id: SessionId) -> Result<Option<Arc<Session>>, StoreError> {
        first(&self.0.rows(Statement::one(&Key::Session(id))).await?)
    }

    async fn sessions(
        &self,
        user: UserId,
        now: Timestamp,
    ) -> Result<Vec<Arc<Session>>, StoreError> {
        let rest = "WHERE user_id = $1 AND ended_at > $2 ORDER BY id DESC";
        let values = vec![Value::Id(user.uuid()), Value::time(now)];
        all(&self.0.rows(Statement::select::<Session>(rest, values)).await?)
    }

    async fn ended_sessions_of(
        &self,
        user: UserId,
        now: Timestamp,
        skip: usize,
        limit: PageLimit,
    ) -> Result<Vec<Arc<Session>>, StoreError> {
        let rest = "WHERE user_id = $1 AND ended_at <= $2 \
                    ORDER BY ended_at DESC, id DESC LIMIT $3 OFFSET $4";
        let (limit, skip) = (limit.get() as u64, skip as u64);
        let values =
            vec![Value::Id(user.uuid()), Value::time(now), Value::count(limit), Value::count(skip)];
        all(&self.0.rows(Statement::select::<Session>(rest, values)).await?)
    }

    async fn ended_sessions(
        &self,
        before: Timestamp,
        limit: PageLimit,
    ) -> Result<Vec<Arc<Session>>, StoreError> {
        let rest = "WHERE ended_at <= $1 ORDER BY ended_at, id LIMIT $2";
        let values = vec![Value::time(before), Value::count(limit.get() as u64)];
        all(&self.0.rows(Statement::select::<Session>(rest, values)).await?)
    }

    async fn client(&self, id: &Slug) -> Result<Option<Arc<Client>>, StoreError> {
        first(&self.0.rows(Statement::one(&Key::Client(id.clone()))).await?)
    }

    async fn clients(&self) -> Result<Vec<Arc<Client>>, StoreError> {
        all(&self.0.rows(Statement::select::<Client>("ORDER BY id", Vec::new())).await?)
    }

    async fn idempotency(
        &self,
        key: &IdempotencyKey,
    ) -> Result<Option<Arc<IdempotencyRecord>>, StoreError> {
        first(&self.0.rows(Statement::one(&Key::Idempotency(key.clone()))).await?)
    }

    async fn expired_idempotency(
        &self,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<Vec<Arc<IdempotencyRecord>>, StoreError> {
        let rest = "WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2";
        let values = vec![Value::time(now), Value::count(limit.get() as u64)];
        all(&self.0.rows(Statement::select::<IdempotencyRecord>(rest, values)).await?)
    }

    async fn events(&self, after: u64, limit: PageLimit) -> Result<Vec<RecordedEvent>, StoreError> {
        self.0.number_events().await?;
        let rest = "WHERE sequence > $1 ORDER BY sequence LIMIT $2";
        let values = vec![Value::count(after), Value::count(limit.get() as u64)];
        let rows = self.0.rows(Statement::select::<RecordedEvent>(rest, values)).await?;
        rows.iter().map(read).collect()
    }

    async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError> {
        changes.check().map_err(StoreError::BadChangeSet)?;
        self.0.commit(changes).await
    }
}

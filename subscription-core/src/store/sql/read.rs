//! `impl Store` for both SQL stores.

use std::sync::Arc;

use super::page::Statement;
use super::table::Kept;
use super::value::{Cells, Columns, Value};
use crate::accounts::{Client, Session, User};
use crate::payments::Payment;
use crate::plans::Plan;
use crate::store::{
    ClientQuery, IdempotencyQuery, IdempotencyRecord, Key, Kind, Page, PageLimit, Position, Record,
    SessionQuery, StoreError, UniqueValue, UserQuery,
};
use crate::subscriptions::Subscription;

/// The first of the rows as a record of the kind that `key` names.
pub(super) fn by_key(key: &Key, rows: &[impl Columns]) -> Result<Option<Record>, StoreError> {
    match key {
        Key::Plan(_) => first::<Plan>(rows),
        Key::Subscription(_) => first::<Subscription>(rows),
        Key::Payment(_) => first::<Payment>(rows),
        Key::User(_) => first::<User>(rows),
        Key::Session(_) => first::<Session>(rows),
        Key::Client(_) => first::<Client>(rows),
        Key::Idempotency(_) => first::<IdempotencyRecord>(rows),
        Key::Document(_) => first::<crate::store::Document>(rows),
    }
}

/// The first of the rows as a record of the kind that has the value.
pub(super) fn by_value(
    value: UniqueValue<'_>,
    rows: &[impl Columns],
) -> Result<Option<Record>, StoreError> {
    match value {
        UniqueValue::PlanSlug(_) => first::<Plan>(rows),
        UniqueValue::ExternalSubscription(_) => first::<Subscription>(rows),
        UniqueValue::ExternalPayment(_) => first::<Payment>(rows),
        UniqueValue::UserIdentity(_) | UniqueValue::UserEmail(_) => first::<User>(rows),
    }
}

/// Selects the record that has the value.
pub(super) fn find(value: UniqueValue<'_>) -> Statement {
    match value {
        UniqueValue::PlanSlug(slug) => {
            Statement::select::<Plan>("WHERE slug = $1", vec![Value::text(slug)])
        }
        UniqueValue::ExternalSubscription(id) => Statement::select::<Subscription>(
            "WHERE external_subscription_id = $1",
            vec![Value::text(id)],
        ),
        UniqueValue::ExternalPayment(id) => {
            Statement::select::<Payment>("WHERE external_payment_id = $1", vec![Value::text(id)])
        }
        UniqueValue::UserIdentity(identity) => Statement::select::<User>(
            "WHERE issuer = $1 AND subject = $2",
            vec![Value::text(&identity.issuer), Value::text(&identity.subject)],
        ),
        UniqueValue::UserEmail(email) => {
            Statement::select::<User>("WHERE email_key = $1", vec![Value::text(email.key())])
        }
    }
}

/// Selects the records of a list that has no positions, and reads them.
pub(super) fn sessions(query: &SessionQuery) -> Statement {
    match query {
        SessionQuery::LiveOf { user, now } => Statement::select::<Session>(
            "WHERE user_id = $1 AND ended_at > $2 ORDER BY id DESC",
            vec![Value::Id(user.uuid()), Value::time(*now)],
        ),
        SessionQuery::EndedOf { user, now, skip, limit } => Statement::select::<Session>(
            "WHERE user_id = $1 AND ended_at <= $2 ORDER BY ended_at DESC, id DESC LIMIT $3 OFFSET $4",
            vec![
                Value::Id(user.uuid()),
                Value::time(*now),
                Value::count(limit.get() as u64),
                Value::count(*skip as u64),
            ],
        ),
        SessionQuery::Ended { by, limit } => Statement::select::<Session>(
            "WHERE ended_at <= $1 ORDER BY ended_at, id LIMIT $2",
            vec![Value::time(*by), Value::count(limit.get() as u64)],
        ),
    }
}

pub(super) fn users(query: &UserQuery) -> Statement {
    let UserQuery::Closing { limit } = query;
    let values = vec![Value::count(limit.get() as u64)];
    Statement::select::<User>("WHERE closing ORDER BY id LIMIT $1", values)
}

pub(super) fn clients(query: &ClientQuery) -> Statement {
    let ClientQuery::All = query;
    Statement::select::<Client>("ORDER BY id", Vec::new())
}

pub(super) fn idempotency(query: &IdempotencyQuery) -> Statement {
    let IdempotencyQuery::Expired { by, limit } = query;
    Statement::select::<IdempotencyRecord>(
        "WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2",
        vec![Value::time(*by), Value::count(limit.get() as u64)],
    )
}

fn first<T: Kept + Kind>(rows: &[impl Columns]) -> Result<Option<Record>, StoreError> {
    rows.first().map(record::<T>).transpose()
}

/// Every row as a record.
pub(super) fn all<T: Kept + Kind>(rows: &[impl Columns]) -> Result<Page<Record>, StoreError> {
    let items = rows.iter().map(record::<T>).collect::<Result<_, _>>()?;
    Ok(Page { items, next: None })
}

fn record<T: Kept + Kind>(row: &impl Columns) -> Result<Record, StoreError> {
    T::read(&mut Cells::new(row)).map(|record| Arc::new(record).into_record())
}

/// A page, of rows of which one too many was asked for.
pub(super) fn page<T: Kept + Kind>(
    rows: &[impl Columns],
    limit: PageLimit,
    position: impl Fn(&T) -> Position,
) -> Result<Page<Record>, StoreError> {
    let more = rows.len() > limit.get();
    let page = all::<T>(rows.get(..limit.get()).unwrap_or(rows))?;
    let last = page.items.last().filter(|_| more).cloned().and_then(T::from_record);
    Ok(Page { next: last.map(|last| position(&last)), ..page })
}

/// A [`Store`](crate::store::Store) whose type has `rows`, `take`, `feed` and `move_due`.
macro_rules! store_over_sql {
    ($store:ident, $fit:expr) => {
        const _: () = {
            use async_trait::async_trait;

            use $crate::accounts::{Client, Session, User};
            use $crate::store::access_class::is_by_access;
            use $crate::store::sql::history::recorded_event;
            use $crate::store::sql::page::{self, Statement};
            use $crate::store::sql::read::{self, all, page};
            use $crate::store::{
                ChangeSet, EventPage, EventQuery, IdempotencyRecord, Key, Page, PaymentQuery,
                Query, Record, Store, StoreError, UniqueValue,
            };

            #[async_trait]
            impl Store for $store {
                async fn get(&self, key: &Key) -> Result<Option<Record>, StoreError> {
                    read::by_key(key, &self.rows(Statement::one(key)).await?)
                }

                async fn find(&self, value: UniqueValue<'_>) -> Result<Option<Record>, StoreError> {
                    read::by_value(value, &self.rows(read::find(value)).await?)
                }

                async fn list(&self, query: &Query) -> Result<Page<Record>, StoreError> {
                    match query {
                        Query::Plan(query) => {
                            let rows = self.rows(page::plans(query)).await?;
                            page(&rows, query.limit, |plan| query.order.position(plan))
                        }
                        Query::Subscription(query) => {
                            if is_by_access(&query.filter) {
                                self.move_due(query.now).await?;
                            }
                            let Some(statement) = page::subscriptions(query, $fit) else {
                                return Ok(Page { items: Vec::new(), next: None });
                            };
                            let rows = self.rows(statement).await?;
                            page(&rows, query.limit, |found| query.order.position(found))
                        }
                        Query::Payment(query) => {
                            let rows = self.rows(page::payments(query)).await?;
                            page(&rows, query.limit, PaymentQuery::position)
                        }
                        Query::Document(query) => {
                            let rows = self.rows(page::documents(query)).await?;
                            page(&rows, query.limit, |document| query.position(document))
                        }
                        Query::User(query) => all::<User>(&self.rows(read::users(query)).await?),
                        Query::Session(query) => {
                            all::<Session>(&self.rows(read::sessions(query)).await?)
                        }
                        Query::Client(query) => {
                            all::<Client>(&self.rows(read::clients(query)).await?)
                        }
                        Query::Idempotency(query) => {
                            all::<IdempotencyRecord>(&self.rows(read::idempotency(query)).await?)
                        }
                    }
                }

                async fn events(&self, query: &EventQuery) -> Result<EventPage, StoreError> {
                    let rows = self.feed(query.after, query.limit).await?;
                    let items = rows.iter().map(recorded_event).collect::<Result<_, _>>()?;
                    Ok(EventPage::new(query, items))
                }

                async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError> {
                    changes.check().map_err(StoreError::BadChangeSet)?;
                    self.take(changes).await
                }
            }
        };
    };
}

pub(super) use store_over_sql;

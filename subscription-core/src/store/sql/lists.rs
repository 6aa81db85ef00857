//! The SQL statements that find a record by a unique value, such as a slug, and those that list records of any kind.

use super::dialect::Dialect;
use super::page::{Window, sort_value, subscriptions};
use super::statement::Statement;
use super::table::{SqlRecord, Table};
use super::value::Value;
use crate::accounts::{Client, Session, User};
use crate::payments::{Payment, PaymentStatus};
use crate::plans::Plan;
use crate::store::{
    ClientQuery, Direction, Document, DocumentFilter, DocumentQuery, DuePayments, DueSubscriptions,
    IdempotencyQuery, IdempotencyRecord, PageLimit, PaymentQuery, PlanOrder, PlanQuery, Position,
    Query, SessionQuery, UniqueValue, UserFilter, UserQuery,
};
use crate::subscriptions::Subscription;
use crate::values::Timestamp;

/// A statement for a list, and the table whose rows it returns. If the list has pages, the statement returns one row
/// more than the page may have, if more rows follow.
pub(super) struct List {
    pub(super) table: &'static Table,
    pub(super) statement: Statement,
}

impl List {
    fn page<T: SqlRecord>(statement: Statement) -> Self {
        Self { table: T::TABLE, statement }
    }

    fn whole<T: SqlRecord>(rest: &str, values: Vec<Value>) -> Self {
        Self { table: T::TABLE, statement: Statement::select::<T>(rest, values) }
    }
}

/// Selects the record that has a unique value.
pub(super) fn find(value: UniqueValue<'_>) -> List {
    match value {
        UniqueValue::PlanSlug(slug) => {
            List::whole::<Plan>("WHERE slug = $1", vec![Value::text(slug)])
        }
        UniqueValue::ExternalSubscription(id) => List::whole::<Subscription>(
            "WHERE external_subscription_id = $1",
            vec![Value::text(id)],
        ),
        UniqueValue::ExternalPayment(id) => {
            List::whole::<Payment>("WHERE external_payment_id = $1", vec![Value::text(id)])
        }
        UniqueValue::LiveKey(key) => {
            List::whole::<Subscription>("WHERE live_key = $1", vec![Value::text(key)])
        }
        UniqueValue::PaymentPeriod(subscription, start) => List::whole::<Payment>(
            "WHERE subscription_id = $1 AND whole_period = $2 AND status <> 'canceled'",
            vec![Value::Id(subscription.uuid()), Value::time(start)],
        ),
        UniqueValue::UserIdentity(identity) => List::whole::<User>(
            "WHERE issuer = $1 AND subject = $2",
            vec![Value::text(&identity.issuer), Value::text(&identity.subject)],
        ),
        UniqueValue::UserEmail(email) => {
            List::whole::<User>("WHERE email_key = $1", vec![Value::text(email.key())])
        }
    }
}

/// Selects the records of a list; `None` if the list is certainly empty.
pub(super) fn list<D: Dialect>(query: &Query) -> Option<List> {
    Some(match query {
        Query::Plan(query) => List::page::<Plan>(plans(query)),
        Query::Subscription(query) => List::page::<Subscription>(subscriptions::<D>(query)?),
        Query::Payment(query) => List::page::<Payment>(payments::<D>(query)),
        Query::DueSubscriptions(DueSubscriptions { until, after, limit }) => {
            due::<Subscription>(Vec::new(), "next_action_at", *until, after.as_ref(), *limit)
        }
        Query::DuePayments(query) => due_payments(query)?,
        Query::Document(query) => List::page::<Document>(documents::<D>(query)),
        Query::User(UserQuery::Closing { limit }) => {
            List::whole::<User>("WHERE closing ORDER BY id LIMIT $1", vec![Value::limit(*limit)])
        }
        Query::User(UserQuery::Open { filter, after, limit }) => {
            List::page::<User>(users(filter, after.as_ref(), *limit)?)
        }
        Query::Session(SessionQuery::LiveOf { user, now }) => List::whole::<Session>(
            "WHERE user_id = $1 AND ended_at > $2 ORDER BY id DESC",
            vec![Value::Id(user.uuid()), Value::time(*now)],
        ),
        Query::Session(SessionQuery::EndedOf { user, now, skip, limit }) => List::whole::<Session>(
            "WHERE user_id = $1 AND ended_at <= $2 \
             ORDER BY ended_at DESC, id DESC LIMIT $3 OFFSET $4",
            vec![
                Value::Id(user.uuid()),
                Value::time(*now),
                Value::limit(*limit),
                Value::count(*skip as u64),
            ],
        ),
        Query::Session(SessionQuery::Ended { by, limit }) => List::whole::<Session>(
            "WHERE ended_at <= $1 ORDER BY ended_at, id LIMIT $2",
            vec![Value::time(*by), Value::limit(*limit)],
        ),
        Query::Client(ClientQuery::All) => List::whole::<Client>("ORDER BY id", Vec::new()),
        Query::Idempotency(IdempotencyQuery::Expired { by, limit }) => {
            List::whole::<IdempotencyRecord>(
                "WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2",
                vec![Value::time(*by), Value::limit(*limit)],
            )
        }
    })
}

fn plans(query: &PlanQuery) -> Statement {
    let mut statement = Statement::default();
    let filter = &query.filter;
    let mut conditions = Vec::new();
    let mut equal = |column: &str, value: Option<Value>| {
        if let Some(value) = value {
            conditions.push(format!("{column} = {}", statement.bind(value)));
        }
    };
    equal("is_active", filter.is_active.map(Value::Bool));
    equal("billing_cycle", filter.billing_cycle.map(|cycle| Value::text(cycle.to_string())));
    equal("product_id", filter.product_id.as_ref().map(Value::text));
    equal("tier", filter.tier.map(|tier| Value::count(tier.get())));
    equal("most_popular", filter.most_popular.map(Value::Bool));
    let column = match query.order {
        PlanOrder::Tier => Some("tier"),
        PlanOrder::Price => Some("price_order"),
        PlanOrder::Name => Some("name"),
        PlanOrder::CreatedAt => None,
    };
    let after = query.after.as_ref();
    let window = Window::new(&mut statement, column, query.direction, after, query.limit);
    statement.text = window.close(&Plan::TABLE.texts.select, conditions).into();
    statement
}

fn payments<D: Dialect>(query: &PaymentQuery) -> Statement {
    let mut statement = Statement::default();
    let mut conditions = Vec::new();
    let mut hint = String::new();
    if let Some(id) = query.subscription_id {
        conditions.push(format!("subscription_id = {}", statement.bind(Value::Id(id.uuid()))));
    }
    if let Some(user) = query.user_id {
        hint = D::hint("payments_of_subscription");
        let user = statement.bind(Value::Id(user.uuid()));
        let of_user = format!("SELECT id FROM subscriptions WHERE user_id = {user}");
        conditions.push(format!("subscription_id IN ({of_user})"));
    }
    let after = query.after.as_ref();
    let window = Window::new(&mut statement, None, query.direction, after, query.limit);
    let select = format!("{}{hint}", Payment::TABLE.texts.select);
    statement.text = window.close(&select, conditions).into();
    statement
}

/// Selects the payments that are due. The column that has [`Payment::action_at`] depends on the status. `None` for
/// statuses in which no payment is ever due.
fn due_payments(query: &DuePayments) -> Option<List> {
    let column = match query.status {
        PaymentStatus::Pending | PaymentStatus::Processing => "due_at",
        PaymentStatus::Failed => "next_attempt_at",
        PaymentStatus::Succeeded
        | PaymentStatus::Canceled
        | PaymentStatus::PartiallyRefunded
        | PaymentStatus::Refunded
        | PaymentStatus::Disputed => return None,
    };
    // The status is a literal in the text, not a bound value: only then can the planner use the partial index, whose
    // condition has the same literal.
    let conditions = vec![format!("status = '{}'", query.status)];
    let DuePayments { until, after, limit, .. } = query;
    Some(due::<Payment>(conditions, column, *until, after.as_ref(), *limit))
}

/// The records that meet the conditions and whose time in `column` is `until` or before, the longest due first.
fn due<T: SqlRecord>(
    mut conditions: Vec<String>,
    column: &'static str,
    until: Timestamp,
    after: Option<&Position>,
    limit: PageLimit,
) -> List {
    let mut statement = Statement::default();
    conditions.push(format!("{column} <= {}", statement.bind(Value::time(until))));
    let way = Direction::Ascending;
    let window = Window::new(&mut statement, Some(column), way, after, limit);
    statement.text = window.close(&T::TABLE.texts.select, conditions).into();
    List::page::<T>(statement)
}

fn users(filter: &UserFilter, after: Option<&Position>, limit: PageLimit) -> Option<Statement> {
    let mut statement = Statement::default();
    let mut conditions = vec!["NOT closing".to_owned()];
    let select = &User::TABLE.texts.select;
    match filter {
        UserFilter::All => {}
        UserFilter::Email(email) => {
            let key = statement.bind(Value::text(email.key()));
            conditions.push(format!("email_key = {key}"));
        }
        UserFilter::Ids(ids) if ids.is_empty() => return None,
        UserFilter::Ids(ids) => {
            statement.is_one_of_many = true;
            let ids: Vec<_> = ids.iter().map(|id| statement.bind(Value::Id(id.uuid()))).collect();
            conditions.push(format!("id IN ({})", ids.join(", ")));
        }
        UserFilter::EmailPrefix(prefix) => {
            // The condition has only one lower bound: with two (the prefix and the position), SQLite might begin to
            // read at either of them. Keys are unique, so the list need not be sorted by id too, and the index on
            // PostgreSQL does not have the id.
            let from = after.and_then(|position| sort_value(&position.key));
            let beyond = if from.is_some() { ">" } else { ">=" };
            let from = statement.bind(from.unwrap_or_else(|| Value::text(prefix.as_str())));
            let end = statement.bind(Value::text(prefix.end()));
            let most = statement.bind(Value::count(limit.get() as u64 + 1));
            statement.text = format!(
                "{select} WHERE email_key {beyond} {from} AND email_key < {end} AND NOT closing \
                 ORDER BY email_key LIMIT {most}"
            )
            .into();
            return Some(statement);
        }
    }
    let window = Window::new(&mut statement, None, filter.direction(), after, limit);
    statement.text = window.close(select, conditions).into();
    Some(statement)
}

/// Selects a page of documents. A filtered list names its index in a hint: SQLite has no statistics about this table,
/// so it assumes that a collection has few documents, and might read all of them.
fn documents<D: Dialect>(query: &DocumentQuery) -> Statement {
    let mut statement = Statement::default();
    let collection = statement.bind(Value::text(query.collection.as_str()));
    let mut conditions = vec![format!("collection = {collection}")];
    let mut column = None;
    let mut hint = String::new();
    match &query.filter {
        DocumentFilter::All => {}
        DocumentFilter::Owner(owner) => {
            hint = D::hint("documents_of_owner");
            conditions.push(format!("owner = {}", statement.bind(Value::Id(*owner))));
        }
        DocumentFilter::Label(label) => {
            hint = D::hint("documents_with_label");
            conditions.push(format!("label = {}", statement.bind(Value::text(label))));
        }
        DocumentFilter::DueBy(by) => {
            conditions.push(format!("due_at <= {}", statement.bind(Value::time(*by))));
            column = Some("due_at");
            hint = D::hint("documents_due");
        }
    }
    let after = query.after.as_ref();
    let way = Direction::Ascending;
    let window = Window::new(&mut statement, column, way, after, query.limit);
    let select = format!("{}{hint}", Document::TABLE.texts.select);
    statement.text = window.close(&select, conditions).into();
    statement
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use std::collections::HashSet;

    use super::super::postgres::Postgres;
    use super::*;
    use crate::store::{SubscriptionFilter, SubscriptionOrder, SubscriptionQuery};
    use crate::subscriptions::SubscriptionStatus;
    use crate::values::{SystemRandomness, UserId};

    /// Whoever can read lists chooses their limits, orders and filters.
    #[test]
    fn few_texts_of_lists_are_kept_whatever_callers_ask_for() {
        let now = Timestamp::MIN;
        let user = UserId::new(now, &SystemRandomness).unwrap();
        let statuses: Vec<_> = SubscriptionStatus::all().collect();
        let mut kept = HashSet::new();
        let mut all = HashSet::new();
        for limit in 1..=200 {
            let limit = PageLimit::new(limit).unwrap();
            let mut ask = |query: Query| {
                let statement = list::<Postgres>(&query).unwrap().statement;
                if !statement.is_one_of_many {
                    kept.insert(statement.text.clone());
                }
                all.insert(statement.text);
            };
            for direction in [Direction::Ascending, Direction::Descending] {
                for order in [PlanOrder::Tier, PlanOrder::Price, PlanOrder::Name] {
                    let plans = PlanQuery::default().with_limit(limit);
                    ask(Query::Plan(plans.with_order(order).with_direction(direction)));
                }
                let payments = PaymentQuery::all().with_limit(limit);
                ask(Query::Payment(payments.with_direction(direction)));
                for order in [SubscriptionOrder::CreatedAt, SubscriptionOrder::RenewsAt] {
                    for user in [None, Some(user)] {
                        for count in 0..statuses.len() {
                            let filter = SubscriptionFilter {
                                user_id: user,
                                statuses: statuses.iter().copied().take(count).collect(),
                                ..SubscriptionFilter::default()
                            };
                            let query = SubscriptionQuery::default().with_limit(limit);
                            let query = query.with_filter(filter).with_now(now);
                            let query = query.with_order(order).with_direction(direction);
                            ask(Query::Subscription(query));
                        }
                    }
                }
            }
        }

        assert!(kept.len() <= 56, "{} of {}", kept.len(), all.len());
    }
}

//! Keyset pagination: builds the SELECT for a page.

use std::borrow::Cow;

use super::access;
use super::dialect::{Branch, Dialect};
use super::statement::Statement;
use super::table::{SqlRecord, Table};
use super::value::Value;
use crate::store::access_class::{AccessClass, MayContain, classes};
use crate::store::{
    Direction, PageLimit, Position, SortKey, SubscriptionFilter, SubscriptionOrder,
    SubscriptionQuery,
};
use crate::subscriptions::Subscription;

/// The SQL for the start of a page, its order and its limit.
pub(super) struct Window {
    /// The columns after ORDER BY, such as `renews_order DESC, id DESC`.
    order: String,
    /// The condition that the page begins after a position, such as `(renews_order, id) < ($1, $2)`; `None` for the
    /// first page.
    begin: Option<String>,
    /// The next of [`LIMITS`] plus one, because one more row shows that more records follow. The limit is part of the
    /// text: PostgreSQL plans a statement again each time if it does not know how many rows are requested.
    limit: String,
}

/// The limits in texts. They are few, because each text is planned and kept by itself. A page with another limit reads
/// some rows more than it needs.
const LIMITS: [usize; 4] = [1, 50, 100, 200];

impl Window {
    pub(super) fn new(
        statement: &mut Statement,
        column: Option<&'static str>,
        direction: Direction,
        after: Option<&Position>,
        limit: PageLimit,
    ) -> Self {
        let (way, beyond) = match direction {
            Direction::Ascending => ("ASC", ">"),
            Direction::Descending => ("DESC", "<"),
        };
        let begin = after.map(|position| {
            let mut columns = Vec::new();
            let mut values = Vec::new();
            if let (Some(column), Some(value)) = (column, sort_value(&position.key)) {
                columns.push(column);
                values.push(statement.bind(value));
            }
            columns.push("id");
            // The ids of documents are texts.
            let id = if let SortKey::Document { id, .. } = &position.key {
                Value::text(id)
            } else {
                Value::Id(position.id)
            };
            values.push(statement.bind(id));
            format!("({}) {beyond} ({})", columns.join(", "), values.join(", "))
        });
        let order = match column {
            Some(column) => format!("{column} {way}, id {way}"),
            None => format!("id {way}"),
        };
        let limit = LIMITS.into_iter().find(|it| *it >= limit.get()).unwrap_or(limit.get());
        let limit = (limit + 1).to_string();
        Self { order, begin, limit }
    }

    pub(super) fn close(&self, select: &str, conditions: Vec<String>) -> String {
        self.close_branch(select, self.branch(conditions))
    }

    fn branch(&self, conditions: Vec<String>) -> Branch {
        Branch { conditions, limit: self.limit.clone(), hint: String::new() }
    }

    fn close_branch(&self, select: &str, branch: Branch) -> String {
        let mut conditions = branch.conditions;
        conditions.extend(self.begin.clone());
        let conditions = match conditions.join(" AND ") {
            none if none.is_empty() => none,
            some => format!(" WHERE {some}"),
        };
        let hint = branch.hint;
        let order = &self.order;
        let limit = branch.limit;
        format!("{select}{hint}{conditions} ORDER BY {order} LIMIT {limit}")
    }
}

/// The value that a position is compared by before its id; `None` if it is compared by the id alone.
pub(super) fn sort_value(key: &SortKey) -> Option<Value> {
    match key {
        SortKey::CreatedAt => None,
        SortKey::Tier(tier) => Some(Value::count(tier.get())),
        SortKey::Price(price) => Some(Value::PriceOrder(*price)),
        SortKey::Name(name) => Some(Value::text(name)),
        SortKey::RenewsAt(renews_at) => Some(Value::TimeOrder(Some(*renews_at))),
        SortKey::NeverRenews => Some(Value::TimeOrder(None)),
        SortKey::Email(key) => Some(Value::text(key.as_str())),
        SortKey::DueAt(at) => Some(Value::time(*at)),
        SortKey::Document { due_at, .. } => due_at.map(Value::time),
    }
}

/// Selects a page of subscriptions; `None` if the page is certainly empty.
pub(super) fn subscriptions<D: Dialect>(query: &SubscriptionQuery) -> Option<Statement> {
    let mut statement = Statement::default();
    let filter = &query.filter;
    let classes: Vec<_> = classes(filter).collect();
    let index = index_of_few(filter);
    if classes.is_empty() {
        return None;
    }
    // The time is bound only if the text has a placeholder for it: otherwise PostgreSQL refuses the value.
    let is_timed = index.is_some() || classes.iter().any(|(class, _)| class.phase().is_some());
    let now = match filter.is_active {
        Some(_) if is_timed => statement.bind(Value::time(query.now)),
        Some(_) | None => String::new(),
    };
    let mut conditions = Vec::new();
    let mut condition = |column: &str, value: Option<Value>| {
        if let Some(value) = value {
            conditions.push(format!("{column} {}", statement.bind(value)));
        }
    };
    condition("subscription_plan_id =", filter.subscription_plan_id.map(|id| Value::Id(id.uuid())));
    condition("user_id =", filter.user_id.map(|id| Value::Id(id.uuid())));
    condition(
        "external_subscription_id =",
        filter.external_subscription_id.as_ref().map(Value::text),
    );
    let span = Span::of(query);
    condition("renews_order >=", span.from.as_ref().and_then(sort_value));
    condition("renews_order <", span.to.as_ref().and_then(sort_value));
    let column = match query.order {
        SubscriptionOrder::CreatedAt => None,
        SubscriptionOrder::RenewsAt => Some("renews_order"),
    };
    let window = Window::new(&mut statement, column, query.direction, span.after, query.limit);
    let select = select_with(Subscription::TABLE, column);
    let renews_in_time = filter.renews_before.is_some() || filter.renews_after.is_some();
    // A list in the order of creation that has none of these filters reads the primary key. In the indexes for other
    // lists, the access class comes before the columns of the order. So those lists read one access class after the
    // other.
    let is_by_class = filter.is_active.is_some()
        || !filter.statuses.is_empty()
        || filter.subscription_plan_id.is_some()
        || column.is_some()
        || renews_in_time;
    if !is_by_class || index.is_some() {
        conditions.extend(access::row_by_row(filter, &now));
        let hint = index.map_or_else(String::new, D::hint);
        let branch = Branch { hint, ..window.branch(conditions) };
        statement.text = window.close_branch(&select, branch).into();
        // Each set of statuses is a text of its own.
        statement.is_one_of_many = !filter.statuses.is_empty();
        return Some(statement);
    }
    let branch = |(nth, (class, may_contain)): (usize, &(AccessClass, MayContain))| {
        let mut branch = window.branch(conditions.clone());
        branch.conditions.push(access::in_class(*class, filter.is_active, &now));
        let mut there_is: Vec<_> = access::may_contain(*may_contain, &now).into_iter().collect();
        if column.is_none() && renews_in_time {
            there_is.push(any_renewal(&branch.conditions));
        }
        D::skip_unless(&mut branch, &there_is);
        let page = window.close_branch(&select, branch);
        format!("SELECT * FROM ({page}) AS class_{nth}")
    };
    let branches: Vec<_> = classes.iter().enumerate().map(branch).collect();
    let all = branches.join(" UNION ALL ");
    statement.text = format!("{all} ORDER BY {} LIMIT {}", window.order, window.limit).into();
    statement.is_one_of_many = true;
    Some(statement)
}

/// The index that finds the subscriptions of one user or of one external id; `None` if the filter names neither. There
/// are few such subscriptions, so no further index is needed to filter or to sort them.
const fn index_of_few(filter: &SubscriptionFilter) -> Option<&'static str> {
    if filter.external_subscription_id.is_some() {
        Some("subscriptions_external_id")
    } else if filter.user_id.is_some() {
        Some("subscriptions_of_user")
    } else {
        None
    }
}

/// An SQL condition that is true if at least one subscription meets `conditions`, which include a span of renewal
/// times. Without this test, a list in the order of creation would read a whole access class even if none of its
/// subscriptions meets `conditions`.
fn any_renewal(conditions: &[String]) -> String {
    let conditions = conditions.join(" AND ");
    format!("(SELECT min(renews_order) FROM subscriptions WHERE {conditions}) IS NOT NULL")
}

/// The renewal times of a list, from `from` (included) to `to` (excluded), and the position after which a page begins.
///
/// If the filter and the position limit the same end of the span, only the narrower limit is kept. With both limits,
/// SQLite might begin to read at the wider one.
struct Span<'q> {
    from: Option<SortKey>,
    to: Option<SortKey>,
    after: Option<&'q Position>,
}

impl<'q> Span<'q> {
    fn of(query: &'q SubscriptionQuery) -> Self {
        let filter = &query.filter;
        // A filter by `renews_after` excludes subscriptions that never renew.
        let never = filter.renews_after.map(|_| SortKey::NeverRenews);
        let mut span = Self {
            from: filter.renews_after.map(SortKey::RenewsAt),
            to: filter.renews_before.map(SortKey::RenewsAt).or(never),
            after: query.after.as_ref(),
        };
        let Some(Position { key, .. }) = span.after else { return span };
        if query.order != SubscriptionOrder::RenewsAt {
            return span;
        }
        match query.direction {
            Direction::Ascending if span.from.as_ref().is_some_and(|from| key < from) => {
                span.after = None;
            }
            Direction::Ascending => span.from = None,
            Direction::Descending if span.to.as_ref().is_some_and(|to| key >= to) => {
                span.after = None;
            }
            Direction::Descending => span.to = None,
        }
        span
    }
}

/// Selects the columns of a table, followed by the column that the list is sorted by.
fn select_with(table: &'static Table, column: Option<&str>) -> Cow<'static, str> {
    let Some(column) = column else { return table.texts.select.as_str().into() };
    format!("SELECT {}, {column} FROM {}", table.texts.read, table.name).into()
}

//! The lists of a store with a fault: all records, sorted and cut by hand.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use subscription_core::store::{
    Direction, IdempotencyQuery, Kind, Page, PageLimit, PaymentQuery, PlanQuery, Position, Query,
    Record, SessionQuery, SortKey, StoreError, StoreExt as _, SubscriptionQuery,
};
use subscription_core::{Payment, PaymentStatus, Plan, Store, Subscription, Timestamp};

use super::users::users;
use super::{Fault, FaultyStore};

/// Which page.
struct Cut {
    direction: Direction,
    after: Option<Position>,
    limit: PageLimit,
}

/// True if the fault is in how a page is sorted and cut, for which all records are needed.
fn sorts_or_cuts(fault: Option<Fault>) -> bool {
    use Fault::{
        BreaksTiesUpwardsAlways, CountsInsteadOfSeeking, FindsNeverRenewingInWindows,
        GivesOneTooMany, HidesThatMoreFollow, MixesPaymentsOfAllSubscriptions,
        NamesThePositionAtTheEnd, NeedsTheRecordOfThePosition, RepeatsThePosition,
        SkipsOneAfterThePosition, SortsBackwards, SortsByTheFirstVersion, SortsNamesWithoutCase,
        SortsNeverRenewingFirst, SortsPricesAsText,
    };
    matches!(
        fault,
        Some(
            BreaksTiesUpwardsAlways
                | CountsInsteadOfSeeking
                | FindsNeverRenewingInWindows
                | GivesOneTooMany
                | HidesThatMoreFollow
                | MixesPaymentsOfAllSubscriptions
                | NamesThePositionAtTheEnd
                | NeedsTheRecordOfThePosition
                | RepeatsThePosition
                | SkipsOneAfterThePosition
                | SortsBackwards
                | SortsByTheFirstVersion
                | SortsNamesWithoutCase
                | SortsNeverRenewingFirst
                | SortsPricesAsText
        )
    )
}

/// A list of any kind, as well as the fault allows.
pub(super) async fn list(
    store: &FaultyStore,
    mut query: Query,
) -> Result<Page<Record>, StoreError> {
    let earlier = |at: Timestamp| Timestamp::from_micros(at.micros() - 1).unwrap_or(Timestamp::MIN);
    match (&mut query, store.fault) {
        (Query::Plan(query), _) => return plans(store, query.clone()).await.map(records),
        (Query::Subscription(query), _) => {
            return subscriptions(store, query.clone()).await.map(records);
        }
        (Query::Payment(query), _) => return payments(store, query.clone()).await.map(records),
        (Query::User(query), _) => return users(store, query.clone()).await.map(records),
        (Query::DueSubscriptions(query), Some(Fault::ListsTheDueTooLate)) => {
            query.until = earlier(query.until);
        }
        (Query::DuePayments(query), Some(Fault::ListsTheDueTooLate)) => {
            query.until = earlier(query.until);
        }
        (Query::DuePayments(query), Some(Fault::ListsDuePaymentsOfEveryStatus)) => {
            query.status = PaymentStatus::Pending;
        }
        (Query::Session(SessionQuery::EndedOf { skip, .. }), Some(Fault::SkipsNoEndedSessions)) => {
            *skip = 0;
        }
        (
            Query::Session(SessionQuery::Ended { by, .. }),
            Some(Fault::ListsEndedSessionsTooLate),
        )
        | (
            Query::Idempotency(IdempotencyQuery::Expired { by, .. }),
            Some(Fault::ListsAnswersTooLate),
        ) => *by = earlier(*by),
        (
            Query::Idempotency(IdempotencyQuery::Expired { by, .. }),
            Some(Fault::ListsUnexpiredAnswers),
        ) => *by = Timestamp::MAX,
        _ => {}
    }
    let mut page = store.inner.list(&query).await?;
    match (&query, store.fault) {
        (
            Query::Session(SessionQuery::LiveOf { user, now }),
            Some(fault @ (Fault::ListsSessionsOldestFirst | Fault::ListsEndedSessionsAsLive)),
        ) => {
            if fault == Fault::ListsSessionsOldestFirst {
                page.items.reverse();
            } else {
                let limit = PageLimit::MAX;
                let ended = SessionQuery::EndedOf { user: *user, now: *now, skip: 0, limit };
                page.items.extend(store.inner.list(&Query::Session(ended)).await?.items);
            }
        }
        (Query::Client(_), Some(Fault::HidesShutOutClients)) => page.items.retain(
            |found| !matches!(found, Record::Client(client) if client.revoked_at.is_some()),
        ),
        (
            Query::Idempotency(IdempotencyQuery::Expired { by, limit }),
            Some(Fault::ListsExpiredAnswersBackwards),
        ) => {
            let all = IdempotencyQuery::Expired { by: *by, limit: PageLimit::MAX };
            page.items = store.inner.list(&Query::Idempotency(all)).await?.items;
            page.items.reverse();
            page.items.truncate(limit.get());
        }
        (Query::Document(_), Some(Fault::ListsDocumentsBackwards)) => page.items.reverse(),
        _ => {}
    }
    Ok(page)
}

fn records<K: Kind>(page: Page<Arc<K>>) -> Page<Record> {
    Page::new(page.items.into_iter().map(K::into_record).collect(), page.next)
}

async fn plans(store: &FaultyStore, mut query: PlanQuery) -> Result<Page<Arc<Plan>>, StoreError> {
    match store.fault {
        Some(Fault::IgnoresTheProductFilter) => query.filter.product_id = None,
        Some(Fault::IgnoresTheSecondOfTwoFilters) if query.filter.is_active.is_some() => {
            query.filter.tier = None;
        }
        fault if sorts_or_cuts(fault) => {
            let rest = query.clone();
            let cut =
                Cut { direction: query.direction, after: query.after.take(), limit: query.limit };
            let mut all = Vec::new();
            query.limit = PageLimit::MAX;
            loop {
                let page = store.inner.list_as::<Plan>(query.clone()).await?;
                all.extend(page.items);
                query.after = page.next;
                if query.after.is_none() {
                    break;
                }
            }
            return Ok(page(store, all, cut, |plan| {
                match store.memory().firsts.get(&plan.id.uuid()) {
                    Some(Record::Plan(first)) if store.has(Fault::SortsByTheFirstVersion) => {
                        rest.order.position(first)
                    }
                    _ => rest.order.position(plan),
                }
            }));
        }
        _ => {}
    }
    store.inner.list_as::<Plan>(query.clone()).await
}

async fn subscriptions(
    store: &FaultyStore,
    mut query: SubscriptionQuery,
) -> Result<Page<Arc<Subscription>>, StoreError> {
    let later = |at: Timestamp| Timestamp::from_micros(at.micros() + 1).unwrap_or(at);
    let filter = &mut query.filter;
    match store.fault {
        Some(Fault::IgnoresTheSecondOfTwoFilters) if filter.user_id.is_some() => {
            filter.statuses.clear();
        }
        Some(Fault::IgnoresTheTimeOfTheQuestion) => query.now = Timestamp::MIN,
        Some(Fault::TakesRenewsBeforeAsInclusive) => {
            filter.renews_before = filter.renews_before.map(later);
        }
        Some(Fault::TakesRenewsAfterAsExclusive) => {
            filter.renews_after = filter.renews_after.map(later);
        }
        fault if sorts_or_cuts(fault) => {
            let asked = query.clone();
            let cut =
                Cut { direction: query.direction, after: query.after.take(), limit: query.limit };
            if store.has(Fault::FindsNeverRenewingInWindows) {
                (query.filter.renews_before, query.filter.renews_after) = (None, None);
            }
            query.limit = PageLimit::MAX;
            let mut all = store.inner.list_as::<Subscription>(query.clone()).await?.items;
            all.retain(|found| found.renews_at.is_none() || asked.filter.admits(found, asked.now));
            return Ok(page(store, all, cut, |found| {
                match store.memory().firsts.get(&found.id.uuid()) {
                    Some(Record::Subscription(first))
                        if store.has(Fault::SortsByTheFirstVersion) =>
                    {
                        asked.order.position(first)
                    }
                    _ => asked.order.position(found),
                }
            }));
        }
        _ => {}
    }
    store.inner.list_as::<Subscription>(query.clone()).await
}

async fn payments(
    store: &FaultyStore,
    mut query: PaymentQuery,
) -> Result<Page<Arc<Payment>>, StoreError> {
    if store.has(Fault::HidesPaymentsOfDeletedSubscriptions) && query.subscription_id.is_none() {
        let mut page = store.inner.list_as::<Payment>(query).await?;
        let paid_for = page.items.iter().map(|payment| payment.subscription_id);
        let mut held = HashSet::new();
        for id in paid_for.collect::<HashSet<_>>() {
            held.extend(store.inner.get_as::<Subscription>(&id).await?.map(|held| held.id));
        }
        page.items.retain(|payment| held.contains(&payment.subscription_id));
        return Ok(page);
    }
    if !sorts_or_cuts(store.fault) {
        return store.inner.list_as::<Payment>(query.clone()).await;
    }
    let cut = Cut { direction: query.direction, after: query.after.take(), limit: query.limit };
    query.limit = PageLimit::MAX;
    let mut all = store.inner.list_as::<Payment>(query.clone()).await?.items;
    if store.has(Fault::MixesPaymentsOfAllSubscriptions)
        && let Some(of) = query.subscription_id
    {
        let mut subscriptions = store.memory().subscriptions.clone();
        subscriptions.remove(&of);
        for subscription_id in subscriptions {
            query.subscription_id = Some(subscription_id);
            all.extend(store.inner.list_as::<Payment>(query.clone()).await?.items);
        }
    }
    Ok(page(store, all, cut, |payment| PaymentQuery::position(payment)))
}

/// Sorts records and cuts a page out of them, as well as the fault allows.
fn page<T>(
    store: &FaultyStore,
    mut all: Vec<T>,
    Cut { direction, after, limit }: Cut,
    position: impl Fn(&T) -> Position,
) -> Page<T> {
    all.sort_by(|a, b| compare(store, direction, &position(a), &position(b)));
    let is_behind =
        |item: &T, after: &Position| match compare(store, direction, &position(item), after) {
            Ordering::Less => false,
            Ordering::Equal => store.has(Fault::RepeatsThePosition),
            Ordering::Greater => true,
        };
    let mut skipped = match &after {
        None => 0,
        Some(after) => all.iter().position(|item| is_behind(item, after)).unwrap_or(all.len()),
    };
    if let Some(after) = &after {
        let exists = all.iter().any(|item| position(item).id == after.id);
        match store.fault {
            Some(Fault::SkipsOneAfterThePosition) => skipped = (skipped + 1).min(all.len()),
            Some(Fault::NeedsTheRecordOfThePosition) if !exists => skipped = 0,
            Some(Fault::CountsInsteadOfSeeking) => {
                let counted = store.memory().places.get(&after.id).copied();
                skipped = counted.unwrap_or(skipped).min(all.len());
            }
            _ => {}
        }
    }
    let mut items = all.split_off(skipped);
    let one_more = usize::from(store.has(Fault::GivesOneTooMany));
    let more_follow = items.len() > limit.get() + one_more;
    items.truncate(limit.get() + one_more);
    let names_end = match store.fault {
        Some(Fault::NamesThePositionAtTheEnd) => items.len() == limit.get(),
        Some(Fault::HidesThatMoreFollow) => more_follow && after.is_none(),
        _ => more_follow,
    };
    let next = items.last().map(position).filter(|_| names_end);
    if let Some(next) = &next {
        store.memory().places.insert(next.id, skipped + items.len());
    }
    Page::new(items, next)
}

fn compare(store: &FaultyStore, direction: Direction, a: &Position, b: &Position) -> Ordering {
    let by_key = match (store.fault, &a.key, &b.key) {
        (Some(Fault::SortsPricesAsText), SortKey::Price(a), SortKey::Price(b)) => {
            a.to_string().cmp(&b.to_string())
        }
        (Some(Fault::SortsNamesWithoutCase), SortKey::Name(a), SortKey::Name(b)) => {
            a.as_str().to_lowercase().cmp(&b.as_str().to_lowercase())
        }
        (Some(Fault::SortsNeverRenewingFirst), a, b) => {
            let renews = |key: &SortKey| *key != SortKey::NeverRenews;
            renews(a).cmp(&renews(b)).then(a.cmp(b))
        }
        (_, a, b) => a.cmp(b),
    };
    let by_id = a.id.cmp(&b.id);
    let backwards = (direction == Direction::Descending) != store.has(Fault::SortsBackwards);
    match (backwards, store.has(Fault::BreaksTiesUpwardsAlways)) {
        (false, _) => by_key.then(by_id),
        (true, false) => by_key.then(by_id).reverse(),
        (true, true) => by_key.reverse().then(by_id),
    }
}

//! Pages of due subscriptions, with the step of each subscription and the commits of the steps. While one page is
//! committed, the next page is read and committed too.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::try_unfold;

use super::advanced::Advanced;
use crate::error::Error;
use crate::events::Change;
use crate::service::{StepKind, SubscriptionService};
use crate::store::{
    ChangeSet, DueSubscriptions, Page, PageLimit, Position, StoreError, StoreExt as _, Unique,
};
use crate::subscriptions::Subscription;
use crate::values::Timestamp;

/// Subscriptions that are due, and the change sets of their steps.
pub(super) struct DuePage {
    /// The position of the last subscription of the page.
    last: Position,
    /// True if more subscriptions are due after the last one.
    more: bool,
    now: Timestamp,
    sets: Vec<ChangeSet>,
    /// The step that belongs to each change set.
    steps: Vec<DueStep>,
    /// Why steps could not be decided on.
    failures: Vec<Error>,
}

/// A subscription before its step, the kind of step, and the change that the event of the step reports.
type DueStep = (Arc<Subscription>, StepKind, Change);

impl DuePage {
    /// Reads up to `limit` due subscriptions after a position, and decides on the step of each; `None` if none is due,
    /// or if `limit` is 0.
    async fn read(
        clock: &SubscriptionService,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Option<Self>, Error> {
        if limit == 0 {
            return Ok(None);
        }
        let now = clock.now();
        let size = PageLimit::new(limit).unwrap_or(PageLimit::MAX);
        let query = DueSubscriptions::until(now).with_after(after).with_limit(size);
        let Page { items, next, damaged: _ } = clock.store().due_subscriptions(query).await?;
        let last = items.last().and_then(|last| DueSubscriptions::position(last));
        let Some(last) = last else { return Ok(None) };
        let mut sets = Vec::with_capacity(items.len());
        let mut steps = Vec::with_capacity(items.len());
        let mut failures = Vec::new();
        for subscription in items {
            let Some(step) = clock.rules().step(&subscription, now) else { continue };
            let kind = step.kind;
            let change = step.outcome.change.clone();
            match clock.step_set(&subscription, step.outcome, now).await {
                Ok(set) => sets.push(set),
                Err(error) => {
                    failures.push(error);
                    continue;
                }
            }
            steps.push((subscription, kind, change));
        }
        Ok(Some(Self { last, more: next.is_some(), now, sets, steps, failures }))
    }

    /// Commits the steps of subscriptions after a position, page by page, and counts them, up to `limit`. Returns the
    /// position of the last subscription; `None` if none is due.
    ///
    /// Two pages are committed at the same time, and the next page is read as soon as one commit has ended. A page
    /// that is read during a commit does not contain the subscriptions of that commit, or contains their new
    /// versions.
    pub(super) async fn commit_all(
        clock: &SubscriptionService,
        after: Option<Position>,
        limit: usize,
        advanced: &mut Advanced,
    ) -> Result<Option<Position>, Error> {
        let pages = try_unfold((after, limit), |(after, limit)| async move {
            let page = Self::read(clock, after, limit).await?;
            Ok::<_, Error>(page.map(|page| {
                let left = if page.more { limit.saturating_sub(page.sets.len()) } else { 0 };
                let end = (Some(page.last.clone()), left);
                (page, end)
            }))
        });
        let commits = pages.map(|page| async {
            let mut page = page?;
            let sets = std::mem::take(&mut page.sets);
            Ok::<_, Error>((clock.store().commit_each(sets).await, page))
        });
        // The stream is boxed: otherwise the future that reads a page would be part of the caller's future, and make it
        // larger.
        let mut commits = commits.buffered(2).boxed();
        let mut last = None;
        while let Some(committed) = commits.next().await {
            let (results, page) = committed?;
            last = Some(page.last.clone());
            page.count(results, clock, advanced).await?;
        }
        Ok(last)
    }

    /// Counts the steps by the results of their commits.
    async fn count(
        self,
        results: Vec<Result<(), StoreError>>,
        clock: &SubscriptionService,
        advanced: &mut Advanced,
    ) -> Result<(), Error> {
        let is_reached = advanced.is_reached(&results);
        for failure in self.failures {
            advanced.lost(failure, is_reached)?;
        }
        for (result, (subscription, kind, change)) in results.into_iter().zip(self.steps) {
            let result = match result {
                // After this step was decided on, another commit has written a payment for the same period, or another
                // subscription with the same `live_key`, which only one subscription can have. So the step is decided
                // on again.
                Err(StoreError::Taken(Unique::PaymentPeriod | Unique::LiveSubscription)) => {
                    let Some(step) = clock.rules().step(&subscription, self.now) else { continue };
                    clock.commit_step(&subscription, step.outcome, self.now).await.map(drop)
                }
                result => result.map_err(Error::Store),
            };
            match result {
                Ok(()) => advanced.took(kind, &change),
                Err(error) => advanced.lost(error, is_reached)?,
            }
        }
        Ok(())
    }
}

//! Pages of due subscriptions: the step of each, and their commits. While a page is committed, the next one is read
//! and committed too.

use std::sync::Arc;

use futures_util::future::join;

use super::runner::Advanced;
use crate::error::Error;
use crate::events::Change;
use crate::service::{StepKind, SubscriptionService};
use crate::store::{
    ChangeSet, DueSubscriptions, Page, PageLimit, Position, StoreError, StoreExt as _, Unique,
};
use crate::subscriptions::Subscription;
use crate::values::clock::Timestamp;

/// Subscriptions that are due, and the change sets of their steps.
pub(super) struct DuePage {
    /// The position of the last subscription.
    last: Position,
    /// True if more subscriptions are due after it.
    more: bool,
    now: Timestamp,
    sets: Vec<ChangeSet>,
    /// The step of each set.
    steps: Vec<DueStep>,
}

/// A subscription before its step, the kind of step and its change.
type DueStep = (Arc<Subscription>, StepKind, Change);

impl DuePage {
    /// Reads up to `limit` subscriptions after a position, and decides on the step of each; `None` if none is due.
    pub(super) async fn read(
        clock: &SubscriptionService,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Option<Self>, Error> {
        if limit == 0 {
            return Ok(None);
        }
        let (now, size) = (clock.now(), PageLimit::new(limit).unwrap_or(PageLimit::MAX));
        let query = DueSubscriptions::until(now).with_after(after).with_limit(size);
        let Page { items, next } = clock.store().due_subscriptions(query).await?;
        let last = items.last().and_then(|last| DueSubscriptions::position(last));
        let Some(last) = last else { return Ok(None) };
        let (mut sets, mut steps) =
            (Vec::with_capacity(items.len()), Vec::with_capacity(items.len()));
        for subscription in items {
            let Some(step) = clock.rules().step(&subscription, now) else { continue };
            steps.push((subscription, step.kind, step.outcome.change.clone()));
            sets.push(clock.step_set(step.outcome, now).await?);
        }
        Ok(Some(Self { last, more: next.is_some(), now, sets, steps }))
    }

    /// Commits the steps of this page and of the one after it, and counts them, up to `limit`. Returns the position
    /// of the last subscription, and the page after that.
    ///
    /// Both commits run at the same time, and so do the reads: a subscription that takes a step is not in a page
    /// that is read meanwhile, or has its new version there.
    pub(super) async fn commit_two(
        self,
        clock: &SubscriptionService,
        limit: usize,
        advanced: &mut Advanced,
    ) -> Result<(Position, Option<Self>), Error> {
        let (last, left) = self.end(limit);
        // In boxes: the future of a caller would be as large as all of these.
        let following = Box::pin(Self::read(clock, Some(last.clone()), left));
        let second = Box::pin(async {
            let Some(page) = following.await? else { return Ok::<_, Error>(None) };
            let (last, left) = page.end(left);
            let next = Box::pin(Self::read(clock, Some(last.clone()), left));
            Ok(Some((last, join(page.commit(clock), next).await)))
        });
        let (first, second) = join(self.commit(clock), second).await;
        first.count(clock, advanced).await?;
        let Some((last, (second, next))) = second? else { return Ok((last, None)) };
        second.count(clock, advanced).await?;
        Ok((last, next?))
    }

    /// The position of the last subscription, and how many may follow it: none if no more are due.
    fn end(&self, limit: usize) -> (Position, usize) {
        let left = if self.more { limit.saturating_sub(self.sets.len()) } else { 0 };
        (self.last.clone(), left)
    }

    async fn commit(self, clock: &SubscriptionService) -> Committed {
        let results = clock.store().commit_each(self.sets).await;
        Committed { now: self.now, results, steps: self.steps }
    }
}

/// The results of the steps of a page.
struct Committed {
    now: Timestamp,
    results: Vec<Result<(), StoreError>>,
    steps: Vec<DueStep>,
}

impl Committed {
    async fn count(
        self,
        clock: &SubscriptionService,
        advanced: &mut Advanced,
    ) -> Result<(), Error> {
        for (result, (subscription, kind, change)) in self.results.into_iter().zip(self.steps) {
            let result = match result {
                // A step decided on before an earlier one of this page took the live key is decided on again.
                Err(StoreError::Taken(Unique::PaymentPeriod | Unique::LiveSubscription)) => {
                    let Some(step) = clock.rules().step(&subscription, self.now) else { continue };
                    clock.commit_step(step.outcome, self.now).await.map(drop)
                }
                result => result.map_err(Error::Store),
            };
            match result {
                Ok(()) => advanced.took(kind, &change),
                Err(error) => advanced.lost(error)?,
            }
        }
        Ok(())
    }
}

//! Sending events again: from an earlier or later position in the feed, or from the parked events.

use std::collections::BTreeSet;
use std::time::Duration;

use super::input::{Resend, Rewind};
use super::shown::ShownEndpoint;
use super::{delete, expect_kept};
use crate::error::{Conflict, Error};
use crate::events::Subject;
use crate::store::{Document, EventPage, EventQuery, PageLimit, Stored};
use crate::values::Timestamp;
use crate::webhooks::{Endpoint, EndpointId, PARKED_MAX, Parked, ParkedState, Webhooks};

/// How far the times of two events may be in another order than their sequences. Events are numbered after their
/// commits, and the clocks of two instances that write differ by at most a minute.
const DISORDER_MAX: Duration = Duration::from_mins(1);

impl Webhooks {
    /// Moves the cursor of an endpoint backwards or forwards. Parked events after the new cursor are no longer parked,
    /// and are sent in the order of the feed. Fails with [`Error::EventsForgotten`] if events after the new cursor
    /// were deleted.
    pub async fn rewind(&self, id: EndpointId, rewind: Rewind) -> Result<ShownEndpoint, Error> {
        let feed = self.feed().await?;
        let cursor = match rewind {
            Rewind::To(sequence) => expect_kept(&feed, sequence, "to")?,
            Rewind::Since(moment) => self.last_before(moment, &feed).await?,
        };
        let attempt = || async {
            let mut loaded = self.load(id).await?;
            self.expect_scopes(&loaded.endpoint.body.types)?;
            loaded.delivery.body.cursor = cursor;
            let mut deletes = Vec::new();
            for parked in self.parked_of(id).await? {
                let sequence = parked.body.event.sequence;
                if sequence > cursor {
                    deletes.push(delete(Parked::key(id, sequence)?, parked.version));
                }
            }
            self.write_loaded(&mut loaded, false, Vec::new(), deletes).await?;
            self.show(loaded).await
        };
        self.service.retrying_on(&Endpoint::key(id)?, attempt).await
    }

    /// The sequence before the first event that happened at `moment` or later. The times of events rise along the feed,
    /// but only to within [`DISORDER_MAX`]. So a binary search finds a place before which no event happened at `moment`
    /// or later, and from there the events are read one after the other.
    async fn last_before(&self, moment: Timestamp, feed: &EventPage) -> Result<u64, Error> {
        let EventPage { first_kept, last, .. } = *feed;
        let start = first_kept.saturating_sub(1);
        let earlier = moment.saturating_sub(DISORDER_MAX);
        let mut low = start;
        let mut high = last;
        while low < high {
            let middle = low + (high - low) / 2;
            let next = EventQuery::after(middle, PageLimit::default());
            let next = self.service.event_page(&next).await?;
            match next.items.first().filter(|next| next.event.at < earlier) {
                Some(earlier) => low = earlier.sequence.min(high),
                None => high = middle,
            }
        }
        let mut query = EventQuery::after(low, PageLimit::MAX);
        while query.after < last {
            let page = self.service.event_page(&query).await?;
            let before = page.items.iter().take_while(|next| next.event.at < moment);
            let before = before.last().map(|next| next.sequence);
            low = before.unwrap_or(low);
            if before != page.items.last().map(|next| next.sequence) {
                break;
            }
            query.after = page.reached;
        }
        // No stored event happened before `moment`. So events that were deleted may have happened at `moment` or later,
        // and would have to be sent too.
        if low == start && start > 0 {
            return Err(Error::EventsForgotten { first_kept });
        }
        Ok(low)
    }

    /// Makes parked events due now, and allows them the full number of tries again. The events of one record stay in
    /// order: the first one is due, and the later ones wait behind it.
    pub async fn resend(&self, id: EndpointId, resend: Resend) -> Result<ShownEndpoint, Error> {
        let attempt = || async {
            let mut loaded = self.load(id).await?;
            self.expect_scopes(&loaded.endpoint.body.types)?;
            let parked = self.parked_of(id).await?;
            let writes = resent(id, parked, resend, self.now())?;
            self.write_loaded(&mut loaded, false, writes, Vec::new()).await?;
            self.show(loaded).await
        };
        self.service.retrying_on(&Endpoint::key(id)?, attempt).await
    }
}

/// The documents that a resend changes, in the order of the feed. `parked` has all parked events of the endpoint.
fn resent(
    id: EndpointId,
    mut parked: Vec<Stored<Parked>>,
    resend: Resend,
    now: Timestamp,
) -> Result<Vec<Document>, Error> {
    let is_asked = |it: &Stored<Parked>| match resend {
        Resend::One(sequence) => it.body.event.sequence == sequence,
        Resend::All => true,
    };
    if let Resend::One(sequence) = resend
        && !parked.iter().any(is_asked)
    {
        let name = sequence.to_string();
        return Err(Error::NotFound { record: "parked event", name });
    }
    let open = parked.iter().filter(|it| it.body.state != ParkedState::GivenUp).count();
    let mut room = PARKED_MAX.saturating_sub(open);
    let mut records = BTreeSet::new();
    for it in parked.iter_mut().filter(|it| is_asked(it)) {
        if it.body.state == ParkedState::GivenUp {
            if room == 0 {
                continue;
            }
            room -= 1;
            it.body.state = ParkedState::Behind;
        }
        it.body.attempts = 0;
        records.insert(it.body.event.event.subject.clone());
    }
    if records.is_empty() && !parked.is_empty() {
        return Err(Conflict::ParkedFull.into());
    }
    let mut seen: BTreeSet<Subject> = BTreeSet::new();
    let mut writes = Vec::new();
    for mut it in parked {
        let subject = &it.body.event.event.subject;
        if it.body.state == ParkedState::GivenUp || !records.contains(subject) {
            continue;
        }
        let is_first = seen.insert(subject.clone());
        it.body.state = if is_first { ParkedState::Waiting } else { ParkedState::Behind };
        writes.push(it.body.document(id, it.version, is_first.then_some(now))?);
    }
    Ok(writes)
}

//! The progress of the syncs of a source: one document, which also has the time of the last event.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::report::{Run, SyncKind, SyncReport};
use crate::error::Error;
use crate::providers::Providers;
use crate::providers::inbox::documents::progress_key;
use crate::store::{Document, StoreError, Stored};
use crate::values::{Slug, Timestamp, Version};

/// The time of day of the nightly sync (UTC), and the time between two nightly syncs.
const NIGHT: Duration = Duration::from_hours(3);
const DAY: Duration = Duration::from_hours(24);
/// How long a running sync may make no progress before another process continues it.
const SILENT: Duration = Duration::from_mins(10);

/// The progress of the syncs of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// The sync that is running.
    pub(crate) run: Option<Run>,
    /// The last sync that ended.
    pub(crate) last: Option<SyncReport>,
    /// True if a caller requested a sync of all objects.
    #[serde(default)]
    pub(crate) requested: bool,
    pub(crate) last_event_at: Option<Timestamp>,
}

/// The moment of the next nightly sync after `now`.
fn next_night(now: Timestamp) -> Timestamp {
    let day = i64::try_from(DAY.as_micros()).unwrap_or(i64::MAX);
    let midnight = now.saturating_sub(Duration::from_micros((now.micros() % day).unsigned_abs()));
    let tonight = midnight.saturating_add(NIGHT);
    if tonight > now { tonight } else { tonight.saturating_add(DAY) }
}

impl Providers {
    pub(crate) async fn progress(
        &self,
        source: &Slug,
    ) -> Result<Option<Stored<Progress>>, StoreError> {
        Stored::load(self.store(), &progress_key(source)?).await
    }

    /// Changes the progress of a source.
    pub(crate) async fn change_progress(
        &self,
        source: &Slug,
        change: impl Fn(&mut Progress) + Send + Sync,
    ) -> Result<(), Error> {
        let change = &change;
        self.service
            .retrying(|| async move {
                let stored = self.progress(source).await?;
                let now = self.now();
                let before = stored.as_ref().map_or(Version::NEW, |stored| stored.version);
                let due_before = stored.as_ref().and_then(|stored| stored.due_at);
                let mut progress = stored.map(|stored| stored.body).unwrap_or_default();
                let was = progress.clone();
                change(&mut progress);
                let due_at = match &progress {
                    Progress { run: Some(run), .. } if was.run.as_ref() != Some(run) => {
                        now.saturating_add(SILENT)
                    }
                    Progress { requested: true, .. } if !was.requested => now,
                    Progress { run: None, .. } if was.run.is_some() => next_night(now),
                    _ => due_before.unwrap_or_else(|| next_night(now)),
                };
                let document =
                    Document::with_body(progress_key(source)?, before.next(), &progress)?;
                let label = source.as_str().parse().ok();
                self.write(vec![Document { label, due_at: Some(due_at), ..document }]).await
            })
            .await
    }

    /// Stores when the last event of a source was received.
    pub(crate) async fn note_events(
        &self,
        source: &Slug,
        last: Option<Timestamp>,
    ) -> Result<(), Error> {
        let stored = self.progress(source).await?;
        let noted = stored.and_then(|stored| stored.body.last_event_at);
        if last <= noted {
            return Ok(());
        }
        self.change_progress(source, |progress| {
            progress.last_event_at = progress.last_event_at.max(last);
        })
        .await
    }

    /// Requests a sync of all objects. [`due_sync`](Self::due_sync) then returns this sync, so that the leading process
    /// runs it.
    pub async fn request_sync(&self, source: &Slug) -> Result<(), Error> {
        self.expect(source)?;
        self.change_progress(source, |progress| progress.requested = true).await
    }

    /// A sync that is due now, and the earliest moment at which a sync of any source is due. A sync is due every night,
    /// when a caller has requested it, and when a sync that began has made no progress for ten minutes.
    pub async fn due_sync(&self) -> Result<(Option<(Slug, SyncKind)>, Option<Timestamp>), Error> {
        let now = self.now();
        let mut due: Option<(Slug, SyncKind)> = None;
        let mut times = Vec::new();
        for source in self.sources() {
            let Some(stored) = self.progress(&source.name).await? else {
                self.change_progress(&source.name, |_| ()).await?;
                times.push(next_night(now));
                continue;
            };
            let at = stored.due_at.unwrap_or(now);
            if at <= now {
                let run = stored.body.run.as_ref().map(|run| run.report.kind);
                let kind = if stored.body.requested { Some(SyncKind::All) } else { run };
                due = due.or(Some((source.name.clone(), kind.unwrap_or(SyncKind::Nightly))));
            }
            times.push(at);
        }
        Ok((due, times.into_iter().min()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_night_is_after_the_moment() {
        for (now, night) in [
            ("2026-01-01T00:00:00Z", "2026-01-01T03:00:00Z"),
            ("2026-01-01T03:00:00Z", "2026-01-02T03:00:00Z"),
            ("2026-12-31T23:59:59Z", "2027-01-01T03:00:00Z"),
        ] {
            assert_eq!(next_night(now.parse().unwrap()), night.parse().unwrap());
        }
    }
}

//! Syncs: the objects of a source are read, one page at a time, and compared with our records.

pub(crate) mod progress;
pub(crate) mod report;

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;

use self::report::{Run, SyncKind, SyncStep};
use super::api::api_limits::{Held, ReadOrder};
use super::facade::Account;
use super::follow::observation::{Observation, StoredEvent};
use super::follow::outcome::{EventOutcome, Interrupted};
use super::inbox::documents::{EVENTS, link_uuid};
use super::mapping;
use super::mapping::read::JsonPath;
use crate::error::Error;
use crate::providers::{EventStatus, ObjectKind, ObjectRef, ObservedNow, ProviderKind, Providers};
use crate::store::{DocumentFilter, DocumentQuery, StoreError, Stored};
use crate::values::{ExternalId, Faults, InvalidValue, Slug, locked};

/// The number of objects of a page that are observed at the same time.
const AT_ONCE: usize = 8;
/// If a page cannot be read, the sync tries to read it again after this time.
const UNREADABLE_FOR: Duration = Duration::from_mins(5);

impl Providers {
    /// Compares one page of objects with our records and writes the differences. Call this method until the report has
    /// a `finished_at`; a call after that starts a new sync. The progress is stored, so that a sync continues after a
    /// crash.
    ///
    /// If `kind` is [`SyncKind::Nightly`] and a sync of all objects is running, the call continues the running sync. A
    /// dry run writes nothing; its progress is in the memory of this process.
    pub async fn sync_page(
        &self,
        source: &Slug,
        kind: SyncKind,
        dry_run: bool,
    ) -> Result<SyncStep, Error> {
        let account = self.expect(source)?;
        let now = self.now();
        let stored = if dry_run {
            locked(&account.dry_run).take()
        } else {
            self.progress(source).await?.and_then(|stored| stored.body.run)
        };
        let goes_on = stored.filter(|run| run.report.kind >= kind);
        let mut run = goes_on.unwrap_or_else(|| Run::new(kind, now));
        let name = run.list(account.source.kind).map_or("", |(_, name, _)| name);
        let held = self.sync_list(account, &mut run, dry_run).await?;
        let list_read = run.list_read;
        let list_total = run.list_total;
        if held.is_none() && run.done == 0 && run.after.is_none() {
            run.list += 1;
            run.list_read = 0;
            run.list_total = None;
        }
        let ends = run.list(account.source.kind).is_none();
        run.report.finished_at = ends.then(|| self.now());
        let step = SyncStep {
            report: run.report.clone(),
            list: name,
            list_read,
            list_total,
            next_at: held.map(|held| held.until),
        };
        let left = Some(run).filter(|_| !ends);
        if dry_run {
            *locked(&account.dry_run) = left;
        } else {
            self.change_progress(source, |progress| {
                progress.run.clone_from(&left);
                progress.requested &= step.report.kind != SyncKind::All;
                if ends {
                    progress.last = Some(step.report.clone());
                }
            })
            .await?;
        }
        Ok(step)
    }

    /// Reads a page and observes its objects. `None` if all objects of the page were observed; otherwise the result
    /// says until when the rest must wait.
    async fn sync_list(
        &self,
        account: &Account,
        run: &mut Run,
        dry_run: bool,
    ) -> Result<Option<Held>, Error> {
        let Some((list, _, kind)) = run.list(account.source.kind) else { return Ok(None) };
        let page =
            match account.page(&list, run.after.as_deref(), self.now(), ReadOrder::First).await {
                Ok(page) => page,
                // The provider responded, but the response is not a page. Only this sync waits: other reads from the
                // provider continue.
                Err(Interrupted::Settled(_)) => {
                    let until = self.now().saturating_add(UNREADABLE_FOR);
                    return Ok(Some(Held { until, unavailable: true }));
                }
                Err(interrupted) => return Ok(Some(interrupted.retry(self.now())?)),
            };
        run.list_total = page.total.or(run.list_total);
        let items = page.items.get(run.done..).unwrap_or_default();
        for items in items.chunks(AT_ONCE) {
            let tries = items.iter().map(|item| self.sync_item(account, kind, item, dry_run));
            for result in join_all(tries).await {
                match result {
                    Ok((outcome, drift)) => run.report.counts.add(&outcome, drift),
                    Err(interrupted) => return Ok(Some(interrupted.retry(self.now())?)),
                }
                run.done += 1;
                run.list_read += 1;
            }
        }
        run.after = page.next;
        run.done = 0;
        Ok(None)
    }

    /// Compares one object of a page with our records.
    async fn sync_item(
        &self,
        account: &Account,
        kind: ObjectKind,
        item: &Value,
        dry_run: bool,
    ) -> Result<(EventOutcome, bool), Interrupted> {
        let named = if kind == ObjectKind::PaymentIntent {
            mapping::intent_of(item)
        } else {
            JsonPath::root(item).field("id").id()
        };
        let now = self.now();
        let found = match named {
            Ok(id) => account.resolve(&ObjectRef { kind, id }, now).await,
            Err(unmapped) => Err(unmapped.into()),
        };
        let object = match found {
            Ok((object, _)) => object,
            Err(Interrupted::Settled(outcome)) => return Ok((outcome, false)),
            Err(interrupted) => return Err(interrupted),
        };
        // A page of Stripe shows invoices without their payments, so each invoice must be fetched by itself.
        let is_whole =
            account.source.kind == ProviderKind::LemonSqueezy || kind == ObjectKind::Subscription;
        self.sync_one(account, object, Some(item.clone()).filter(|_| is_whole), dry_run).await
    }

    async fn sync_one(
        &self,
        account: &Account,
        object: ObjectRef,
        shown: Option<Value>,
        dry_run: bool,
    ) -> Result<(EventOutcome, bool), Interrupted> {
        let name = &account.source.name;
        let events = self.events_of(name, &object).await?;
        let has_open = events.iter().any(|event| event.body.status().is_open());
        // The event that an earlier sync has stored for this object, or a new one. The stored event gets the new status.
        // The new event is stored only if the object cannot be applied, or cannot be applied yet.
        let stored_event = self.sync_event(name, object.clone()).await?;
        let mut of = Observation::of(account, object, vec![stored_event]);
        of.shown = shown;
        of.skips_same = true;
        of.dry_run = dry_run;
        let outcome = self.observe(of).await?;
        let changes = outcome.status == EventStatus::APPLIED && !outcome.is_new;
        let drift = changes && !has_open;
        account.count(|counters| counters.drift += u64::from(drift && !dry_run));
        Ok((outcome, drift))
    }

    /// All stored events of an object.
    pub(super) async fn events_of(
        &self,
        source: &Slug,
        object: &ObjectRef,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let filter = DocumentFilter::Owner(link_uuid(source, object));
        Stored::all(self.store(), DocumentQuery::new(EVENTS, filter)).await
    }

    /// Compares one object with our records. `external_id` is the external id of our record, or the id of the object at
    /// the provider.
    pub async fn sync_object(
        &self,
        source: &Slug,
        external_id: &ExternalId,
        dry_run: bool,
    ) -> Result<ObservedNow, Error> {
        let account = self.expect(source)?;
        let object = object_of(account.source.kind, external_id.as_str())
            .map_err(|invalid| Faults::from(invalid.at("object")))?;
        let found = match account.resolve(&object, self.now()).await {
            Ok((object, _)) => self.sync_one(account, object, None, dry_run).await,
            Err(interrupted) => Err(interrupted),
        };
        match found {
            Ok((outcome, _)) | Err(Interrupted::Settled(outcome)) if dry_run => {
                Ok(ObservedNow::EventStatus(outcome.status))
            }
            Ok((outcome, _)) | Err(Interrupted::Settled(outcome)) => self.shown(&outcome).await,
            Err(Interrupted::Store(error)) => Err(error),
            Err(Interrupted::RetryAt(_) | Interrupted::Lost | Interrupted::NeedsFirst(_)) => {
                Ok(ObservedNow::EventStatus(EventStatus::UNAVAILABLE))
            }
        }
    }
}

/// The object that `text` names. `text` is an external id of ours, or an id of the provider.
fn object_of(provider: ProviderKind, text: &str) -> Result<ObjectRef, InvalidValue> {
    let prefixes: &[(&str, ObjectKind)] = match provider {
        ProviderKind::LemonSqueezy => &[
            ("ls_inv_", ObjectKind::Invoice),
            ("ls_ord_", ObjectKind::Order),
            ("ls_", ObjectKind::Subscription),
        ],
        ProviderKind::Stripe => &[
            ("sub_", ObjectKind::Subscription),
            ("in_", ObjectKind::Invoice),
            ("pi_", ObjectKind::PaymentIntent),
            ("cs_", ObjectKind::CheckoutSession),
        ],
    };
    let known = prefixes.iter().find_map(|it| Some((text.strip_prefix(it.0)?, it.1)));
    let message = "must be the external id of a subscription or payment of this provider";
    let (number, kind) = known.ok_or_else(|| InvalidValue::bad_format(message))?;
    // At Stripe the prefix is a part of the provider's id, so it is not removed.
    let id = if provider == ProviderKind::Stripe { text } else { number };
    Ok(ObjectRef { kind, id: id.parse()? })
}

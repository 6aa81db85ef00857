//! Syncs: a walk through all objects of a source, one page at a time.

use std::sync::PoisonError;
use std::time::Duration;

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::documents::{EVENTS, link_uuid};
use super::facade::{Account, Providers};
use super::fetch::Stop;
use super::mapping;
use super::now::ObservedNow;
use super::object::{ObjectId, ObjectKind, ObjectList, ObjectRef, ProviderKind};
use super::observe::{Observation, Observed, Ticket, Verdict};
use super::pace::{Held, Turn};
use super::read::Place;
use super::standing::{EventState, Standing};
use crate::error::Error;
use crate::store::{Document, DocumentFilter, DocumentQuery, PageLimit, StoreExt as _, Stored};
use crate::values::as_text::named_enum;
use crate::values::clock::Timestamp;
use crate::values::faults::{Faults, InvalidValue};
use crate::values::text::{ExternalId, Slug};

named_enum! {
    /// The extent of a sync.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum SyncKind {
        /// All subscriptions, and 90 days of the rest.
        Nightly = "nightly",
        /// All objects.
        All = "all",
    }
}

/// The time before its start from which a nightly sync reads invoices, orders, refunds and disputes.
const NIGHTLY_SPAN: Duration = Duration::from_hours(90 * 24);
/// The number of objects that are observed at once.
const AT_ONCE: usize = 8;

/// The numbers of objects that a sync has met.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SyncCounts {
    /// Objects that made a record.
    pub made: u64,
    /// Objects that changed a record.
    pub changed: u64,
    /// Objects that were the same already.
    pub same: u64,
    /// Objects that wait; each is an event.
    pub waiting: u64,
    /// Objects that concern nothing that is followed.
    pub ignored: u64,
    /// Objects that failed; each is an event.
    pub failed: u64,
    /// Changed objects that had a link and no open event: their webhooks are missing.
    pub drift: u64,
}

impl SyncCounts {
    fn add(&mut self, verdict: &Verdict, drift: bool) {
        let count = match verdict.standing.state {
            EventState::Applied if verdict.is_new => &mut self.made,
            EventState::Applied => &mut self.changed,
            EventState::Same => &mut self.same,
            EventState::Pending | EventState::Waiting => &mut self.waiting,
            EventState::Ignored => &mut self.ignored,
            EventState::Failed => &mut self.failed,
        };
        *count += 1;
        self.drift += u64::from(drift);
    }
}

/// A sync of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SyncReport {
    /// Its extent.
    pub kind: SyncKind,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended; `None` if it is under way.
    pub finished_at: Option<Timestamp>,
    /// The objects so far.
    pub counts: SyncCounts,
}

/// The result of [`Providers::sync_page`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SyncStep {
    /// The sync so far. It has ended if its `finished_at` is set.
    pub report: SyncReport,
    /// The list that was read: `subscriptions`, `invoices`, `orders`, `refunds` or `disputes`.
    pub list: &'static str,
    /// The number of objects of this list so far.
    pub list_read: u64,
    /// The number of objects of this list, if the provider says.
    pub list_total: Option<u64>,
    /// When to go on, if the source's allowance is used up or the provider is out of reach.
    pub next_at: Option<Timestamp>,
}

/// A sync that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) report: SyncReport,
    /// The number of the list.
    list: usize,
    /// The place of the page in the list.
    after: Option<Box<str>>,
    /// The number of objects of the page that are done.
    done: usize,
    list_read: u64,
    list_total: Option<u64>,
}

impl Run {
    fn new(kind: SyncKind, started_at: Timestamp) -> Self {
        let counts = SyncCounts::default();
        let report = SyncReport { kind, started_at, finished_at: None, counts };
        Self { report, list: 0, after: None, done: 0, list_read: 0, list_total: None }
    }

    /// The list that is read, its name, and the type of its objects; `None` if all lists are read.
    fn list(&self, kind: ProviderKind) -> Option<(ObjectList, &'static str, ObjectKind)> {
        let since = match self.report.kind {
            SyncKind::Nightly => self.report.started_at.saturating_sub(NIGHTLY_SPAN),
            SyncKind::All => Timestamp::MIN,
        };
        Some(match (self.list, kind) {
            (0, _) => (ObjectList::Subscriptions, "subscriptions", ObjectKind::Subscription),
            (1, _) => (ObjectList::Invoices(since), "invoices", ObjectKind::Invoice),
            (2, ProviderKind::LemonSqueezy) => {
                (ObjectList::Orders(since), "orders", ObjectKind::Order)
            }
            (2, ProviderKind::Stripe) => {
                (ObjectList::Refunds(since), "refunds", ObjectKind::PaymentIntent)
            }
            (3, ProviderKind::Stripe) => {
                (ObjectList::Disputes(since), "disputes", ObjectKind::PaymentIntent)
            }
            _ => return None,
        })
    }
}

impl Providers {
    /// Compares one page of objects with our records and writes the differences. Call it until the report has
    /// ended; a call after that starts anew. The progress is stored, so that a sync goes on after a crash.
    ///
    /// A sync of all objects that is under way also serves as the nightly one. A dry run writes nothing; its
    /// progress is in the memory of this process.
    pub async fn sync_page(
        &self,
        source: &Slug,
        kind: SyncKind,
        dry_run: bool,
    ) -> Result<SyncStep, Error> {
        let account = self.expect(source)?;
        let now = self.now();
        let stored = if dry_run {
            account.dry_run.lock().unwrap_or_else(PoisonError::into_inner).take()
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
            *account.dry_run.lock().unwrap_or_else(PoisonError::into_inner) = left;
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

    /// Reads a page and observes its objects. Returns until when it is held back, if it could not be finished.
    async fn sync_list(
        &self,
        account: &Account,
        run: &mut Run,
        dry_run: bool,
    ) -> Result<Option<Held>, Error> {
        let Some((list, _, kind)) = run.list(account.source.kind) else { return Ok(None) };
        let page = match account.page(&list, run.after.as_deref(), self.now(), Turn::First).await {
            Ok(page) => page,
            Err(Stop::Held(held)) => return Ok(Some(held)),
            Err(Stop::Failed(error)) => return Err(error),
            Err(Stop::Stands { .. } | Stop::Needs(_)) => {
                return Ok(Some(account.pace.failed(None, self.now())));
            }
        };
        run.list_total = page.total.or(run.list_total);
        let items = page.items.get(run.done..).unwrap_or_default();
        for items in items.chunks(AT_ONCE) {
            let tries = items.iter().map(|item| self.sync_item(account, kind, item, dry_run));
            for result in join_all(tries).await {
                match result? {
                    Ok((verdict, drift)) => run.report.counts.add(&verdict, drift),
                    Err(held) => return Ok(Some(held)),
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
    ) -> Result<Result<(Verdict, bool), Held>, Error> {
        let named = if kind == ObjectKind::PaymentIntent {
            mapping::intent_of(item)
        } else {
            Place::root(item).field("id").id()
        };
        let now = self.now();
        let found = match named {
            Ok(id) => account.resolve(&ObjectRef { kind, id }, now).await,
            Err(unmapped) => Err(unmapped.into()),
        };
        let object = match found {
            Ok((object, _)) => object,
            Err(stop) => return unresolved(stop),
        };
        // A page of Stripe shows invoices without their payments.
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
    ) -> Result<Result<(Verdict, bool), Held>, Error> {
        let name = &account.source.name;
        let events = self.events_of(name, &object).await?;
        let has_open = events.iter().any(|event| event.body.standing().is_open());
        // An event that is stored already is answered too; a new one is stored only if it waits or fails.
        let ticket = self.sync_ticket(name, object.clone()).await?;
        let mut of = Observation::of(account, object, vec![ticket]);
        of.shown = shown;
        of.skips_same = true;
        of.dry_run = dry_run;
        match self.observe(of).await? {
            Observed::Done(verdict) => {
                let changes = verdict.standing == Standing::APPLIED && !verdict.is_new;
                let drift = changes && !has_open;
                account.count(|tally| tally.drift += u64::from(drift && !dry_run));
                Ok(Ok((verdict, drift)))
            }
            Observed::Held(held) => Ok(Err(held)),
            Observed::Lost => Ok(Err(Held { until: self.now(), unavailable: false })),
        }
    }

    /// All stored events of an object.
    pub(super) async fn events_of(
        &self,
        source: &Slug,
        object: &ObjectRef,
    ) -> Result<Vec<Ticket>, Error> {
        let filter = DocumentFilter::Owner(link_uuid(source, object));
        let mut query = DocumentQuery::new(EVENTS, filter).with_limit(PageLimit::MAX);
        let mut events = Vec::new();
        loop {
            let page = self.store().list_as::<Document>(query.clone()).await?;
            for document in &page.items {
                events.push(Stored::read(document)?);
            }
            query.after = page.next;
            if query.after.is_none() {
                return Ok(events);
            }
        }
    }

    /// Compares one object, by the external id that our record shows, or by the provider's id.
    pub async fn sync_object(
        &self,
        source: &Slug,
        external_id: &ExternalId,
        dry_run: bool,
    ) -> Result<ObservedNow, Error> {
        let account = self.expect(source)?;
        let object = object_of(account.source.kind, external_id.as_str())
            .map_err(|invalid| Error::from(Faults::from(invalid.at("object"))))?;
        let found = match account.resolve(&object, self.now()).await {
            Ok((object, _)) => self.sync_one(account, object, None, dry_run).await?,
            Err(stop) => unresolved(stop)?,
        };
        match found {
            Ok((verdict, _)) if dry_run => Ok(ObservedNow::Standing(verdict.standing)),
            Ok((verdict, _)) => self.shown((verdict.standing, verdict.subscription_id)).await,
            Err(_) => Ok(ObservedNow::Standing(Standing::UNAVAILABLE)),
        }
    }
}

/// The verdict for an object that leads to none that is followed.
fn unresolved(stop: Stop) -> Result<Result<(Verdict, bool), Held>, Error> {
    match stop {
        Stop::Failed(error) => Err(error),
        Stop::Held(held) => Ok(Err(held)),
        Stop::Needs(_) => Ok(Err(Held { until: Timestamp::MIN, unavailable: false })),
        Stop::Stands { standing, path, customer } => {
            let subscription_id = None;
            let is_new = true;
            Ok(Ok((Verdict { standing, path, customer, subscription_id, is_new }, false)))
        }
    }
}

/// The object that an external id of ours, or an id of the provider, names.
fn object_of(provider: ProviderKind, text: &str) -> Result<ObjectRef, InvalidValue> {
    let prefixes: &[(&str, ObjectKind, bool)] = match provider {
        ProviderKind::LemonSqueezy => &[
            ("ls_inv_", ObjectKind::Invoice, true),
            ("ls_ord_", ObjectKind::Order, true),
            ("ls_", ObjectKind::Subscription, true),
        ],
        ProviderKind::Stripe => &[
            ("sub_", ObjectKind::Subscription, false),
            ("in_", ObjectKind::Invoice, false),
            ("pi_", ObjectKind::PaymentIntent, false),
            ("cs_", ObjectKind::CheckoutSession, false),
        ],
    };
    let known = prefixes.iter().find(|(prefix, ..)| text.starts_with(prefix));
    let message = "must be the external id of a subscription or payment of this provider";
    let (prefix, kind, cut) = known.ok_or_else(|| InvalidValue::bad_format(message))?;
    let id = if *cut { text.strip_prefix(prefix).unwrap_or(text) } else { text };
    Ok(ObjectRef { kind: *kind, id: id.parse::<ObjectId>()? })
}

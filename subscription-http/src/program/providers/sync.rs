//! `provider sync`: compares the records with the objects of a payment provider, and writes the differences.

use std::time::Duration;

use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};
use subscription_core::providers::{
    EventState, ObservedNow, Providers, SyncCounts, SyncKind, SyncStep,
};
use subscription_core::{Clock, ExternalId, Slug};

use crate::program::commands::transfer::bar;
use crate::program::open::{self, Opened};
use crate::program::settings::{Database, Settings};
use crate::program::{Failure, print};

/// A hint for operators: where to find the events that need a person.
const LISTED: &str = "GET /provider-events lists them";

#[derive(Subcommand)]
pub(crate) enum ProviderCommand {
    /// Read the subscriptions, invoices and orders of the configured payment providers, and write what differs.
    ///
    /// The command can be repeated, and continues where it was interrupted. It exits with 0 only if no object failed
    /// and none has to wait, for example for an unknown user or plan. With SQLite, run it while no server runs; a
    /// running server syncs every night, and at POST /provider-syncs.
    Sync {
        /// Sync only this payment provider: NAME of [providers.NAME] in the settings file. [default: all]
        #[arg(long)]
        source: Option<Slug>,
        /// Sync only one subscription, payment or order: the one whose record here has, or would have, this external
        /// id.
        #[arg(long, value_name = "ID")]
        object: Option<ExternalId>,
        /// Compare only, and write nothing.
        #[arg(long)]
        dry_run: bool,
    },
}

pub(crate) async fn run(command: ProviderCommand, settings: &Settings) -> Result<(), Failure> {
    let ProviderCommand::Sync { source, object, dry_run } = command;
    let configured = settings.provider_settings()?;
    let names: Vec<Slug> = configured.iter().map(|provider| provider.name.clone()).collect();
    let wanted = chosen(&names, source, object.is_some())?;
    if settings.database()? == Database::Memory {
        return Err(Failure::new(
            "a database in memory has nothing to sync: choose another with --database",
        ));
    }
    let opened = Opened::new(settings, false).await.map_err(held)?;
    let service = open::service(settings, &opened);
    let synced = match super::open(configured, service.service()).await {
        Ok(Some(providers)) => {
            let clock = opened.clock();
            let sync = Sync { providers: &providers, clock: &*clock, dry_run };
            match object {
                Some(object) => sync.one(&wanted, &object).await,
                None => sync.all(&wanted).await,
            }
        }
        Ok(None) => Ok(()),
        Err(failure) => Err(failure),
    };
    opened.close().await;
    synced
}

/// The sources to sync.
fn chosen(names: &[Slug], source: Option<Slug>, is_one: bool) -> Result<Vec<Slug>, Failure> {
    let known = || names.iter().map(Slug::as_str).collect::<Vec<_>>().join(", ");
    match source {
        _ if names.is_empty() => Err(Failure::new(
            "no payment provider is configured: the settings file (--config) needs [providers.NAME]",
        )),
        Some(source) if !names.contains(&source) => {
            Err(Failure(format!("--source {source} is not configured; configured: {}", known())))
        }
        Some(source) => Ok(vec![source]),
        None if is_one && names.len() > 1 => {
            Err(Failure(format!("--object needs --source; configured: {}", known())))
        }
        None => Ok(names.to_vec()),
    }
}

/// If the error says that a running server uses the database file, adds how that server can sync.
fn held(Failure(message): Failure) -> Failure {
    if message.contains("in use by another process") {
        return Failure(format!("{message}; or let the running server sync: POST /provider-syncs"));
    }
    Failure(message)
}

struct Sync<'a> {
    providers: &'a Providers,
    clock: &'a dyn Clock,
    dry_run: bool,
}

impl Sync<'_> {
    /// Syncs all objects of these sources. Fails if an object waits or failed.
    async fn all(&self, sources: &[Slug]) -> Result<(), Failure> {
        let mut waiting = 0;
        let mut failed = 0;
        for source in sources {
            let counts = self.source(source).await?;
            print(&format!("{source}: {}", self.told(&counts)));
            waiting += counts.waiting;
            failed += counts.failed;
        }
        if waiting + failed == 0 {
            return Ok(());
        }
        Err(Failure(format!("{waiting} objects wait and {failed} failed: {LISTED}")))
    }

    fn told(&self, counts: &SyncCounts) -> String {
        let SyncCounts { made, changed, same, waiting, ignored, failed, .. } = counts;
        let dry = if self.dry_run { " (dry run: nothing is written)" } else { "" };
        format!(
            "{made} made, {changed} changed, {same} same, {ignored} ignored, {waiting} waiting, {failed} failed{dry}"
        )
    }

    async fn source(&self, source: &Slug) -> Result<SyncCounts, Failure> {
        let bar = bar(None);
        loop {
            let step = self.providers.sync_page(source, SyncKind::All, self.dry_run).await;
            let step = step.inspect_err(|_| bar.finish_and_clear())?;
            show(&bar, &step);
            if step.report.finished_at.is_some() {
                bar.finish_and_clear();
                return Ok(step.report.counts);
            }
            if let Some(at) = step.next_at {
                tokio::time::sleep(at.since(self.clock.now())).await;
            }
        }
    }

    /// Syncs one object in each of these sources. Fails if the object waits or failed.
    async fn one(&self, sources: &[Slug], object: &ExternalId) -> Result<(), Failure> {
        for source in sources {
            loop {
                match self.providers.sync_object(source, object, self.dry_run).await? {
                    ObservedNow::Limited(wait) => {
                        tokio::time::sleep(wait.max(Duration::from_millis(10))).await;
                        continue;
                    }
                    ObservedNow::Subscription(subscription) => {
                        let id = subscription.id;
                        let status = subscription.status;
                        print(&format!("{source}: {object} is the subscription {id}: {status}"));
                    }
                    ObservedNow::EventStatus(status) => {
                        let reason = status.reason.map(|reason| format!(" ({reason})"));
                        let state = format!("{}{}", status.state, reason.unwrap_or_default());
                        if status.is_open() || status.state == EventState::Failed {
                            return Err(Failure(format!(
                                "{source}: {object} is {state}: {LISTED}"
                            )));
                        }
                        print(&format!("{source}: {object} is {state}"));
                    }
                }
                break;
            }
        }
        Ok(())
    }
}

/// Shows the progress within a list. The total is unknown for Stripe, which does not say how many objects a list has.
fn show(bar: &ProgressBar, step: &SyncStep) {
    bar.set_message(step.list);
    bar.set_position(step.list_read);
    match step.list_total {
        Some(total) => bar.set_length(total),
        None => {
            if let Ok(style) = ProgressStyle::with_template("{msg:14} {human_pos} {per_sec}") {
                bar.set_style(style);
            }
        }
    }
}

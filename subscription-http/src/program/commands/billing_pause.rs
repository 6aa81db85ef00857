//! The pause of the billing, and the commands `billing pause`, `billing resume` and `billing status`.
//!
//! Imported subscriptions may have been due for a long time, and another system may still bill them. So an import
//! stores a document that pauses billing until an operator resumes it. After a backup was restored, an operator pauses
//! billing by a command.

use std::sync::Arc;

use clap::Subcommand;
use subscription_core::store::{
    ChangeSet, Collection, Delete, Document, DocumentKey, DueSubscriptions, Key, PageLimit, Record,
    StoreError, StoreExt as _,
};
use subscription_core::{Store, Timestamp, Version};

use crate::program::open::Opened;
use crate::program::settings::Settings;
use crate::program::{Failure, print};

const PAUSED: &str = "billing is paused: run subscription-http billing resume to continue";

#[derive(Subcommand)]
pub(crate) enum BillingCommand {
    /// Renew nothing and request no payment until `billing resume`: for a database that was restored from a
    /// backup. With SQLite, run this before the server starts; with PostgreSQL the server may run.
    Pause,
    /// Resume billing after a pause. With SQLite, run this before the server starts.
    Resume,
    /// Print whether billing is paused, and how many subscriptions are due.
    Status,
}

pub(crate) async fn run(command: BillingCommand, settings: &Settings) -> Result<(), Failure> {
    let opened = Opened::new(settings, false).await?;
    let told = match command {
        BillingCommand::Pause => pause(&opened.store, opened.clock().now()).await,
        BillingCommand::Resume => resume(&opened.store).await,
        BillingCommand::Status => status(&opened.store, opened.clock().now()).await,
    };
    opened.close().await;
    print(&told?);
    Ok(())
}

fn key() -> Result<DocumentKey, StoreError> {
    let id = "billing".parse().map_err(|error| StoreError::Damaged(Box::new(error)))?;
    Ok(DocumentKey { collection: Collection::named("billing_pause"), id })
}

/// The document that pauses billing. `None` if billing is not paused.
pub(crate) async fn find(store: &Arc<dyn Store>) -> Result<Option<Arc<Document>>, StoreError> {
    store.get_as::<Document>(&key()?).await
}

/// Creates the document that pauses billing. An import stores it together with the records, so that billing never sees
/// the records without it.
pub(crate) fn document(reason: &str, now: Timestamp) -> Result<Document, StoreError> {
    let body = format!("{{\"reason\":\"{reason}\",\"since\":\"{now}\"}}").into();
    let version = Version::FIRST;
    Ok(Document { key: key()?, version, owner: None, label: None, due_at: None, body })
}

async fn pause(store: &Arc<dyn Store>, now: Timestamp) -> Result<String, Failure> {
    let writes = vec![Record::from(document("operator", now)?)];
    match store.commit(ChangeSet { writes, ..ChangeSet::default() }).await {
        Ok(()) => Ok(PAUSED.to_owned()),
        Err(StoreError::Conflict(_)) => Ok("billing was paused already".to_owned()),
        Err(error) => Err(error.into()),
    }
}

async fn resume(store: &Arc<dyn Store>) -> Result<String, Failure> {
    let Some(pause) = find(store).await? else {
        return Ok("billing was not paused".to_owned());
    };
    let delete = Delete { key: Key::Document(pause.key.clone()), version: pause.version };
    store.commit(ChangeSet { deletes: vec![delete], ..ChangeSet::default() }).await?;
    Ok("billing is resumed".to_owned())
}

async fn status(store: &Arc<dyn Store>, now: Timestamp) -> Result<String, Failure> {
    let state = if find(store).await?.is_some() { PAUSED } else { "billing is not paused" };
    let due = DueSubscriptions::until(now).with_limit(PageLimit::MAX);
    let due = store.due_subscriptions(due).await?.items;
    let more = if due.len() == PageLimit::MAX.get() { " or more" } else { "" };
    let first = due.first().and_then(|first| first.next_action_at());
    let first = first.map_or(String::new(), |at| format!(", the first since {at}"));
    Ok(format!("{state}\n{}{more} subscriptions are due{first}", due.len()))
}

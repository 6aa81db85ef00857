//! The check of the documents of an import.

use super::inbox::documents::{EVENTS, LINKS, Link, PROGRESS, ProviderEvent};
use super::sync::progress::Progress;
use crate::error::Error;
use crate::store::{Document, Stored};

/// Checks a document of an import: a document of providers must be readable.
pub fn check_imported(document: &Document) -> Result<(), Error> {
    let collection = &document.key.collection;
    if *collection == EVENTS {
        Stored::<ProviderEvent>::read(document)?;
    } else if *collection == LINKS {
        Stored::<Link>::read(document)?;
    } else if *collection == PROGRESS {
        Stored::<Progress>::read(document)?;
    }
    Ok(())
}

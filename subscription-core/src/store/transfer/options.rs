//! The options of an import.

use std::fmt;

use crate::store::{Cause, Document};

/// A function that gets a document of the file and returns the document to store; `None` leaves the document out.
type Edit<'a> = Box<dyn FnMut(Document) -> Result<Option<Document>, Cause> + Send + 'a>;

/// The options of an import.
#[derive(Default)]
pub struct ImportOptions<'a> {
    pub(super) any_user: bool,
    edit: Option<Edit<'a>>,
    pub(super) added: Vec<Document>,
}

impl fmt::Debug for ImportOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { any_user, added, .. } = self;
        f.debug_struct("ImportOptions").field("any_user", any_user).field("added", added).finish()
    }
}

impl<'a> ImportOptions<'a> {
    /// Lets a subscription belong to any user, even if the file has users. This is for services that do not
    /// [check users](crate::ServiceBuilder::check_users).
    #[must_use]
    pub fn for_any_user(mut self) -> Self {
        self.any_user = true;
        self
    }

    /// Stores each document of the file as `edit` returns it, under the same key. If `edit` returns `None`, the
    /// document is left out. An error of `edit` is reported as a fault of the file.
    #[must_use]
    pub fn edit_documents<E: Into<Cause>>(
        mut self,
        mut edit: impl FnMut(Document) -> Result<Option<Document>, E> + Send + 'a,
    ) -> Self {
        self.edit = Some(Box::new(move |document| edit(document).map_err(Into::into)));
        self
    }

    /// Stores another document together with the records of the file. The file must not have a document with the same
    /// key.
    #[must_use]
    pub fn add_document(mut self, document: Document) -> Self {
        self.added.push(document);
        self
    }

    /// The document that is stored for a document of the file; `None` if it is left out.
    pub(super) fn edited(&mut self, document: &Document) -> Result<Option<Document>, Cause> {
        match &mut self.edit {
            Some(edit) => edit(document.clone()),
            None => Ok(Some(document.clone())),
        }
    }
}

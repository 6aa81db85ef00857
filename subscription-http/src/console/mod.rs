//! The console: a web page for operators, as files inside the binary.
//!
//! The page calls the API as every client does, so there is nothing here but its files. A new file needs a
//! line in [`FILES`].

use std::sync::LazyLock;

use crate::openapi::Prepared;

/// The names of files in `assets/`, and their texts as they are sent.
macro_rules! files {
    ($($name:literal),+ $(,)?) => {
        [$(($name, {
            const TEXT: &[u8] = include_bytes!(concat!("assets/", $name));
            const SENT: &[u8] = &sent::<{ sent::<0>(TEXT).1 }>(TEXT).0;
            SENT
        })),+]
    };
}

/// The file that `/console/` shows.
pub(crate) const INDEX: &str = "index.html";

/// Every file, by its name.
static FILES: LazyLock<Vec<File>> = LazyLock::new(|| {
    let files = files![
        "actions.js",
        "actions.json",
        "api.js",
        "console.css",
        "dialog.js",
        "el.js",
        "icon.svg",
        "index.html",
        "main.js",
        "page-events.js",
        "page-figures.js",
        "page-overview.js",
        "page-plans.js",
        "page-providers.js",
        "page-search.js",
        "page-subscription.js",
        "page-subscriptions.js",
        "page-users.js",
        "page-webhooks.js",
        "plan-change.js",
        "plot.js",
        "table.js",
        "timeline.js",
    ];
    let prepared = |text| Prepared::new(String::from_utf8_lossy(text));
    files.map(|(name, text)| File { name, text: prepared(text) }).into()
});

/// The first `N` bytes of a file as it is sent, and how many it has. Indentation, comments and empty lines are left out by the
/// compiler, so that the binary is without them too: they are a sixth of the bytes.
#[expect(
    clippy::indexing_slicing,
    reason = "only the compiler calls it, and there is a check before"
)]
const fn sent<const N: usize>(mut text: &[u8]) -> ([u8; N], usize) {
    let mut sent = [0; N];
    let mut length = 0;
    // Whether this line is sent: unknown in its indentation.
    let mut is_sent = None;
    while let [byte, rest @ ..] = text {
        is_sent = match (is_sent, text) {
            (None, [b' ' | b'\n', ..]) => None,
            (None, [b'/', b'/' | b'*', ..]) => Some(false),
            (known, _) => Some(!matches!(known, Some(false))),
        };
        if matches!(is_sent, Some(true)) {
            if length < N {
                sent[length] = *byte;
            }
            length += 1;
        }
        if *byte == b'\n' {
            is_sent = None;
        }
        text = rest;
    }
    (sent, length)
}

/// A file of the console.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) name: &'static str,
    /// The text as it is sent, with its `ETag`.
    pub(crate) text: Prepared,
}

impl File {
    /// The file of a name.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        FILES.iter().find(|file| file.name == name)
    }

    /// The media type, by the end of the name.
    pub(crate) fn content_type(&self) -> &'static str {
        match self.name.rsplit('.').next() {
            Some("html") => "text/html; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("svg") => "image/svg+xml",
            Some("json") => "application/json",
            _ => "text/plain; charset=utf-8",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_table_has_every_file_of_the_folder_and_each_has_a_type() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/console/assets");
        let entries = std::fs::read_dir(folder).unwrap();
        let names: BTreeSet<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();

        assert_eq!(FILES.iter().map(|file| file.name.to_owned()).collect::<BTreeSet<_>>(), names);
        assert_eq!(FILES.len(), names.len(), "a file is there twice");
        for file in FILES.iter() {
            assert!(!file.content_type().starts_with("text/plain"), "{}", file.name);
        }
    }
}

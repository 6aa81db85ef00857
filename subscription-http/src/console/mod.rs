//! The console: a web page for operators, as files inside the binary.
//!
//! The page calls the API as every client does, so this module only holds the page's files. A new file needs a line in
//! [`FILES`].

use std::sync::LazyLock;

use crate::openapi::Prepared;

/// Pairs the name of each file in `assets/` with its text.
macro_rules! files {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("assets/", $name)))),+]
    };
}

/// The file that `/console/` returns.
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
    files.map(|(name, text)| File { name, text: Prepared::new(sent(text)) }).into()
});

/// The text in the form in which it is sent: without indentation, comments and empty lines, which are a sixth of the
/// bytes of a file.
fn sent(text: &str) -> String {
    let lines = text.split_inclusive('\n').map(|line| line.trim_start_matches([' ', '\n']));
    lines.filter(|line| !line.starts_with("//") && !line.starts_with("/*")).collect()
}

/// A file of the console.
pub(crate) struct File {
    pub(crate) name: &'static str,
    /// The text as it is sent, with its `ETag`.
    pub(crate) text: Prepared,
}

impl File {
    /// Finds a file by its name.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        FILES.iter().find(|file| file.name == name)
    }

    /// The media type, which depends on the ending of the name.
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

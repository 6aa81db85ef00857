//! A page of Markdown, as far as its blocks of code go.

use std::path::{Path, PathBuf};

/// The top of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub(crate) fn read(path: &str) -> String {
    let read = std::fs::read_to_string(root().join(path));
    read.unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A block of code.
#[derive(Debug)]
pub(crate) struct Block {
    /// Where it begins, for who looks for it.
    pub(crate) line: usize,
    /// The heading (`## …`) that it stands under.
    pub(crate) section: String,
    pub(crate) language: String,
    /// The file that it is, for those that are one.
    pub(crate) file: Option<String>,
    pub(crate) mark: Mark,
    pub(crate) text: String,
}

/// The comment right before a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mark {
    None,
    /// `<!-- not run: reason -->`
    NotRun(String),
    /// `<!-- needs: program … -->`: run where these are installed.
    Needs(Vec<String>),
    /// `<!-- from: file -->`: word for word in a file that is compiled.
    From(String),
}

impl Mark {
    fn parse(line: &str) -> Self {
        let comment = line.trim().strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->"));
        let Some((kind, rest)) = comment.and_then(|comment| comment.split_once(':')) else {
            return Self::None;
        };
        let rest = rest.trim();
        match kind.trim() {
            "not run" => Self::NotRun(rest.to_owned()),
            "needs" => Self::Needs(rest.split_whitespace().map(str::to_owned).collect()),
            "from" => Self::From(rest.to_owned()),
            _ => Self::None,
        }
    }
}

/// The blocks of a page, in order.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let (mut blocks, mut section, mut mark) = (Vec::new(), String::new(), Mark::None);
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if let Some(info) = line.strip_prefix("```") {
            let mut words = info.split_whitespace().map(str::to_owned);
            let language = words.next().unwrap_or_default();
            let text = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```");
            let text = text.flat_map(|line| [line, "\n"]).collect();
            let (line, file) = (number + 1, words.next());
            let section = section.clone();
            blocks.push(Block { line, section, language, file, mark, text });
            mark = Mark::None;
            continue;
        }
        if let Some(heading) = line.strip_prefix("## ") {
            heading.clone_into(&mut section);
        }
        mark = Mark::parse(line);
    }
    blocks
}

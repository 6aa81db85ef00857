//! Checks of every page: every block is checked, and every link resolves.

use std::collections::BTreeSet;
use std::path::Path;

use libtest_mimic::{Failed, Trial};

use crate::STORIES;
use crate::page::{Block, Mark, blocks, read, root};

/// As many blocks may say that they are not run.
const NOT_RUN_MAX: usize = 1;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("every_block_is_run_or_says_why_not", every_block_is_run_or_says_why_not),
        Trial::test("every_link_leads_somewhere", every_link_leads_somewhere),
        Trial::test(
            "every_plan_that_is_sold_has_a_currency",
            every_plan_that_is_sold_has_a_currency,
        ),
        Trial::test("the_crates_show_the_same_page", the_crates_show_the_same_page),
        Trial::test("every_feature_is_documented", every_feature_is_documented),
        Trial::test("one_version_of_rust_is_named", one_version_of_rust_is_named),
        Trial::test("the_code_map_names_what_there_is", the_code_map_names_what_there_is),
        Trial::test(
            "the_test_of_failovers_has_the_files_of_its_guide",
            the_test_of_failovers_has_the_files_of_its_guide,
        ),
    ]
}

/// Every page that is read by people who use or change this.
fn pages() -> Vec<String> {
    let top = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "tests/README.md",
    ];
    let mut pages = top.map(str::to_owned).to_vec();
    for entry in std::fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(has_ending(&name, &["md", "png"]), "docs/{name} is neither a page nor a picture");
        if has_ending(&name, &["md"]) {
            pages.push(format!("docs/{name}"));
        }
    }
    pages
}

/// Nobody renews or ends the subscriptions of a plan without one: who copies it gives access away. A plan whose
/// subscriptions a provider bills needs none.
fn every_plan_that_is_sold_has_a_currency() -> Result<(), Failed> {
    let mut wrong = Vec::new();
    for page in pages().iter().filter(|page| !page.contains("move-from")) {
        for (nth, line) in read(page).lines().enumerate() {
            let is_plan = line.contains("price")
                && line.contains("billing_cycle")
                && line.contains("monthly");
            if is_plan && !line.contains("currency") {
                wrong.push(format!("{page}:{}: {line}", nth + 1));
            }
        }
    }
    told(&wrong)
}

fn the_crates_show_the_same_page() -> Result<(), Failed> {
    for copy in ["subscription-core/README.md", "subscription-http/README.md"] {
        if read(copy) != read("README.md") {
            return Err(format!("{copy} is not README.md: copy it").into());
        }
    }
    Ok(())
}

/// In the first page of its crate, in a row of its table.
fn every_feature_is_documented() -> Result<(), Failed> {
    let mut wrong = Vec::new();
    for name in ["subscription-core", "subscription-http"] {
        let manifest = read(&format!("{name}/Cargo.toml"));
        let page = read(&format!("{name}/src/lib.rs"));
        let features = manifest.split("[features]\n").nth(1).unwrap();
        let features = features.split("\n[").next().unwrap();
        let is_name = |c: char| c.is_ascii_lowercase() || c == '-';
        let named = features.lines().filter_map(|line| line.split_once(" = "));
        for (feature, _) in named.filter(|(feature, _)| feature.chars().all(is_name)) {
            if feature != "default" && !page.contains(&format!("//! | `{feature}`")) {
                wrong.push(format!("{name}: nothing says what {feature} brings"));
            }
        }
    }
    told(&wrong)
}

/// The oldest version that works is the one that CI builds with.
fn one_version_of_rust_is_named() -> Result<(), Failed> {
    let quoted = |file: &str, key: &str| {
        let text = read(file);
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        line.unwrap().trim_matches('"').to_owned()
    };
    let version = quoted("Cargo.toml", "rust-version");
    let channel = quoted("rust-toolchain.toml", "channel");
    let mut wrong = Vec::new();
    if channel != version && !channel.starts_with(&format!("{version}.")) {
        wrong.push(format!("rust-toolchain.toml has {channel}, and Cargo.toml {version}"));
    }
    if !read("Containerfile").contains(&format!("/rust:{version}-")) {
        wrong.push(format!("Containerfile has another version than {version}"));
    }
    told(&wrong)
}

fn told(wrong: &[String]) -> Result<(), Failed> {
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

fn every_block_is_run_or_says_why_not() -> Result<(), Failed> {
    let (mut wrong, mut not_run) = (Vec::new(), 0);
    for page in pages() {
        let text = read(&page);
        let blocks = blocks(&text);
        assert_eq!(text.matches("\n```").count(), 2 * blocks.len(), "{page}: an odd fence");
        for (nth, block) in blocks.iter().enumerate() {
            not_run += usize::from(matches!(block.mark, Mark::NotRun(_)));
            let after = blocks.iter().skip(nth + 1);
            if let Err(why) = check(&page, block, after) {
                wrong.push(format!("{page}:{}: {why}", block.line));
            }
        }
    }
    if not_run > NOT_RUN_MAX {
        wrong.push(format!("{not_run} blocks are not run, {NOT_RUN_MAX} may be"));
    }
    told(&wrong)
}

/// Says why a block is not checked by anything.
fn check<'a>(
    page: &str,
    block: &Block,
    mut after: impl Iterator<Item = &'a Block>,
) -> Result<(), String> {
    if let Mark::NotRun(reason) = &block.mark {
        let is_reason = reason.split_whitespace().count() >= 3;
        return is_reason.then_some(()).ok_or_else(|| "it is not run, for no reason".to_owned());
    }
    if let Mark::From(file) = &block.mark {
        // Without the lines that documentation hides.
        let shown = block.text.lines().filter(|line| !line.starts_with("# ") && *line != "#");
        let shown: String = shown.flat_map(|line| [line, "\n"]).collect();
        let is_there = read(file).contains(&shown);
        return is_there.then_some(()).ok_or_else(|| format!("{file} does not have these lines"));
    }
    match (block.language.as_str(), &block.file) {
        ("sh", None) => {
            let is_told = STORIES.iter().any(|story| story.has(page, block));
            is_told.then_some(()).ok_or_else(|| "no story has this page".to_owned())
        }
        ("toml" | "nginx" | "js" | "python", Some(file)) => {
            let runs = |block: &Block| ["sh", "js"].contains(&block.language.as_str());
            let is_used = after.any(|block| runs(block) && block.text.contains(file));
            is_used.then_some(()).ok_or_else(|| format!("nothing after it uses {file}"))
        }
        ("rust", None) => {
            // Each crate has the README in its own folder, as its package must.
            let up = if page == "README.md" { ".." } else { "../.." };
            let include = format!("include_str!(\"{up}/{page}\")");
            let libraries = ["subscription-core/src/lib.rs", "subscription-http/src/lib.rs"];
            let is_compiled = libraries.iter().any(|library| read(library).contains(&include));
            is_compiled.then_some(()).ok_or_else(|| "no library includes this page".to_owned())
        }
        ("text", None) if page == "ARCHITECTURE.md" => Ok(()),
        (language, _) => Err(format!("nothing knows what to do with {language:?}")),
    }
}

fn every_link_leads_somewhere() -> Result<(), Failed> {
    let mut wrong = Vec::new();
    for page in pages() {
        let text = read(&page);
        let here = root().join(&page).parent().unwrap().to_owned();
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.starts_with("http")) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { root().join(&page) } else { here.join(file) };
            if has_ending(target, &["png"]) && file.exists() {
                continue;
            }
            let Ok(text) = std::fs::read_to_string(&file) else {
                wrong.push(format!("{page}: {target} is not there"));
                continue;
            };
            let has_it = |line: &str| line.starts_with('#') && slug(line) == anchor;
            if !anchor.is_empty() && !text.lines().any(has_it) {
                wrong.push(format!("{page}: {target} has no such heading"));
            }
        }
    }
    told(&wrong)
}

/// A heading as its link names it.
fn slug(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
    words.chars().filter(|c| c.is_alphanumeric() || *c == '-' || *c == '_').collect()
}

fn the_code_map_names_what_there_is() -> Result<(), Failed> {
    let text = read("ARCHITECTURE.md");
    let map = blocks(&text).into_iter().find(|block| block.language == "text").unwrap();
    let mut names = BTreeSet::new();
    let folders = [
        "subscription-core",
        "subscription-http",
        "tests",
        "docs",
        "examples",
        "benches",
        "fuzz",
        "packaging",
        ".ci",
    ];
    for folder in folders {
        names.insert(folder.to_owned());
        collect(&root().join(folder), &mut names);
    }
    // Files by their ending, folders by their slash.
    let is_name = |word: &&str| word.ends_with('/') || has_ending(word, &["rs", "json", "html"]);
    let words = map.text.split(|c: char| c.is_whitespace() || "(),;".contains(c));
    let last = |word: &str| word.trim_end_matches('/').rsplit('/').next().map(str::to_owned);
    let wrong: Vec<_> = words
        .filter(is_name)
        .filter(|word| last(word).is_none_or(|name| !names.contains(&name)))
        .map(|word| format!("there is no {word}"))
        .collect();
    told(&wrong)
}

/// `.ci/failover` starts the files that the guide links, with every address that they leave open.
fn the_test_of_failovers_has_the_files_of_its_guide() -> Result<(), Failed> {
    let guide = read("docs/failover.md");
    let machines = read(".ci/failover_machines.py");
    let mut wrong = Vec::new();
    for file in ["patroni.yml", "haproxy-postgres.cfg"] {
        if !guide.contains(&format!("(../packaging/{file})")) {
            wrong.push(format!("the guide does not link {file}"));
        }
        if !machines.contains(&format!("PACKAGING / \"{file}\"")) {
            wrong.push(format!("the test does not start {file}"));
        }
    }
    let patroni = read("packaging/patroni.yml");
    let addresses = patroni.lines().filter_map(|line| line.strip_prefix("#     ")?.split_once('='));
    for (name, _) in addresses {
        if !machines.contains(&format!("\"{name}\"")) {
            wrong.push(format!("the test does not set {name}"));
        }
    }
    let ttl = patroni.lines().find_map(|line| line.trim().strip_prefix("ttl: ")).unwrap();
    if !read(".ci/failover.py").contains(&format!("TTL = {ttl}\n")) {
        wrong.push(format!("the test expects another ttl than {ttl}"));
    }
    told(&wrong)
}

fn has_ending(name: &str, endings: &[&str]) -> bool {
    Path::new(name).extension().is_some_and(|ending| endings.iter().any(|known| ending == *known))
}

fn collect(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        names.insert(entry.file_name().into_string().unwrap());
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), names);
        }
    }
}

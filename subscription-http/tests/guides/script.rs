//! A page's blocks as one script, with this machine's ports and databases in the place of the page's.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

use crate::page::{Block, Mark};

/// Waits for a server that was started beside.
const PRELUDE: &str = r#"
until_ready() {
    for _ in {1..200}; do
        curl -sf -o /dev/null "http://127.0.0.1:$1/health/ready" && return
        sleep 0.05
    done
    echo "nothing is ready at $1" >&2
    return 1
}
"#;

/// How the page's own database is called.
pub(crate) const DATABASE: &str = "postgres://billing@localhost/";

pub(crate) struct Script {
    pub(crate) text: String,
    /// The output that the page promises, in order.
    pub(crate) told: Vec<String>,
    /// The programs that it calls and that not every machine has.
    pub(crate) programs: BTreeSet<String>,
}

impl Script {
    /// A script of its own, of no page.
    pub(crate) fn new(text: &str) -> Self {
        let text = format!("{PRELUDE}{text}");
        Self { text, told: Vec::new(), programs: BTreeSet::new() }
    }

    pub(crate) fn of<'a>(blocks: impl Iterator<Item = &'a Block>) -> Self {
        let programs = ["bash".to_owned(), "curl".to_owned()].into();
        let mut script = Self { text: PRELUDE.to_owned(), told: Vec::new(), programs };
        for block in blocks {
            if let Mark::Needs(programs) = &block.mark {
                script.programs.extend(programs.iter().cloned());
            }
            script.add(block);
        }
        script
    }

    fn add(&mut self, block: &Block) {
        match (&block.mark, &block.file, block.language.as_str()) {
            (Mark::NotRun(_) | Mark::From(_), ..) => {}
            (_, Some(file), _) => {
                write!(self.text, "cat > {file} <<'END OF FILE'\n{}END OF FILE\n", block.text)
                    .unwrap();
            }
            (_, None, "sh") => {
                self.text += &block.text;
                let told = block.text.lines().filter_map(|line| line.split_once("# says: "));
                self.told.extend(told.map(|(_, told)| told.to_owned()));
            }
            (_, None, _) => {}
        }
    }

    /// Puts free ports in the place of those that the page names: another page may have the same.
    pub(crate) fn with_free_ports(mut self) -> Self {
        let mut free = BTreeMap::new();
        for after in self.text.split("127.0.0.1:").chain(self.text.split("until_ready ")).skip(1) {
            let port: String = after.chars().take_while(char::is_ascii_digit).collect();
            if port.len() == 4 {
                free.entry(port).or_insert_with(|| free_port().to_string());
            }
        }
        for text in std::iter::once(&mut self.text).chain(&mut self.told) {
            *text = with_numbers(text, &free);
        }
        self
    }
}

/// A port that nobody listens at, each time another: below those that the system gives to callers, who
/// would else take it before the page's server does.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let begin = 10_000 + u16::try_from(std::process::id() % 10_000).unwrap();
    loop {
        let port = begin + NEXT.fetch_add(1, Ordering::Relaxed);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// The text with other numbers, where they stand alone.
fn with_numbers(text: &str, numbers: &BTreeMap<String, String>) -> String {
    let (mut changed, mut digits) = (String::new(), String::new());
    for c in text.chars().chain(['\n']) {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        changed += numbers.get(&digits).unwrap_or(&digits);
        digits.clear();
        changed.push(c);
    }
    changed.pop();
    changed
}

//! Servers and programs that some tests need, and that not every machine has.
//!
//! A test that lacks one is ignored, and the last line of the run says how many are, and what to install.
//! `SUBSCRIPTION_TEST_POSTGRES` and `SUBSCRIPTION_TEST_PROGRAMS` say otherwise: `require` makes such a
//! test fail, `skip` ignores it even where all that it needs is installed.

use std::collections::BTreeMap;
use std::env;

use libtest_mimic::{Arguments, Conclusion, Trial};

/// Why tests over PostgreSQL are ignored, if they are, by what was looked for in vain.
pub fn postgres(missing: Option<String>) -> Option<String> {
    decide("SUBSCRIPTION_TEST_POSTGRES", missing)
}

/// Why tests are ignored, if they are, by a variable and by what was looked for in vain.
pub fn decide(variable: &str, missing: Option<String>) -> Option<String> {
    match env::var(variable).unwrap_or_default().as_str() {
        "" => missing,
        "require" => None,
        "skip" => Some(format!("{variable} is skip")),
        other => panic!("{variable} must be require or skip, not {other:?}"),
    }
}

/// Runs groups of tests in their order, each with the reason why it is ignored, if there is one; cleans up with
/// `stop`. So many run at once as there are cores, and `more`.
pub fn run<const N: usize>(
    groups: [(Option<String>, Vec<Vec<Trial>>); N],
    more: usize,
    stop: fn(),
) -> ! {
    let (mut ignored, mut trials) = (Ignored::default(), Vec::new());
    for (reason, group) in groups {
        let group = group.into_iter().flatten();
        trials.extend(group.map(|trial| ignored.for_reason(reason.as_deref(), trial)));
    }
    let mut arguments = Arguments::from_args();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    arguments.test_threads.get_or_insert(cores + more);
    let done = libtest_mimic::run(&arguments, trials);
    stop();
    ignored.exit(&done)
}

/// The tests that are ignored, by the reason.
#[derive(Debug, Default)]
pub struct Ignored(BTreeMap<String, usize>);

impl Ignored {
    /// A test that is ignored if there is a reason.
    pub fn for_reason(&mut self, reason: Option<&str>, trial: Trial) -> Trial {
        if let Some(reason) = reason {
            *self.0.entry(reason.to_owned()).or_default() += 1;
        }
        trial.with_ignored_flag(reason.is_some())
    }

    /// Ends the process as the run did, after a line about what was ignored.
    pub fn exit(&self, done: &Conclusion) -> ! {
        let told: usize = self.0.values().sum();
        let ignored = usize::try_from(done.num_ignored).unwrap_or(usize::MAX);
        if ignored > 0 {
            // A filter leaves some out, and then the numbers of each reason are not known.
            let each = self.0.iter().map(|(reason, number)| match self.0.len() {
                2.. if told == ignored => format!("{number} because {reason}"),
                _ => reason.clone(),
            });
            println!("{ignored} tests ignored: {}\n", each.collect::<Vec<_>>().join("; "));
        }
        done.exit()
    }
}

//! The check for servers and programs that some tests need, and that not every machine has.
//!
//! A test that lacks one of them is ignored. The last line of the run says how many tests were ignored, and what to
//! install. `SUBSCRIPTION_TEST_POSTGRES` and `SUBSCRIPTION_TEST_PROGRAMS` change this: with `require`, such a test
//! fails; with `skip`, it is ignored even if everything that it needs is installed.

use std::collections::BTreeMap;
use std::env;

use libtest_mimic::{Arguments, Conclusion, Trial};

/// The reason why tests over PostgreSQL are ignored. `None` if they run. `missing` says what the machine lacks.
pub fn postgres(missing: Option<String>) -> Option<String> {
    decide("SUBSCRIPTION_TEST_POSTGRES", missing)
}

/// The reason why tests are ignored. `None` if they run. It depends on the environment variable and on `missing`, which
/// says what the machine lacks.
pub fn decide(variable: &str, missing: Option<String>) -> Option<String> {
    match env::var(variable).unwrap_or_default().as_str() {
        "" => missing,
        "require" => None,
        "skip" => Some(format!("{variable} is skip")),
        other => panic!("{variable} must be require or skip, not {other:?}"),
    }
}

/// Runs groups of tests in their order, then cleans up with `stop` and ends the process. A group with a reason is
/// ignored. The number of tests that run at once is the number of cores plus `more`.
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
    let done = libtest_mimic::run(&arguments(more), trials);
    stop();
    ignored.exit(&done)
}

/// The arguments of this process. Unless they say otherwise, the number of tests that run at once is the number of cores
/// plus `more`.
pub fn arguments(more: usize) -> Arguments {
    let mut arguments = Arguments::from_args();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    arguments.test_threads.get_or_insert(cores + more);
    arguments
}

/// The number of ignored tests for each reason.
#[derive(Debug, Default)]
pub struct Ignored(BTreeMap<String, usize>);

impl Ignored {
    /// Marks a test as ignored and counts it, if there is a reason.
    pub fn for_reason(&mut self, reason: Option<&str>, trial: Trial) -> Trial {
        if let Some(reason) = reason {
            *self.0.entry(reason.to_owned()).or_default() += 1;
        }
        trial.with_ignored_flag(reason.is_some())
    }

    /// Prints a line about the ignored tests, then ends the process with the result of the run.
    pub fn exit(&self, done: &Conclusion) -> ! {
        let told: usize = self.0.values().sum();
        let ignored = usize::try_from(done.num_ignored).unwrap_or(usize::MAX);
        if ignored > 0 {
            // The filter of a run omits some tests. Then the number of tests for each reason is not known.
            let each = self.0.iter().map(|(reason, number)| match self.0.len() {
                2.. if told == ignored => format!("{number} because {reason}"),
                _ => reason.clone(),
            });
            println!("{ignored} tests ignored: {}\n", each.collect::<Vec<_>>().join("; "));
        }
        done.exit()
    }
}

//! Tests as values, for suites that decide at run time which of their tests can run.
//!
//! If `SUBSCRIPTION_TEST_TIMES` is set, each test prints how long it took.

#![expect(clippy::print_stdout, reason = "the times of tests are for the reader of the output")]

use std::sync::Arc;
use std::time::Instant;

pub use libtest_mimic::Trial;
use subscription_core::Store;
use subscription_core::store::conformance::{CASES, Case};

/// An async test. It runs on its own runtime with two threads.
pub fn trial<F: Future<Output = ()>>(
    name: impl Into<String>,
    run: impl FnOnce() -> F + Send + 'static,
) -> Trial {
    timed(name, move || {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime.worker_threads(2).enable_all().build().unwrap().block_on(run());
    })
}

/// A test that needs no async runtime.
pub fn blocking(name: impl Into<String>, run: fn()) -> Trial {
    timed(name, run)
}

/// A test that prints how long it took, if `SUBSCRIPTION_TEST_TIMES` is set.
fn timed(name: impl Into<String>, run: impl FnOnce() + Send + 'static) -> Trial {
    let name = name.into();
    Trial::test(name.clone(), move || {
        let begun = Instant::now();
        run();
        if std::env::var_os("SUBSCRIPTION_TEST_TIMES").is_some() {
            println!("{:.2} s: {name}", begun.elapsed().as_secs_f64());
        }
        Ok(())
    })
}

/// The tests of the conformance suite, one for each case, over one kind of store.
pub fn conformance<F: Future<Output = S> + 'static, S: Store + 'static>(
    kind: &str,
    open: fn() -> F,
) -> Vec<Trial> {
    let of = |case: &Case| {
        let case = *case;
        trial(format!("{kind}::suite::{}", case.name), move || async move {
            (case.run)(Arc::new(open().await)).await;
        })
    };
    CASES.iter().map(of).collect()
}

/// The name of a test, without the name of its suite.
pub fn name(module: &str, test: &str) -> String {
    let module = module.split_once("::").map_or("", |(_suite, module)| module);
    format!("{module}::{test}")
}

/// Turns the named functions into tests. The functions are async, unless `blocking:` comes first.
#[macro_export]
macro_rules! trials {
    (blocking: $($test:ident),+ $(,)?) => {
        vec![$($crate::trials::blocking(
            $crate::trials::name(module_path!(), stringify!($test)),
            $test,
        )),+]
    };
    ($($test:ident),+ $(,)?) => {
        vec![$($crate::trials::trial(
            $crate::trials::name(module_path!(), stringify!($test)),
            $test,
        )),+]
    };
}

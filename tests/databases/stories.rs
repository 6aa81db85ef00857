//! Tests as data: whether those that need a server are run is known only when they are.

use std::pin::Pin;
use std::sync::Arc;

use libtest_mimic::Trial;
use subscription_core::Store;
use subscription_core::store::conformance::CASES;

/// A test by its name.
pub(crate) struct Story {
    name: String,
    run: Box<dyn FnOnce() -> Run + Send>,
}

type Run = Pin<Box<dyn Future<Output = ()>>>;

impl Story {
    pub(crate) fn new<F: Future<Output = ()> + 'static>(
        name: &str,
        run: impl FnOnce() -> F + Send + 'static,
    ) -> Self {
        Self { name: name.replace("databases::", ""), run: Box::new(|| Box::pin(run())) }
    }

    /// Every case of the suite over one kind of store.
    pub(crate) fn suite<F: Future<Output = S> + 'static, S: Store + 'static>(
        kind: &str,
        open: fn() -> F,
    ) -> Vec<Self> {
        let story = |case: &subscription_core::store::conformance::Case| {
            let case = *case;
            Self::new(&format!("{kind}::suite::{}", case.name), move || async move {
                (case.run)(Arc::new(open().await)).await;
            })
        };
        CASES.iter().map(story).collect()
    }

    pub(crate) fn trial(self) -> Trial {
        let run = self.run;
        Trial::test(self.name, move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(run());
            Ok(())
        })
    }
}

/// The named tests, as stories.
macro_rules! stories {
    ($($name:ident),+ $(,)?) => {
        vec![$($crate::stories::Story::new(concat!(module_path!(), "::", stringify!($name)), $name)),+]
    };
}

pub(crate) use stories;

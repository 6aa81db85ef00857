//! Tests as data: whether those that need PostgreSQL are run is known only when they are.

use libtest_mimic::Trial;

/// A test by its name.
pub(crate) struct Story {
    pub(crate) name: &'static str,
    pub(crate) run: fn(),
}

impl Story {
    pub(crate) fn trial(self) -> Trial {
        Trial::test(self.name.replace("crashes::", ""), move || {
            (self.run)();
            Ok(())
        })
    }
}

/// The named tests, as stories.
macro_rules! stories {
    ($($name:ident),+ $(,)?) => {
        vec![$($crate::stories::Story {
            name: concat!(module_path!(), "::", stringify!($name)),
            run: $name,
        }),+]
    };
}

pub(crate) use stories;

//! Programs that pages call, and that not every machine has.

use std::collections::BTreeSet;
use std::env;

use test_support::needs::decide;

/// Why a test that calls these is ignored, if it is.
pub(crate) fn missing(called: &BTreeSet<String>) -> Option<String> {
    let missing: Vec<_> = called.iter().filter(|name| !is_installed(name)).collect();
    let names = missing.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
    let packages: BTreeSet<_> = missing.into_iter().map(|name| package(name)).collect();
    let packages = packages.into_iter().collect::<Vec<_>>().join(" ");
    let missing =
        (!names.is_empty()).then(|| format!("{names} not installed (apt-get install {packages})"));
    decide("SUBSCRIPTION_TEST_PROGRAMS", missing)
}

fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).exists())
}

/// The package that has a program, where it is called something else.
fn package(program: &str) -> &str {
    match program {
        "node" => "nodejs",
        "psql" | "pg_dump" | "pg_restore" => "postgresql-client",
        other => other,
    }
}

//! Programs that pages call, and that not every machine has.

use std::collections::BTreeSet;
use std::env;
use std::process::Command;

use test_support::needs::decide;

/// Why a test that calls these is ignored, if it is.
pub(crate) fn missing(called: &BTreeSet<String>) -> Option<String> {
    let missing: Vec<_> = called.iter().filter(|name| !is_installed(name)).collect();
    let names = missing.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
    let packages: BTreeSet<_> = missing.into_iter().map(|name| package(name)).collect();
    let packages = packages.into_iter().collect::<Vec<_>>().join(" ");
    let missing = if !names.is_empty() {
        Some(format!("{names} not installed (apt-get install {packages})"))
    } else if called.contains("npm") && !reaches_registry() {
        Some("npm cannot reach its registry".to_owned())
    } else {
        None
    };
    decide("SUBSCRIPTION_TEST_PROGRAMS", missing)
}

/// True if npm can ask for a package.
fn reaches_registry() -> bool {
    let mut npm = Command::new("npm");
    npm.args(["view", "jose", "version", "--fetch-retries=0", "--fetch-timeout=10000"]);
    npm.output().is_ok_and(|told| told.status.success())
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

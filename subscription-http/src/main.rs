//! The server as a program.

mod program;

use std::process::ExitCode;

use clap::Parser as _;
use tracing::level_filters::LevelFilter;

use self::program::{Failure, Log, Program};

fn main() -> ExitCode {
    let program = Program::parse();
    let is_server = program.is_server();
    let settings = match program.settings() {
        Ok(settings) => settings,
        Err(failure) => return fail(&failure, false),
    };
    let logged = is_server && settings.log != LevelFilter::OFF;
    // A command logs only warnings and errors.
    let level = if is_server { settings.log } else { settings.log.min(LevelFilter::WARN) };
    // Dropped last, so that its remaining lines are written.
    let log = match Log::start(level) {
        Ok(log) => log,
        Err(error) => return fail(&Failure::from(error), false),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let done = runtime
        .map_err(Failure::from)
        .and_then(|runtime| runtime.block_on(program.run(settings, &log)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => fail(&failure, logged),
    }
}

/// Reports a failure: to the log of a server, else to standard error.
fn fail(failure: &Failure, logged: bool) -> ExitCode {
    use std::io::Write as _;

    if logged {
        tracing::error!("{failure}");
    } else {
        writeln!(std::io::stderr(), "{failure}").ok();
    }
    ExitCode::FAILURE
}

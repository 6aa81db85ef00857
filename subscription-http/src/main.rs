//! The server as a program.

mod program;

use std::io::Write as _;
use std::process::ExitCode;

use tracing::level_filters::LevelFilter;

use self::program::{Failure, Level, Log, Program};

fn main() -> ExitCode {
    let program = match Program::read() {
        Ok(program) => program,
        Err(failure) => return fail(&failure, false),
    };
    let is_server = program.is_server();
    let Level(level) = program.settings.log;
    // A command logs only its problems.
    let level = if is_server { level } else { level.min(LevelFilter::WARN) };
    // Dropped last, so that all lines are written.
    let log = match Log::start(level) {
        Ok(log) => log,
        Err(error) => return fail(&Failure::from(error), false),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let done =
        runtime.map_err(Failure::from).and_then(|runtime| runtime.block_on(program.run(&log)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => fail(&failure, is_server && level != LevelFilter::OFF),
    }
}

/// Reports why the program ends: a server in its log, a command on standard error.
fn fail(failure: &Failure, logged: bool) -> ExitCode {
    if logged {
        tracing::error!("{failure}");
    } else {
        writeln!(std::io::stderr(), "{failure}").ok();
    }
    ExitCode::FAILURE
}

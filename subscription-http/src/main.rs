//! The binary `subscription-http`: starts the log and the async runtime, then runs the server or another command.

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
    // Commands other than the server log only warnings and errors.
    let level = if is_server { level } else { level.min(LevelFilter::WARN) };
    // `log` is dropped at the end of `main`. The drop waits until all lines are written, but at most one second.
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

/// Reports the failure that ends the program: in the log if `logged` is true, otherwise on standard error.
fn fail(failure: &Failure, logged: bool) -> ExitCode {
    if logged {
        tracing::error!("{failure}");
    } else {
        writeln!(std::io::stderr(), "{failure}").ok();
    }
    ExitCode::FAILURE
}

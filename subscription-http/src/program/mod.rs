//! The program: what it is told, and what it does about it.

mod clients;
mod demo;
mod keys;
mod log;
mod log_format;
mod open;
mod serve;
mod settings;
mod signals;
mod transfer;

use std::fmt;
use std::path::PathBuf;

use clap::{CommandFactory as _, Parser, Subcommand};

use self::clients::ClientCommand;
use self::demo::Demo;
use self::keys::Keys;
pub(crate) use self::log::Log;
use self::settings::{Flags, KEYS_FILE, Settings};

/// The settings that have no flag, for the end of `--help`.
const IN_THE_FILE: &str = r#"Settings in the file of --config alone:
  [[clients]]           a public client: a browser or an app, which can keep no secret
    id                  its client-id: 1 to 64 of a-z, 0-9 and -
    name                its name for people [default: its id]
    scopes              what it may do: "auth", "plans:read"
    origins             where its pages come from, such as ["https://shop.example"] [default: none]
  [limits]              how often one may ask, as "30/5m", or "off"; all are off in development mode
    sign_in             sign-ins and sign-ups of an address [default: "30/5m"]
    refresh             refreshes of an address [default: "150/5m"]
    refresh_session     refreshes of a session [default: "10/1m"]
    failed_clients      calls of an address with a client-id that is none [default: "20/5m"]
    client              all calls of a confidential client [default: "10000/10s"]
    address             all calls of an address [default: "10000/10s"]"#;

/// Plans, subscriptions and payments over HTTP.
///
/// With no settings it runs in development mode: every client-id and every access token is believed, so it
/// listens on this machine only, and keeps its records in subscription.db and its keys in
/// subscription.keys in the working folder.
#[derive(Debug, Parser)]
#[command(version, after_long_help = IN_THE_FILE)]
pub(crate) struct Program {
    #[command(flatten)]
    flags: Flags,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve; what is done if no command is given.
    Serve,
    /// Bring the tables of the database up to date, and end.
    Migrate,
    /// The programs that may call.
    #[command(subcommand)]
    Client(ClientCommand),
    /// The keys that tokens are signed with.
    #[command(subcommand)]
    Key(KeyCommand),
    /// Write all that is in the database to a file, as JSON lines. People are in it: it is for its owner's
    /// eyes only.
    Export {
        /// The file, which must not be there yet.
        file: PathBuf,
    },
    /// Read such a file into a database that is empty, of whichever kind. With --users any it may hold
    /// subscriptions of people without an account besides accounts.
    Import {
        /// The file.
        file: PathBuf,
    },
    /// Fill a database that is empty with two years of a small business that never was, to look around in.
    Demo(Demo),
    /// Print the OpenAPI document.
    Openapi,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    /// Take the next keys into use and make new next ones; make the file if there is none. Instances use
    /// them once they are started anew.
    Rotate,
}

/// Why the program ends, in words for who started it.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(told: impl Into<String>) -> Self {
        Self(told.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    /// With all that led to it.
    fn from(error: E) -> Self {
        let mut told = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_told = cause.to_string();
            if !told.contains(&cause_told) {
                told = format!("{told}: {cause_told}");
            }
            source = cause.source();
        }
        Self(told)
    }
}

impl Program {
    /// What it was told, and with what.
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        let command = Self::command();
        let known = command.get_arguments().filter_map(|flag| flag.get_env()?.to_str());
        let known: Vec<_> = known.map(str::to_owned).collect();
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        let variables = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
        settings::environment::check(variables, &known)?;
        Settings::new(self.flags.clone())
    }

    /// True if what is done is logged; else it is said.
    pub(crate) const fn is_server(&self) -> bool {
        matches!(self.command, None | Some(Command::Serve))
    }

    /// Does what it was told.
    pub(crate) async fn run(self, settings: Settings, log: &Log) -> Result<(), Failure> {
        match self.command.unwrap_or(Command::Serve) {
            Command::Serve => serve::serve(&settings, log).await,
            Command::Migrate => {
                open::Opened::new(&settings, false).await?.close().await;
                say(&format!("{:?} is up to date", settings.database()?));
                Ok(())
            }
            Command::Client(command) => clients::run(command, &settings).await,
            Command::Key(KeyCommand::Rotate) => rotate(&settings),
            Command::Export { file } => transfer::export(&settings, &file).await,
            Command::Import { file } => transfer::import(&settings, &file).await,
            Command::Demo(demo) => demo::run(demo, &settings).await,
            Command::Openapi => {
                say(subscription_http::openapi_json());
                Ok(())
            }
        }
    }
}

fn rotate(settings: &Settings) -> Result<(), Failure> {
    let path = settings.keys.clone().unwrap_or_else(|| PathBuf::from(KEYS_FILE));
    let keys = match Keys::read(&path)? {
        Some(mut keys) => {
            keys.rotate()?;
            keys
        }
        None => Keys::generate()?,
    };
    keys.write(&path)?;
    say(&format!("wrote {}: start every instance anew to use it", path.display()));
    if keys.are_full() {
        say(
            "the next rotation drops the oldest key: before it, give clients whose keys are as old \
             new ones (subscription-http client rotate-key)",
        );
    }
    Ok(())
}

/// Says a line to whoever started us, if they still listen.
pub(crate) fn say(line: &str) {
    use std::io::Write as _;
    writeln!(std::io::stdout(), "{}", line.trim_end()).ok();
}

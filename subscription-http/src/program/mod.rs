//! The program: its command line and its commands.

pub(crate) mod background;
pub(crate) mod commands;
mod keys;
mod log;
mod open;
mod providers;
mod serve;
mod settings;
mod signals;
mod webhooks;

use std::collections::BTreeSet;
use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use subscription_http::{ApiPart, openapi_json_for};

use self::commands::billing_pause::BillingCommand;
use self::commands::clients::ClientCommand;
use self::commands::demo::Demo;
use self::commands::events::EventsCommand;
use self::commands::{api_client, billing_pause, clients, demo, events, transfer};
use self::keys::Keys;
pub(crate) use self::log::Log;
use self::open::Opened;
use self::providers::ProviderCommand;
use self::settings::{ClockKind, Console};
pub(crate) use self::settings::{Level, Settings};
use self::webhooks::WebhookCommand;

/// A server for plans, subscriptions and payments over HTTP.
///
/// Without settings it runs in development mode: it trusts every client-id and every access token, and so
/// listens on this machine only. It stores its records in subscription.db and its keys in
/// subscription.keys, in the working directory.
#[derive(Parser)]
#[command(version, after_long_help = settings::help())]
pub(crate) struct Program {
    #[command(flatten)]
    pub(crate) settings: Settings,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Serve requests; the default command.
    Serve,
    /// Update the tables of the database, and exit.
    Migrate,
    /// Manage the clients: the programs that may call this server.
    #[command(subcommand)]
    Client(ClientCommand),
    /// Manage the keys that sign tokens.
    #[command(subcommand)]
    Key(KeyCommand),
    /// Write all records of the database to a file, as JSON lines. The file holds personal data: only its
    /// owner can read it.
    Export {
        /// The file; it must not exist.
        file: PathBuf,
    },
    /// Read an exported file into an empty database: SQLite or PostgreSQL. With --users any the file may also hold
    /// subscriptions of users without an account.
    Import {
        /// The exported file.
        file: PathBuf,
        /// For a move to another database: billing, a manual clock and webhook endpoints continue as they were. Without
        /// this flag, billing is paused until `billing resume`, endpoints are disabled, and the machine's clock is
        /// used.
        #[arg(long)]
        as_is: bool,
    },
    /// Pause or resume billing, or print its state; an import pauses it.
    #[command(subcommand)]
    Billing(BillingCommand),
    /// Sync with payment providers.
    #[command(subcommand)]
    Provider(ProviderCommand),
    /// Print the events of a running server, one JSON object a line.
    Events(EventsCommand),
    /// Manage the endpoints that a running server sends events to, or check a signature.
    #[command(subcommand)]
    Webhook(WebhookCommand),
    /// Fill an empty database with two years of an invented business, to try things out.
    Demo(Demo),
    /// Print the OpenAPI document. It has the routes of optional features (--self-service, --clock manual, --console,
    /// --portal-url, [providers], [webhooks]) only if the settings enable them.
    Openapi,
    /// Check that the server on this machine, at the port of --listen, is ready, and fail if it is not: for the health
    /// check of a container without a shell.
    Health,
    /// Print a script that completes commands and options in a shell.
    Completions {
        /// The shell that reads the script.
        shell: clap_complete::Shell,
    },
    /// Print the manual page.
    Man,
}

#[derive(Subcommand)]
enum KeyCommand {
    /// Start to use the next keys, which the key file already has, and create new next keys. If the key file does not
    /// exist, create it. Restart every instance afterwards.
    Rotate {
        /// Do nothing if there is a key file.
        #[arg(long)]
        if_missing: bool,
    },
}

/// The error message with which the program ends.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    /// Joins the messages of the error and of all its causes.
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            source = cause.source();
        }
        Self(message)
    }
}

impl Program {
    /// Reads the command line, the environment and the settings file. With `--help`, or with a wrong flag, the process
    /// exits.
    pub(crate) fn read() -> Result<Self, Failure> {
        let is_command = |word| Self::command().find_subcommand(word).is_some();
        let matches = command_line(std::env::args_os().skip(1).any(is_command)).get_matches();
        let command = matches.subcommand().map(|_| Command::from_arg_matches(&matches));
        let command = command.transpose()?;
        if let Some(Command::Completions { .. } | Command::Man) = command {
            return Ok(Self { settings: Settings::default(), command });
        }
        settings::unknown_names::check_environment()?;
        Ok(Self { settings: Settings::read(&matches)?, command })
    }

    pub(crate) const fn is_server(&self) -> bool {
        matches!(self.command, None | Some(Command::Serve))
    }

    pub(crate) async fn run(self, log: &Log) -> Result<(), Failure> {
        let settings = self.settings;
        match self.command.unwrap_or(Command::Serve) {
            Command::Serve => serve::serve(&settings, log).await,
            Command::Migrate => {
                let began = Instant::now();
                let opened = Opened::new(&settings, false).await?;
                let (before, now) = opened.migrated().map_or((0, 0), |it| (*it.start(), *it.end()));
                opened.close().await;
                let database = settings.database()?;
                print(&if before == now {
                    format!("{database:?} is up to date (schema version {now})")
                } else {
                    let seconds = began.elapsed().as_secs_f64();
                    format!(
                        "{database:?} was migrated from schema version {before} to {now} in {seconds:.1} s"
                    )
                });
                Ok(())
            }
            Command::Client(command) => clients::run(command, &settings).await,
            Command::Key(KeyCommand::Rotate { if_missing }) => rotate(&settings, if_missing).await,
            Command::Export { file } => transfer::export(&settings, &file).await,
            Command::Import { file, as_is } => transfer::import(&settings, &file, as_is).await,
            Command::Billing(command) => billing_pause::run(command, &settings).await,
            Command::Provider(command) => providers::run(command, &settings).await,
            Command::Events(command) => events::run(command).await,
            Command::Webhook(command) => webhooks::run(command).await,
            Command::Demo(demo) => demo::run(demo, &settings).await,
            Command::Openapi => {
                let mut parts = vec![ApiPart::Billing];
                parts.extend((settings.clock == ClockKind::Manual).then_some(ApiPart::Clock));
                let has_console = settings.console() != Console::Off;
                parts.extend(settings.serves_docs().then_some(ApiPart::Docs));
                parts.extend(has_console.then_some(ApiPart::Figures));
                parts.extend(settings.portal_url.is_some().then_some(ApiPart::Portal));
                parts.extend(settings.has_providers().then_some(ApiPart::Providers));
                parts.extend(settings.has_webhooks().then_some(ApiPart::Webhooks));
                print(openapi_json_for(&settings.self_service, &parts));
                Ok(())
            }
            Command::Health => api_client::health(settings.listen).await,
            Command::Completions { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(
                    shell,
                    &mut command_line(false),
                    "subscription-http",
                    &mut script,
                );
                // The script has two names for one command, because of the hyphen in `subscription-http`
                // (clap-rs/clap#6421). The replacement makes them equal.
                let script = String::from_utf8_lossy(&script);
                print(&script.replace("subscription__subcmd__http", "subscription__http"));
                Ok(())
            }
            Command::Man => {
                // A closed standard output is not an error.
                clap_mangen::Man::new(command_line(false)).render(&mut std::io::stdout()).ok();
                Ok(())
            }
        }
    }
}

/// The definition of the command line. Every setting may also be given after a command. clap requires no setting,
/// because a setting may also be in the settings file or have a default. If `is_for_command` is true, the help shows
/// only two of the settings.
fn command_line(is_for_command: bool) -> clap::Command {
    Program::command().mut_subcommands(with_reference).mut_args(|setting| {
        let is_shown = matches!(setting.get_id().as_str(), "config" | "database");
        settings::with_variable(setting)
            .global(true)
            .required(false)
            .hide(is_for_command && !is_shown)
    })
}

/// Ends the help of a command, and of its subcommands, with a line that says where the other settings are described.
fn with_reference(command: clap::Command) -> clap::Command {
    command
        .after_help("`subscription-http --help` lists the general options")
        .mut_subcommands(with_reference)
}

async fn rotate(settings: &Settings, if_missing: bool) -> Result<(), Failure> {
    let path = settings.key_file();
    let written = format!("wrote {}: restart every instance to use it", path.display());
    let Some(mut keys) = Keys::read(&path)? else {
        // Another process may create the file at the same time: the keys of that process are not replaced.
        Keys::generate()?.prepare(&path)?.create()?;
        print(&written);
        return Ok(());
    };
    if if_missing {
        return Ok(());
    }
    let named = open::server_keys_named(settings).await;
    keys.rotate(named.as_ref().ok())?;
    keys.prepare(&path)?.replace()?;
    print(&written);
    let named = named.unwrap_or_else(|failure| {
        print(&format!(
            "no old server key was dropped, because the webhook endpoints cannot be read: {failure}"
        ));
        BTreeSet::new()
    });
    if keys.are_full(&named) {
        print(
            "the next rotation drops the oldest server key: first run subscription-http client \
             rotate-key for the clients whose keys were created with that server key",
        );
    }
    Ok(())
}

/// Reads a file of text. The text of the error begins with `failure`.
pub(crate) fn read_text(failure: &str, path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure(format!("{failure} {}: {error}", path.display())))
}

/// Prints a line on standard output. A closed standard output is not an error.
pub(crate) fn print(line: &str) {
    writeln!(std::io::stdout(), "{}", line.trim_end()).ok();
}

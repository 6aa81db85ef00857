//! The server: development mode, in memory, with no set-up at all.

use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use secrecy::SecretSlice;
use subscription_core::auth::{
    Authentication, DevelopmentIdentities, KeyRing, ServerKeys, SigningKey,
};
use subscription_core::{IdSource as _, MemoryStore, RandomIds, SubscriptionService};
use subscription_http::{Api, Limits, Server};
use tokio::signal::unix::{SignalKind, signal};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Plans, subscriptions and payments over HTTP.
///
/// Runs in development mode: every client-id and every access token is believed, everything is kept in
/// memory and ends with the process. So it listens on this machine only.
#[derive(Debug, Parser)]
#[command(version)]
struct Settings {
    /// Where to listen; port 0 is any free one.
    #[arg(long, env = "SUBSCRIPTION_LISTEN", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,

    /// How much to log: error, warn, info, debug, trace or off.
    #[arg(long, env = "SUBSCRIPTION_LOG", default_value = "info")]
    log: LevelFilter,
}

fn main() -> ExitCode {
    let settings = Settings::parse();
    start_log(settings.log);
    let outcome = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(serve(&settings)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            // Why it did not even start is told to those who want no log as well.
            if settings.log == LevelFilter::OFF {
                writeln!(std::io::stderr(), "{error}").ok();
            }
            ExitCode::FAILURE
        }
    }
}

/// Lines for people on a terminal, JSON for machines, on standard error.
fn start_log(level: LevelFilter) {
    // Else it tells of a standard error that is gone on standard error, and panics.
    let lines =
        tracing_subscriber::fmt::layer().with_writer(std::io::stderr).log_internal_errors(false);
    // What carries the requests would tell, at its finest, what is in them.
    let targets = Targets::new()
        .with_target("subscription_http", level)
        .with_target("subscription_core", level)
        .with_default(level.min(LevelFilter::WARN));
    let registry = tracing_subscriber::registry().with(targets);
    if std::io::stderr().is_terminal() {
        registry.with(lines).init();
    } else {
        registry.with(lines.json().flatten_event(true)).init();
    }
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
}

async fn serve(settings: &Settings) -> Result<(), Box<dyn std::error::Error>> {
    let address = settings.listen;
    if !address.ip().is_loopback() {
        let message = "development mode believes everybody, so it listens on this machine only";
        return Err(format!("{message}: use --listen 127.0.0.1:{}", address.port()).into());
    }
    let api = development()?;
    let server = Server::bind(api, address, Limits::default())
        .await
        .map_err(|error| format!("cannot listen on {address}: {error}"))?;
    tracing::warn!("DEVELOPMENT MODE: every client and every token is believed, nothing is kept");
    // Before anybody hears of us, so that nobody can end us the hard way.
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    announce(server.address()?);
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping: finishing what is under way");
    };
    if !server.run(stop).await {
        tracing::warn!("some requests were still under way and were cut off");
    }
    tracing::info!("stopped");
    Ok(())
}

/// The one line on standard output, for whoever started us, if they still listen.
fn announce(address: SocketAddr) {
    writeln!(std::io::stdout(), "listening on http://{address}").ok();
}

/// Everybody's service, in memory, with keys that end with the process.
fn development() -> Result<Api, Box<dyn std::error::Error>> {
    let store = Arc::new(MemoryStore::default());
    let service = SubscriptionService::builder(store).check_users().build();
    let keys = KeyRing::new(SigningKey::ed25519(&new_secret()?)?);
    let server_keys = ServerKeys::new(1, new_secret()?)?;
    let verifier = Arc::new(DevelopmentIdentities);
    let auth = Authentication::builder(service.clone(), verifier, keys, server_keys).build();
    Ok(Api::builder(service, auth, new_secret()?).believe_every_client().build())
}

fn new_secret() -> Result<SecretSlice<u8>, Box<dyn std::error::Error>> {
    let mut bytes = vec![0; 32];
    RandomIds.fill(&mut bytes)?;
    Ok(bytes.into())
}

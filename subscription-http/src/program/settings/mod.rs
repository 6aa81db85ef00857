//! The settings of the program. A flag has priority over an environment variable, then comes the settings file, then
//! the default.
//!
//! [`Settings`] describes each setting once: clap reads its flag and its help text, and serde reads its key in the
//! file. The environment variable of a setting is named after its field: `SUBSCRIPTION_LISTEN` for `listen`. The file
//! is read first. Flags and variables then overwrite the values of the file.

mod file;
mod help;
mod providers;
pub(crate) mod unknown_names;
mod values;
mod webhooks;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Args, FromArgMatches as _};
use serde::Deserialize;
use subscription_core::auth::WebOrigin;
use subscription_core::billing::Policy;
use subscription_core::{CheckoutHosts, OneLivePer, Slug, Timestamp};
use subscription_http::{AllowedHost, Limits, RateLimits, SelfService};

pub(crate) use self::file::ConfiguredClient;
pub(crate) use self::help::help;
pub(crate) use self::providers::ProviderSettings;
pub(crate) use self::values::{
    ClockKind, Console, Database, KeepEvents, Level, Listen, Mode, Switch, Users,
};
use self::values::{Connections, DatabaseConnections, Limit};
pub(crate) use self::webhooks::WebhookSettings;
use super::Failure;

/// The default name of the key file.
const KEYS_FILE: &str = "subscription.keys";

/// The text for the database in the list of missing settings.
pub(crate) const DATABASE_MISSING: &str = "a database: --database postgres://… or sqlite://FILE, or \
                                           DATABASE_URL, or database in the settings file";

/// The settings. In the settings file, a key has the name of the field here.
#[derive(Default, Args, Deserialize)]
#[command(next_help_heading = "General options")]
#[serde(default)]
pub(crate) struct Settings {
    /// A settings file (TOML). Only it can hold [[clients]], `[checkout_hosts]`, [billing], [providers],
    /// [webhooks] and [limits].
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub(crate) config: Option<PathBuf>,

    /// The address to listen on, such as 127.0.0.1:8080, or 0.0.0.0:8080 for all addresses of this
    /// machine; with port 0 the system chooses a free port. [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Listen,

    /// A second address that serves only /metrics and /health, to every caller: keep it private.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics_listen: Option<Listen>,

    /// Where to serve the console, a web page for operators, and the figures at /stats: on (at the address of
    /// --listen), off, or another address. That address then serves the whole API too, and the address of --listen
    /// serves neither the console nor the figures. [default: on in development, off in production]
    #[arg(long, value_name = "WHERE")]
    console: Option<Console>,

    /// Whether to serve the OpenAPI document at /openapi.json and its web page at /docs: on or off. [default: on]
    #[arg(long, value_name = "SWITCH", hide_possible_values = true)]
    docs: Option<Switch>,

    /// Maximum number of open connections; further callers wait until a connection closes. [default: 10000]
    #[arg(long, value_name = "NUMBER")]
    max_connections: Option<Connections>,

    /// Maximum number of open connections from one address, or from one /64 network of IPv6; further ones are
    /// closed. All callers behind a proxy share the proxy's address. [default: 1000]
    #[arg(long, value_name = "NUMBER")]
    max_connections_per_peer: Option<Connections>,

    /// The database: `sqlite://FILE`, `postgres://…`, or `memory:`, which loses everything when the
    /// process ends. [default in development: `sqlite://subscription.db`; required in production]
    #[arg(long, value_name = "URL", hide_env_values = true)]
    // The type is text, because clap prints a value that it cannot parse, and this value may contain a password.
    database: Option<String>,

    /// Maximum number of connections to PostgreSQL. [default: 16]
    #[arg(long, value_name = "NUMBER")]
    database_connections: Option<DatabaseConnections>,

    /// The callers to trust: in development every caller, in production only known clients and verified users.
    /// [default: development]
    #[arg(long)]
    pub(crate) mode: Mode,

    /// The log level: error, warn, info, debug, trace or off. [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log: Level,

    /// Whether the log names the IP address of the caller of each request: on or off. [default: off]
    #[arg(long, value_name = "SWITCH", hide_possible_values = true)]
    log_addresses: Option<Switch>,

    /// The file of the keys that sign tokens; `key rotate` creates the file. [default: subscription.keys]
    #[arg(long, value_name = "FILE")]
    pub(crate) keys: Option<PathBuf>,

    /// The users who can have subscriptions: only those who signed up here, or any UUID, for an application
    /// that has users of its own. [default: accounts]
    #[arg(long)]
    pub(crate) users: Users,

    /// Refuses a second subscription of a user while the first has not ended: with `user` to any plan, with `product`
    /// to a plan with the same `product_id`. [default: off]
    #[arg(long, value_name = "WHAT")]
    pub(crate) one_live_per: Option<OneLivePer>,

    /// A change that users may make to their own subscriptions: cancel, resume or `change_plan`; can be given several
    /// times. [default: none]
    #[arg(long, value_name = "CHANGE", value_delimiter = ',')]
    pub(crate) self_service: Vec<SelfService>,

    /// The slug of a plan that users may change to, with --self-service `change_plan`; can be given several times.
    #[arg(long, value_name = "PLAN", value_delimiter = ',')]
    pub(crate) self_service_plans: Vec<Slug>,

    /// The address of your page on which users manage their subscriptions: https, or http on this machine. Clients with
    /// the scope portal:write make links to it. [default: none]
    #[arg(long, value_name = "URL")]
    pub(crate) portal_url: Option<url::Url>,

    /// How long events are kept: an ISO 8601 duration such as P400D or P2Y, or forever. A reader of the feed
    /// that has missed deleted events gets 410. [default: P400D]
    #[arg(long, value_name = "DURATION")]
    pub(crate) keep_events: KeepEvents,

    /// The clock: that of the machine (system), or, in development mode only, one that /clock/advance turns
    /// (manual). [default: system]
    #[arg(long)]
    pub(crate) clock: ClockKind,

    /// The time at which a manual clock starts in a new database, such as 2030-01-31T00:00:00Z.
    /// [default: the present]
    #[arg(long, value_name = "TIME")]
    pub(crate) clock_at: Option<Timestamp>,

    /// The issuer and audience of the access tokens that this service issues. [default: subscription]
    #[arg(long, value_name = "NAME")]
    pub(crate) issuer: Option<String>,

    /// A proxy whose x-forwarded-for header is trusted; can be given several times.
    #[arg(long = "trusted-proxy", value_name = "IP")]
    #[arg(value_delimiter = ',')]
    pub(crate) trusted_proxies: Vec<IpAddr>,

    /// A host name that requests may be sent to, with or without a port; can be given several times.
    /// [default: any name; in development the names of this machine]
    #[arg(long = "allowed-host", value_name = "HOST")]
    #[arg(value_delimiter = ',')]
    pub(crate) allowed_hosts: Vec<AllowedHost>,

    /// The identity provider's issuer, exactly as in the `iss` of its tokens.
    #[arg(long, value_name = "ISSUER")]
    pub(crate) identity_issuer: Option<String>,

    /// The audience (`aud`) that the identity provider's tokens must have.
    #[arg(long, value_name = "AUDIENCE")]
    pub(crate) identity_audience: Option<String>,

    /// OIDC: the URL of the identity provider's public keys (its `jwks_uri`).
    #[arg(long, value_name = "URL")]
    pub(crate) identity_keys_url: Option<url::Url>,

    /// Token introspection (RFC 7662) instead of OIDC: the URL that verifies each token.
    #[arg(long, value_name = "URL")]
    pub(crate) identity_introspection_url: Option<url::Url>,

    /// The client id with which this service calls the introspection URL.
    #[arg(long, value_name = "ID")]
    pub(crate) identity_client_id: Option<String>,

    /// A file with a secret: the client secret for the introspection URL, or the secret with which an
    /// identity provider signs its tokens (HS256).
    #[arg(long, value_name = "FILE")]
    pub(crate) identity_secret_file: Option<PathBuf>,

    #[arg(skip)]
    pub(crate) clients: Vec<ConfiguredClient>,

    #[arg(skip)]
    pub(crate) checkout_hosts: CheckoutHosts,

    #[arg(skip)]
    pub(crate) billing: Policy,

    /// The table `[providers]`, not yet checked: see [`Settings::provider_settings`].
    #[arg(skip)]
    providers: Option<toml::Value>,

    /// The table `[webhooks]`, not yet checked: see [`Settings::webhook_settings`].
    #[arg(skip)]
    webhooks: Option<toml::Value>,

    #[arg(skip)]
    limits: BTreeMap<String, Limit>,
}

/// Gives a setting its environment variable.
pub(crate) fn with_variable(setting: Arg) -> Arg {
    let variable = match setting.get_id().as_str() {
        // Other programs use the name `DATABASE_URL` too.
        "database" => "DATABASE_URL".to_owned(),
        field => format!("SUBSCRIPTION_{}", field.to_ascii_uppercase()),
    };
    // clap keeps a reference to the name, so the name must live until the process ends.
    setting.env(&*variable.leak())
}

impl Settings {
    /// Reads the settings file, then the flags and variables. Fails if the database URL is not valid.
    pub(crate) fn read(matches: &ArgMatches) -> Result<Self, Failure> {
        let file = matches.get_one::<PathBuf>("config").map(|path| file::read(path));
        let mut settings = file.transpose()?.unwrap_or_default();
        settings.update_from_arg_matches(matches)?;
        unknown_names::check_provider_variables(&settings.provider_variables())?;
        settings.check_clock()?;
        settings.check_portal()?;
        match settings.database {
            Some(_) => settings.database().map(|_| settings),
            None => Ok(settings),
        }
    }

    fn check_clock(&self) -> Result<(), Failure> {
        match (self.clock, self.mode) {
            (ClockKind::Manual, Mode::Production) => {
                Err(Failure::new("--clock manual is for development mode only: leave it out"))
            }
            (ClockKind::System, _) if self.clock_at.is_some() => {
                Err(Failure::new("--clock-at sets a manual clock: use it with --clock manual"))
            }
            _ => Ok(()),
        }
    }

    /// Fails if the URL of the portal is neither https nor http on this machine. Also fails if it has a fragment,
    /// because a link to the portal has its token in the fragment.
    fn check_portal(&self) -> Result<(), Failure> {
        let Some(url) = &self.portal_url else { return Ok(()) };
        let origin = url.origin().ascii_serialization().parse::<WebOrigin>();
        if url.fragment().is_none() && origin.is_ok() {
            return Ok(());
        }
        Err(Failure::new(
            "--portal-url must be an https address without a fragment, such as https://shop.example/account, or \
             http on this machine",
        ))
    }

    /// The database. In production mode it must be set, because a default would create an empty file.
    pub(crate) fn database(&self) -> Result<Database, Failure> {
        match (&self.database, self.mode) {
            (Some(url), _) => url
                .parse()
                .map_err(|error| Failure::new(format!("--database (DATABASE_URL): {error}"))),
            (None, Mode::Development) => Ok(Database::Sqlite("subscription.db".into())),
            (None, Mode::Production) => {
                Err(Failure::new(format!("production mode needs\n  - {DATABASE_MISSING}")))
            }
        }
    }

    /// The files with secrets or personal data that other users of this machine can read, each with what to do.
    pub(crate) fn readable_by_others(&self) -> Vec<String> {
        let has_mode = |path: &Path, bits: u32| {
            std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & bits != 0)
        };
        let mut readable = Vec::new();
        // A group may read secrets: that of the service, where root owns its settings.
        let secrets =
            self.config.iter().filter(|path| file::read(path).is_ok_and(|file| file.has_secrets()));
        for path in secrets.chain(&self.identity_secret_file) {
            if has_mode(path, 0o007) {
                readable.push(format!("{} has secrets: chmod o= it", path.display()));
            }
        }
        if let Ok(Database::Sqlite(path)) = self.database()
            && has_mode(&path, 0o077)
        {
            readable.push(format!("{} has personal data: chmod 600 it", path.display()));
        }
        readable
    }

    /// True if these settings have a secret of a provider, or a database URL with a password.
    fn has_secrets(&self) -> bool {
        let tables = self.providers.iter().filter_map(toml::Value::as_table);
        let mut providers = tables.flat_map(|all| all.values());
        let is_url_with_password =
            |url: &String| url::Url::parse(url).is_ok_and(|url| url.password().is_some());
        providers.any(|it| it.get("api_key").is_some() || it.get("signing_secrets").is_some())
            || self.database.as_ref().is_some_and(is_url_with_password)
    }

    /// Where the console is served.
    pub(crate) fn console(&self) -> Console {
        self.console.unwrap_or(match self.mode {
            Mode::Development => Console::On,
            Mode::Production => Console::Off,
        })
    }

    /// The address of the console's own listener, if it has one.
    pub(crate) fn console_listen(&self) -> Option<Listen> {
        match self.console() {
            Console::At(address) => Some(address),
            Console::On | Console::Off => None,
        }
    }

    /// The addresses to listen on, each with its flag.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        let listeners = [
            ("--listen", Some(self.listen)),
            ("--metrics-listen", self.metrics_listen),
            ("--console", self.console_listen()),
        ];
        listeners.into_iter().filter_map(|(flag, address)| Some((flag, address?.0)))
    }

    /// Fails if two listeners have the same address. Port 0 is allowed for several, because the system chooses a free
    /// port.
    pub(crate) fn check_listeners(&self) -> Result<(), Failure> {
        let mut set = BTreeMap::new();
        for (flag, address) in self.listeners().filter(|(_, address)| address.port() != 0) {
            if let Some(other) = set.insert(address, flag) {
                let hint = match (other, flag) {
                    ("--listen", "--console") => {
                        "use --console on to share the address of --listen"
                    }
                    _ => "they need different addresses",
                };
                return Err(Failure(format!("{other} and {flag} are both {address}: {hint}")));
            }
        }
        Ok(())
    }

    /// True if the OpenAPI document and its web page are served.
    pub(crate) fn serves_docs(&self) -> bool {
        self.docs != Some(Switch::Off)
    }

    /// True if the IP address of each caller is logged.
    pub(crate) fn logs_addresses(&self) -> bool {
        self.log_addresses == Some(Switch::On)
    }

    pub(crate) fn database_connections(&self) -> usize {
        self.database_connections.map_or(16, |number| number.0)
    }

    pub(crate) fn key_file(&self) -> PathBuf {
        self.keys.clone().unwrap_or_else(|| PathBuf::from(KEYS_FILE))
    }

    pub(crate) fn server_limits(&self) -> Limits {
        let mut limits = Limits::default();
        for (setting, limit) in [
            (self.max_connections, &mut limits.connections),
            (self.max_connections_per_peer, &mut limits.connections_per_peer),
        ] {
            *limit = setting.map_or(*limit, |number| number.0);
        }
        limits
    }

    /// The rate limits: the defaults of the mode, each replaced by the limit of the settings file if there is one.
    pub(crate) fn rate_limits(&self) -> RateLimits {
        let mut limits = match self.mode {
            Mode::Development => RateLimits::NONE,
            Mode::Production => RateLimits::production(),
        };
        for (key, _, field) in help::LIMITS {
            if let Some(Limit(quota)) = self.limits.get(key) {
                *field(&mut limits) = *quota;
            }
        }
        limits
    }
}

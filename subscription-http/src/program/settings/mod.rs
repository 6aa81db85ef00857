//! What the program is told: by flags, then by the environment, then by a file, then by default.

mod database;
pub(crate) mod environment;
mod file_keys;
mod spelling;
mod values;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Deserialize;
use subscription_http::{AllowedHost, Limits as ServerLimits, RateLimits};
use tracing::level_filters::LevelFilter;

pub(crate) use self::database::Database;
use self::file_keys::Keys;
pub(crate) use self::values::Users;
use self::values::{Bounded, Connections, DatabaseConnections, Level, Limit, Listen};
use super::Failure;

/// What can be set. Each flag has its variable, and its name with `_` in the file of `--config`.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "General options")]
pub(crate) struct Flags {
    /// A TOML file of settings; also the only place for [[clients]] and [limits].
    #[arg(long, global = true, env = "SUBSCRIPTION_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Where to listen, such as 127.0.0.1:8080, or 0.0.0.0:8080 for all addresses of this machine; port 0
    /// is any free one. [default: 127.0.0.1:8080]
    #[arg(long, global = true, env = "SUBSCRIPTION_LISTEN", value_name = "ADDRESS")]
    listen: Option<Listen>,

    /// Where only /metrics and /health are served as well, to whoever comes: for operators alone.
    #[arg(long, global = true, env = "SUBSCRIPTION_METRICS_LISTEN", value_name = "ADDRESS")]
    metrics_listen: Option<Listen>,

    /// Connections at once, of all callers; more wait until others go. [default: 10000]
    #[arg(long, global = true, env = "SUBSCRIPTION_MAX_CONNECTIONS", value_name = "NUMBER")]
    max_connections: Option<Connections>,

    /// Connections at once of one address; more are closed. All callers behind a proxy have its
    /// address. [default: 1000]
    #[arg(
        long,
        global = true,
        env = "SUBSCRIPTION_MAX_CONNECTIONS_PER_PEER",
        value_name = "NUMBER"
    )]
    max_connections_per_peer: Option<Connections>,

    /// Where records are kept: `sqlite://FILE`, `postgres://…`, or `memory:` for nowhere.
    /// [default in development: `sqlite://subscription.db`; production must be told]
    #[arg(long, global = true, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    // Read later: what cannot be read may hold a password, and would be shown.
    database: Option<String>,

    /// Connections to PostgreSQL, at the most. [default: 16]
    #[arg(long, global = true, env = "SUBSCRIPTION_DATABASE_CONNECTIONS", value_name = "NUMBER")]
    database_connections: Option<DatabaseConnections>,

    /// Whom to believe: everybody in development, those that are set up in production.
    /// [default: development]
    #[arg(long, global = true, env = "SUBSCRIPTION_MODE")]
    mode: Option<Mode>,

    /// How much to log: error, warn, info, debug, trace or off. [default: info]
    #[arg(long, global = true, env = "SUBSCRIPTION_LOG", value_name = "LEVEL")]
    log: Option<Level>,

    /// The file of the keys that tokens are signed with; `key rotate` makes it.
    /// [default: subscription.keys]
    #[arg(long, global = true, env = "SUBSCRIPTION_KEYS", value_name = "FILE")]
    keys: Option<PathBuf>,

    /// Whose subscriptions are taken: only those of people who signed up here, or those of any UUID, for
    /// an application that has users of its own. [default: accounts]
    #[arg(long, global = true, env = "SUBSCRIPTION_USERS")]
    users: Option<Users>,

    /// The issuer and audience of the access tokens that are given out. [default: subscription]
    #[arg(long, global = true, env = "SUBSCRIPTION_ISSUER", value_name = "NAME")]
    issuer: Option<String>,

    /// A proxy whose x-forwarded-for is believed; may be given several times.
    #[arg(
        long = "trusted-proxy",
        global = true,
        env = "SUBSCRIPTION_TRUSTED_PROXIES",
        value_name = "IP",
        value_delimiter = ','
    )]
    trusted_proxies: Vec<IpAddr>,

    /// A name that the server answers to, with a port or any; may be given several times. [default: any
    /// name; in development those of this machine]
    #[arg(
        long = "allowed-host",
        global = true,
        env = "SUBSCRIPTION_ALLOWED_HOSTS",
        value_name = "HOST",
        value_delimiter = ','
    )]
    allowed_hosts: Vec<AllowedHost>,

    /// The identity provider, exactly as it names itself in `iss`.
    #[arg(long, global = true, env = "SUBSCRIPTION_IDENTITY_ISSUER", value_name = "ISSUER")]
    identity_issuer: Option<String>,

    /// The audience that the provider's tokens must be for.
    #[arg(long, global = true, env = "SUBSCRIPTION_IDENTITY_AUDIENCE", value_name = "AUDIENCE")]
    identity_audience: Option<String>,

    /// OIDC: where the provider publishes its keys (its `jwks_uri`).
    #[arg(long, global = true, env = "SUBSCRIPTION_IDENTITY_KEYS_URL", value_name = "URL")]
    identity_keys_url: Option<url::Url>,

    /// Instead of it, RFC 7662: where the provider is asked about each token.
    #[arg(
        long,
        global = true,
        env = "SUBSCRIPTION_IDENTITY_INTROSPECTION_URL",
        value_name = "URL"
    )]
    identity_introspection_url: Option<url::Url>,

    /// Who asks there.
    #[arg(long, global = true, env = "SUBSCRIPTION_IDENTITY_CLIENT_ID", value_name = "ID")]
    identity_client_id: Option<String>,

    /// A file with the secret: of who asks there, or of a host that signs with HS256.
    #[arg(long, global = true, env = "SUBSCRIPTION_IDENTITY_SECRET_FILE", value_name = "FILE")]
    identity_secret_file: Option<PathBuf>,
}

/// The file of settings.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_field_names, reason = "each is named as its flag is")]
struct File {
    listen: Option<Listen>,
    metrics_listen: Option<Listen>,
    max_connections: Option<Connections>,
    max_connections_per_peer: Option<Connections>,
    database: Option<Database>,
    database_connections: Option<DatabaseConnections>,
    mode: Option<Mode>,
    log: Option<Level>,
    keys: Option<PathBuf>,
    users: Option<Users>,
    issuer: Option<String>,
    trusted_proxies: Vec<IpAddr>,
    allowed_hosts: Vec<AllowedHost>,
    identity_issuer: Option<String>,
    identity_audience: Option<String>,
    identity_keys_url: Option<url::Url>,
    identity_introspection_url: Option<url::Url>,
    identity_client_id: Option<String>,
    identity_secret_file: Option<PathBuf>,
    clients: Vec<ConfiguredClient>,
    limits: Limits,
}

/// A client that needs no secret, in the file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConfiguredClient {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) scopes: Vec<String>,
    #[serde(default)]
    pub(crate) origins: Vec<String>,
}

/// How often one may ask, in the file: `"30/5m"` or `"off"`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Limits {
    sign_in: Option<Limit>,
    refresh: Option<Limit>,
    refresh_session: Option<Limit>,
    failed_clients: Option<Limit>,
    client: Option<Limit>,
    address: Option<Limit>,
}

/// All that the program was told, with what it was not told by default.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The file that some of it came from.
    file: Option<PathBuf>,
    pub(crate) listen: SocketAddr,
    pub(crate) metrics_listen: Option<SocketAddr>,
    pub(crate) connections: ServerLimits,
    /// `None`: production mode was told of none.
    database: Option<Database>,
    pub(crate) database_connections: usize,
    pub(crate) mode: Mode,
    pub(crate) log: LevelFilter,
    /// `None`: not said, so that what is kept nowhere needs no file either.
    pub(crate) keys: Option<PathBuf>,
    pub(crate) users: Users,
    pub(crate) issuer: String,
    pub(crate) trusted_proxies: Vec<IpAddr>,
    pub(crate) allowed_hosts: Vec<AllowedHost>,
    pub(crate) identity: IdentitySettings,
    pub(crate) clients: Vec<ConfiguredClient>,
    pub(crate) limits: RateLimits,
}

/// Who vouches for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct IdentitySettings {
    pub(crate) issuer: Option<String>,
    pub(crate) audience: Option<String>,
    pub(crate) keys_url: Option<url::Url>,
    pub(crate) introspection_url: Option<url::Url>,
    pub(crate) client_id: Option<String>,
    pub(crate) secret_file: Option<PathBuf>,
}

/// The file of keys, unless another is named.
pub(crate) const KEYS_FILE: &str = "subscription.keys";

impl Settings {
    /// Puts together what was said where.
    pub(crate) fn new(flags: Flags) -> Result<Self, Failure> {
        let file = flags.config.as_deref().map(File::read).transpose()?.unwrap_or_default();
        let mode = flags.mode.or(file.mode).unwrap_or_default();
        let told = |error| Failure::new(format!("--database (DATABASE_URL): {error}"));
        let database = flags.database.map(|text| text.parse().map_err(told)).transpose()?;
        let by_default = ServerLimits::default();
        let most = |flag: Option<Connections>, file, by_default| {
            flag.or(file).map_or(by_default, Bounded::get)
        };
        Ok(Self {
            file: flags.config,
            listen: flags
                .listen
                .or(file.listen)
                .map_or(([127, 0, 0, 1], 8080).into(), Listen::address),
            metrics_listen: flags.metrics_listen.or(file.metrics_listen).map(Listen::address),
            connections: ServerLimits {
                connections: most(
                    flags.max_connections,
                    file.max_connections,
                    by_default.connections,
                ),
                connections_per_peer: most(
                    flags.max_connections_per_peer,
                    file.max_connections_per_peer,
                    by_default.connections_per_peer,
                ),
                ..by_default
            },
            database: database.or(file.database).or_else(|| Database::by_default(mode)),
            database_connections: flags
                .database_connections
                .or(file.database_connections)
                .map_or(16, Bounded::get),
            mode,
            log: flags.log.or(file.log).map_or(LevelFilter::INFO, Level::filter),
            keys: flags.keys.or(file.keys),
            users: flags.users.or(file.users).unwrap_or_default(),
            issuer: flags.issuer.or(file.issuer).unwrap_or_else(|| "subscription".to_owned()),
            trusted_proxies: listed(flags.trusted_proxies, file.trusted_proxies),
            allowed_hosts: listed(flags.allowed_hosts, file.allowed_hosts),
            identity: IdentitySettings {
                issuer: flags.identity_issuer.or(file.identity_issuer),
                audience: flags.identity_audience.or(file.identity_audience),
                keys_url: flags.identity_keys_url.or(file.identity_keys_url),
                introspection_url: flags
                    .identity_introspection_url
                    .or(file.identity_introspection_url),
                client_id: flags.identity_client_id.or(file.identity_client_id),
                secret_file: flags.identity_secret_file.or(file.identity_secret_file),
            },
            clients: file.clients,
            limits: file.limits.over(mode),
        })
    }

    /// A failure that is about the file, with its name.
    pub(crate) fn in_file(&self, failure: &Failure) -> Failure {
        match &self.file {
            Some(file) => Failure::new(format!("{}: {failure}", file.display())),
            None => Failure::new(failure.to_string()),
        }
    }

    /// The database, which production mode must be told of: a default would be a new and empty file.
    pub(crate) fn database(&self) -> Result<&Database, Failure> {
        self.database.as_ref().ok_or_else(|| {
            Failure::new(format!("production mode cannot go on without\n  - {DATABASE_MISSING}"))
        })
    }
}

/// The values given by flags, or else those of the settings file.
fn listed<T>(flags: Vec<T>, file: Vec<T>) -> Vec<T> {
    if flags.is_empty() { file } else { flags }
}

/// The database, as production mode asks for it.
pub(crate) const DATABASE_MISSING: &str = "a database: --database postgres://… or sqlite://FILE, or \
                                           DATABASE_URL, or database in the file of --config";

impl File {
    fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))?;
        let told = |error: toml::de::Error| {
            let mut shown = error.to_string();
            // The line that it shows may be that of a database, with its password.
            if shown.contains('@') {
                let before = error.span().and_then(|span| text.get(..span.start));
                let line = before.map_or(1, |before| before.matches('\n').count() + 1);
                shown = format!("line {line}: {}", error.message());
            }
            Failure::new(format!("{}: {shown}", path.display()))
        };
        let unknown = file_keys::unknown(&text, &Self::keys()).map_err(told)?;
        if !unknown.is_empty() {
            let unknown = unknown.join("\n  - ");
            return Err(Failure::new(format!(
                "{} has keys that no setting has\n  - {unknown}",
                path.display()
            )));
        }
        toml::from_str(&text).map_err(told)
    }

    fn keys() -> Keys {
        let below =
            vec![("clients", Keys::of::<ConfiguredClient>()), ("limits", Keys::of::<Limits>())];
        Keys { below, ..Keys::of::<Self>() }
    }
}

impl Limits {
    /// What is set, over what the mode has.
    fn over(self, mode: Mode) -> RateLimits {
        let by_default = match mode {
            Mode::Development => RateLimits::NONE,
            Mode::Production => RateLimits::production(),
        };
        let or = |set: Option<Limit>, by_default| set.map_or(by_default, |Limit(quota)| quota);
        RateLimits {
            sign_in: or(self.sign_in, by_default.sign_in),
            refresh: or(self.refresh, by_default.refresh),
            refresh_session: or(self.refresh_session, by_default.refresh_session),
            failed_clients: or(self.failed_clients, by_default.failed_clients),
            client: or(self.client, by_default.client),
            address: or(self.address, by_default.address),
        }
    }
}

/// Whom to believe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// Everybody, on this machine only.
    #[default]
    Development,
    /// Clients and people that are set up.
    Production,
}

#[cfg(test)]
mod tests {
    use super::super::IN_THE_FILE;
    use super::*;

    #[test]
    fn help_tells_of_every_key_of_the_file_that_has_no_flag_with_its_default() {
        let keys = File::keys();

        for (table, below) in &keys.below {
            for key in below.own {
                let line = IN_THE_FILE.lines().find(|line| {
                    line.strip_prefix("    ")
                        .is_some_and(|line| line.starts_with(&format!("{key} ")))
                });
                assert!(line.is_some(), "{key} of {table}");
            }
        }
        let default = |line: &str| {
            line.split_once("[default: \"")?.1.split_once('"').map(|it| it.0.to_owned())
        };
        let mut shown = IN_THE_FILE.lines().filter_map(default).map(Limit::try_from);
        let RateLimits { sign_in, refresh, refresh_session, failed_clients, client, address } =
            RateLimits::production();
        for limit in [sign_in, refresh, refresh_session, failed_clients, client, address] {
            assert_eq!(shown.next(), Some(Ok(Limit(limit))));
        }
        assert_eq!(shown.next(), None);
    }

    #[test]
    fn a_flag_goes_before_the_file_and_the_file_before_the_default() {
        let folder = std::env::temp_dir().join(format!("settings-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("settings.toml");
        let text = "listen = \"127.0.0.1:1\"\nmode = \"production\"\nmax_connections = 5\n\
                    max_connections_per_peer = 3\nmetrics_listen = \"127.0.0.1:3\"\n\
                    [limits]\nsign_in = \"off\"\n";
        std::fs::write(&file, text).unwrap();
        let flags = Flags {
            config: Some(file),
            listen: Some("127.0.0.1:2".parse().unwrap()),
            max_connections_per_peer: Some("4".parse().unwrap()),
            ..Flags::default()
        };

        let settings = Settings::new(flags).unwrap();

        assert_eq!(settings.listen.port(), 2);
        assert_eq!(settings.metrics_listen, Some(([127, 0, 0, 1], 3).into()));
        let limits = settings.connections;
        assert_eq!((limits.connections, limits.connections_per_peer), (5, 4));
        assert_eq!(limits.head_bytes, ServerLimits::default().head_bytes);
        assert_eq!(settings.mode, Mode::Production);
        assert_eq!(settings.database, None);
        let expected = RateLimits { sign_in: None, ..RateLimits::production() };
        assert_eq!(settings.limits, expected);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

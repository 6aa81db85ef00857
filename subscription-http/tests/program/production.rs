//! Production mode: only known clients and verified users are trusted.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::running::{Running, command_in, folder, run};

/// A folder with settings that are complete, but for what is left out.
fn settings(folder: &Path, without: &str) -> PathBuf {
    let file = folder.join("settings.toml");
    let text = r#"
mode = "production"
database = "sqlite://records.db"
keys = "server.keys"
identity_issuer = "https://accounts.example.com"
identity_audience = "shop"
identity_secret_file = "provider.secret"

[[clients]]
id = "web"
scopes = ["auth", "plans:read"]

[limits]
sign_in = "2/5m"
"#;
    let text: Vec<_> =
        text.lines().filter(|line| without.is_empty() || !line.starts_with(without)).collect();
    std::fs::write(&file, text.join("\n")).unwrap();
    std::fs::write(folder.join("provider.secret"), "0123456789abcdef0123456789abcdef\n").unwrap();
    file
}

/// The names of what is in a folder.
fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn all_missing_settings_are_reported_at_once() {
    let (output, errors) =
        run(command_in(&folder()).args(["--mode", "production", "--listen", "127.0.0.1:0"]));

    assert_eq!(output.status.code(), Some(1));
    for part in [
        "a database: --database postgres://",
        "an identity provider:",
        "keys: subscription-http key rotate",
        "clients:",
    ] {
        assert!(errors.contains(part), "{part} in {errors}");
    }
}

#[test]
fn all_missing_settings_beside_a_database_are_reported_at_once() {
    let folder = folder();
    let database = ["--mode", "production", "--database", "sqlite://records.db"];
    let (made, errors) = run(command_in(&folder).args(database).arg("migrate"));
    assert!(made.status.success(), "{errors}");

    let (output, errors) = run(command_in(&folder).args(database));

    assert_eq!(output.status.code(), Some(1));
    for part in ["an identity provider:", "keys:", "clients:"] {
        assert!(errors.contains(part), "{part} in {errors}");
    }
    assert!(!errors.contains("a database:"), "{errors}");
}

#[test]
fn every_command_of_production_mode_asks_for_the_database_and_none_makes_a_file() {
    let folder = folder();
    let file = settings(&folder, "database");
    let config = ["--config", file.to_str().unwrap()];
    run(command_in(&folder).args(config).args(["key", "rotate"]));
    let before = files(&folder);
    for command in [
        &["migrate"][..],
        &["client", "list"],
        &["client", "add", "--name", "shop", "--scope", "plans:read"],
        &["export", "all.jsonl"],
        &["import", "settings.toml"],
        &["serve"],
    ] {
        let (output, errors) = run(command_in(&folder).args(config).args(command));

        assert_eq!(output.status.code(), Some(1), "{command:?}: {errors}");
        assert!(errors.contains("a database: --database"), "{command:?}: {errors}");
        assert_eq!(files(&folder), before, "{command:?}");
    }
}

#[test]
fn a_database_on_another_machine_needs_an_sslmode_and_no_command_connects_without() {
    let folder = folder();
    // The listener is what a password would be sent to.
    let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let host = format!("0.0.0.0:{}", listener.local_addr().unwrap().port());
    for mode in ["", "?sslmode=prefer", "?sslmode=allow"] {
        let url = format!("postgres://billing:hunter2@{host}/billing{mode}");
        let database = ["--mode", "production", "--database", &url];

        for command in ["migrate", "export all.jsonl"] {
            let (output, errors) = run(command_in(&folder).args(database).args(command.split(' ')));

            assert_eq!(output.status.code(), Some(1), "{mode}: {errors}");
            assert!(errors.contains("?sslmode=verify-full&sslrootcert="), "{mode}: {errors}");
            assert!(!errors.contains("hunter2"), "{errors}");
        }
    }
    let nobody = listener.accept().map(drop).unwrap_err();
    assert_eq!(nobody.kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_server_warns_of_connections_to_its_database_that_others_could_read() {
    for (mode, warning) in [
        ("disable", "the connection to PostgreSQL is not encrypted: whoever is between"),
        ("require", "the connection to PostgreSQL is encrypted, but every certificate"),
        ("verify-ca", "the connection to PostgreSQL accepts a certificate for any host"),
    ] {
        let folder = folder();
        let file = settings(&folder, "database");
        let config = ["--config", file.to_str().unwrap()];
        let (made, errors) = run(command_in(&folder).args(config).args(["key", "rotate"]));
        assert!(made.status.success(), "{errors}");
        let url = format!("postgres://billing@0.0.0.0:1/billing?sslmode={mode}");

        let running = Running::start_in(&folder, |command| {
            command.args(config).env("DATABASE_URL", url);
        });
        running.signal("TERM");
        let (code, _, log) = running.end();

        assert_eq!(code, Some(0), "{mode}: {log}");
        assert!(log.contains(warning), "{mode}: {log}");
    }
}

#[test]
fn a_start_that_fails_leaves_no_file_behind() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let complete = ["--mode", "production", "--identity-issuer", "a", "--identity-audience", "b"];
    let provider = ["--identity-keys-url", "https://a.example/jwks"];
    let database = ["--database", "sqlite://records.db"];
    let bad_client = "[[clients]]\nid = \"web\"\nscopes = [\"plans:write\"]\n";
    let cases: [(&str, Vec<&str>, &str); 7] = [
        ("", vec!["--listen", &taken], "cannot listen on"),
        ("", vec!["--listen", "127.0.0.1:0", "--metrics-listen", &taken], "cannot listen on"),
        ("", vec!["--keys", "nowhere/server.keys"], "cannot write the keys to nowhere"),
        ("", vec!["--database", "sqlite://nowhere/records.db"], "cannot open nowhere/records.db"),
        ("", ["--mode", "production"].into_iter().chain(database).collect(), "clients:"),
        ("", complete.into_iter().chain(provider).chain(database).collect(), "keys:"),
        (bad_client, vec!["--listen", "127.0.0.1:0"], "plans:write"),
    ];
    for (text, flags, told) in cases {
        let folder = folder();
        std::fs::write(folder.join("settings.toml"), text).unwrap();

        let (output, errors) =
            run(command_in(&folder).args(["--config", "settings.toml"]).args(&flags));

        assert_eq!(output.status.code(), Some(1), "{flags:?}: {errors}");
        assert!(errors.contains(told), "{flags:?}: {errors}");
        assert_eq!(files(&folder), ["settings.toml"], "{flags:?}");
    }
}

#[test]
fn a_server_warns_of_secrets_and_records_that_others_can_read() {
    let folder = folder();
    let file = settings(&folder, "");
    let text = std::fs::read_to_string(&file).unwrap();
    let stripe = "\n[providers.stripe]\nkind = \"stripe\"\napi_key = \"rk_live_0123456789\"\n\
                  signing_secrets = [\"whsec_0123456789abcdef\"]\n";
    let config = ["--config", "settings.toml"];
    run(command_in(&folder).args(config).args(["key", "rotate"]));
    let (made, errors) = run(command_in(&folder).args(config).arg("migrate"));
    assert!(made.status.success(), "{errors}");
    let warned = |settings: &str, mode: u32| {
        std::fs::write(&file, settings).unwrap();
        for name in ["settings.toml", "provider.secret", "records.db"] {
            std::fs::set_permissions(folder.join(name), Permissions::from_mode(mode)).unwrap();
        }
        let running = Running::start_in(&folder, |command| {
            command.args(config);
        });
        running.signal("TERM");
        let (code, _, log) = running.end();
        assert_eq!(code, Some(0), "{log}");
        ["settings.toml has secrets", "provider.secret has secrets", "records.db has personal data"]
            .map(|warning| log.contains(&format!("can read a file: {warning}")))
    };

    let with_stripe = format!("{text}{stripe}");
    assert_eq!(warned(&with_stripe, 0o644), [true, true, true]);
    // The group of the service may read its settings.
    assert_eq!(warned(&with_stripe, 0o640), [false, false, true]);
    assert_eq!(warned(&with_stripe, 0o600), [false, false, false]);
    assert_eq!(warned(&text, 0o644), [false, true, true]);
}

#[test]
fn a_start_that_fails_leaves_a_database_that_was_there_as_it_is() {
    let folder = folder();
    std::fs::write(folder.join("notes.txt"), "these are notes, and no database at all").unwrap();

    let (output, errors) = run(command_in(&folder).args(["--database", "sqlite://notes.txt"]));

    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("cannot open notes.txt"), "{errors}");
    assert!(errors.contains("file is not a database"), "{errors}");
    assert_eq!(files(&folder), ["notes.txt"]);
    let text = std::fs::read_to_string(folder.join("notes.txt")).unwrap();
    assert!(text.starts_with("these are notes"));
}

#[test]
fn complete_settings_start_a_server_that_knows_its_clients() {
    let folder = folder();
    let file = settings(&folder, "");
    let config = ["--config", file.to_str().unwrap()];
    let (made, errors) = run(command_in(&folder).args(config).args(["key", "rotate"]));
    assert!(made.status.success(), "{errors}");

    let running = Running::start_in(&folder, |command| {
        command.args(config);
    });

    let ask = |client: &str, path: &str| {
        let head = format!("Host: here\r\nclient-id: {client}\r\nConnection: close");
        running.ask(format!("GET {path} HTTP/1.1\r\n{head}\r\n\r\n"))
    };
    assert!(ask("web", "/subscription-plans").starts_with("HTTP/1.1 200"));
    assert!(ask("web", "/subscriptions").contains("scope_missing"));
    assert!(ask("other", "/subscription-plans").contains("client_unknown"));
}

/// A server in a folder with complete settings, whose clients are those of `clients`.
fn serving(folder: &Path, clients: &str) -> Running {
    let file = settings(folder, "");
    let text = std::fs::read_to_string(&file).unwrap();
    let (before, _) = text.split_once("[[clients]]").unwrap();
    std::fs::write(&file, format!("{before}{clients}")).unwrap();
    let config = ["--config", "settings.toml"];
    if !folder.join("server.keys").exists() {
        run(command_in(folder).args(config).args(["key", "rotate"]));
    }
    Running::start_in(folder, |command| {
        command.args(config);
    })
}

/// Stops a server, so that a command can have its file.
fn stopped(running: Running) {
    running.signal("TERM");
    assert_eq!(running.end().0, Some(0));
}

const WEB: &str = "[[clients]]\nid = \"web\"\nscopes = [\"auth\", \"plans:read\"]\n";
const APP: &str = "[[clients]]\nid = \"app\"\nscopes = [\"auth\", \"plans:read\"]\n";

/// Whether a client may list the plans.
fn is_known(running: &Running, client: &str) -> bool {
    let head = format!("Host: here\r\nclient-id: {client}\r\nConnection: close");
    let answer = running.ask(format!("GET /subscription-plans HTTP/1.1\r\n{head}\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 200") || answer.contains("client_unknown"), "{answer}");
    answer.starts_with("HTTP/1.1 200")
}

#[test]
fn a_client_of_the_file_that_was_revoked_is_refused_after_every_start() {
    let folder = folder();
    let client = |arguments: &[&str]| {
        let config = ["--config", "settings.toml", "client"];
        let (output, errors) = run(command_in(&folder).args(config).args(arguments));
        assert!(output.status.success(), "{errors}");
        String::from_utf8(output.stdout).unwrap()
    };
    let running = serving(&folder, WEB);
    assert!(is_known(&running, "web"));
    stopped(running);
    client(&["revoke", "web"]);

    for _ in 0..2 {
        let running = serving(&folder, WEB);
        assert!(!is_known(&running, "web"));
        stopped(running);
    }
    let list = client(&["list"]);
    assert!(list.contains("auth plans:read, from the settings file, revoked "), "{list}");

    assert_eq!(client(&["restore", "web"]), "web is not revoked\n");
    assert!(is_known(&serving(&folder, WEB), "web"));
}

#[test]
fn a_client_that_left_the_file_is_refused_from_the_next_start_on() {
    let folder = folder();
    let list = || {
        let config = ["--config", "settings.toml", "client", "list"];
        String::from_utf8(run(command_in(&folder).args(config)).0.stdout).unwrap()
    };
    stopped(serving(&folder, &format!("{WEB}{APP}")));
    assert!(!list().contains("removed"), "{}", list());

    let running = serving(&folder, APP);

    assert!(is_known(&running, "app"));
    assert!(!is_known(&running, "web"));
    stopped(running);
    assert!(
        list().contains(
            "web  public  web  auth plans:read, from the settings file, removed from it "
        )
    );
    let back = serving(&folder, &format!("{WEB}{APP}"));
    assert!(is_known(&back, "web"));
}

#[test]
fn without_a_file_those_that_came_from_one_are_no_clients_to_start_with() {
    let folder = folder();
    stopped(serving(&folder, WEB));
    settings(&folder, "");
    let text = std::fs::read_to_string(folder.join("settings.toml")).unwrap();
    let (before, _) = text.split_once("[[clients]]").unwrap();
    std::fs::write(folder.join("settings.toml"), before).unwrap();

    let (output, errors) = run(command_in(&folder).args(["--config", "settings.toml"]));

    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("clients: [[clients]]"), "{errors}");
}

/// It believes everybody anyway, and may be started over the records of production by mistake.
#[test]
fn development_mode_takes_no_client_from_production() {
    let folder = folder();
    stopped(serving(&folder, WEB));
    let development = Running::start_in(&folder, |command| {
        command.args(["--database", "sqlite://records.db", "--keys", "server.keys"]);
    });
    stopped(development);

    let config = ["--config", "settings.toml", "client", "list"];
    let list = String::from_utf8(run(command_in(&folder).args(config)).0.stdout).unwrap();

    assert!(!list.contains("removed"), "{list}");
}

#[test]
fn a_client_of_the_file_is_not_added_by_command_too() {
    let folder = folder();
    stopped(serving(&folder, WEB));
    let add = ["--config", "settings.toml", "client", "add", "--name", "Web", "--scope", "auth"];

    let (output, errors) = run(command_in(&folder).args(add));

    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("the client web is defined in the settings file"), "{errors}");
}

#[test]
fn names_and_origins_of_the_settings_are_kept_to() {
    let folder = folder();
    let clients = format!("{WEB}origins = [\"https://shop.example\"]\n");
    let running = serving(&folder, &clients);
    let ask = |host: &str, path: &str| {
        let head = format!("Host: {host}\r\nclient-id: web\r\nOrigin: https://shop.example");
        running.ask(format!("GET {path} HTTP/1.1\r\n{head}\r\nConnection: close\r\n\r\n"))
    };
    let granted = "access-control-allow-origin: https://shop.example\r\n";
    assert!(ask("any.example", "/subscription-plans").contains(granted));
    stopped(running);

    let config = ["--config", "settings.toml"];
    let running = Running::start_in(&folder, |command| {
        command.args(config).args(["--allowed-host", "billing.example"]);
    });
    let ask = |host: &str, path: &str| {
        let head = format!("Host: {host}\r\nclient-id: web\r\nConnection: close");
        running.ask(format!("GET {path} HTTP/1.1\r\n{head}\r\n\r\n"))
    };
    assert!(ask("billing.example:443", "/subscription-plans").starts_with("HTTP/1.1 200"));
    assert!(ask("any.example", "/subscription-plans").contains("host_invalid"));
    assert!(ask("10.0.0.7:8080", "/health/live").starts_with("HTTP/1.1 200"));
}

#[test]
fn a_clients_key_outlives_four_rotations_and_not_a_fifth() {
    let folder = folder();
    let file = settings(&folder, "");
    let config = ["--config", file.to_str().unwrap()];
    let said = |args: &[&str]| {
        let (output, errors) = run(command_in(&folder).args(config).args(args));
        assert!(output.status.success(), "{errors}");
        String::from_utf8(output.stdout).unwrap()
    };
    said(&["key", "rotate"]);
    let told = said(&["client", "add", "--name", "shop", "--scope", "plans:read"]);
    let key = told.lines().last().unwrap();
    let ask = || {
        let running = Running::start_in(&folder, |command| {
            command.args(config);
        });
        let head = format!("Host: here\r\nclient-id: {key}\r\nConnection: close");
        running.ask(format!("GET /subscription-plans HTTP/1.1\r\n{head}\r\n\r\n"))
    };

    for _ in 0..3 {
        assert!(!said(&["key", "rotate"]).contains("rotate-key"));
    }
    assert!(said(&["key", "rotate"]).contains("subscription-http client rotate-key"));
    assert!(ask().starts_with("HTTP/1.1 200"));

    said(&["key", "rotate"]);
    assert!(ask().contains("client_unknown"));
}

#[test]
fn a_limit_that_was_set_holds() {
    let folder = folder();
    let file = settings(&folder, "");
    let config = ["--config", file.to_str().unwrap()];
    run(command_in(&folder).args(config).args(["key", "rotate"]));
    let running = Running::start_in(&folder, |command| {
        command.args(config);
    });
    let body = r#"{"access_token":"forged","email":"ada@example.com"}"#;
    let head =
        "Host: here\r\nclient-id: web\r\nConnection: close\r\nContent-Type: application/json";
    let length = body.len();
    let sign_in = || {
        running.ask(format!(
            "POST /authentication/sign-in HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
    };

    assert!(sign_in().contains("identity_rejected"));
    assert!(sign_in().contains("identity_rejected"));
    let third = sign_in();
    assert!(third.starts_with("HTTP/1.1 429"), "{third}");
    assert!(third.to_ascii_lowercase().contains("retry-after: "), "{third}");
}

#[test]
fn a_file_of_settings_is_read_to_the_letter() {
    let cases = [
        ("lissten = \"127.0.0.1:1\"", "lissten"),
        ("listen = 5", "listen"),
        ("mode = \"test\"", "development"),
        ("database = \"mysql://x\"", "sqlite://FILE"),
        ("[limits]\nsign_in = \"often\"", "30/5m"),
        ("[[clients]]\nid = \"web\"", "scopes"),
        ("log = \"loud\"", "log must be"),
        ("allowed_hosts = [\"*.example\"]", "a name such as billing.example"),
        ("self_service = [\"pause\"]", "expected one of `cancel`, `resume`, `change_plan`"),
        ("self_service = \"cancel\"", "self_service"),
        ("[checkout_hosts]\n\"pay.example\" = \"paypal\"", "expected `lemon-squeezy` or `stripe`"),
        ("[checkout_hosts]\n\"*.example\" = \"stripe\"", "must be host names such as"),
        ("[checkout_hosts]\n\"https://pay.example\" = \"stripe\"", "must be host names such as"),
        ("[checkout_host]\n\"pay.example\" = \"stripe\"", "did you mean checkout_hosts?"),
        ("checkout_hosts = [\"pay.example\"]", "checkout_hosts"),
        ("[[clients]]\nid = \"web\"\nscopes = []\norigins = [\"*\"]", "must be one origin"),
        ("log = \"loud\"", "settings.toml: TOML parse error at line 1"),
        ("[[clients]]\nid = \"web\"\nscopes = [\"admin\"]", "settings.toml: client"),
        ("database = \"postgres://here:port/x\"", "--database (DATABASE_URL): "),
        ("this is not TOML", "settings.toml"),
    ];
    for (text, told) in cases {
        let folder = folder();
        let file = folder.join("settings.toml");
        std::fs::write(&file, text).unwrap();

        let (output, errors) = run(command_in(&folder).arg("--config").arg(&file));

        assert_eq!(output.status.code(), Some(1), "{text}: {errors}");
        assert!(errors.contains(told), "{text}: {errors}");
    }
    let (output, errors) = run(command_in(&folder()).args(["--config", "nowhere.toml"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("cannot read nowhere.toml"), "{errors}");
}

#[test]
fn a_bad_client_in_the_file_is_told() {
    let folder = folder();
    let file = settings(&folder, "scopes");
    let text = std::fs::read_to_string(&file).unwrap();
    let text = text.replace("id = \"web\"", "id = \"web\"\nscopes = [\"plans:write\"]");
    std::fs::write(&file, text).unwrap();
    let config = ["--config", file.to_str().unwrap()];
    run(command_in(&folder).args(config).args(["key", "rotate"]));

    let (output, errors) = run(command_in(&folder).args(config).args(["--listen", "127.0.0.1:0"]));

    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("client \\\"web\\\""), "{errors}");
    assert!(errors.contains("plans:write: the client is public"), "{errors}");
}

#[test]
fn all_unknown_keys_of_a_file_are_reported_at_once_with_a_hint() {
    let folder = folder();
    let text = "lissten = \"127.0.0.1:1\"\npassword = \"hunter2\"\n[[clients]]\nid = \"web\"\n\
                scope = [\"auth\"]\n[limits]\nsign-in = \"30/5m\"\n[nonsense]\nconfig = 1\n";
    std::fs::write(folder.join("settings.toml"), text).unwrap();

    let (output, errors) = run(command_in(&folder).args(["--config", "settings.toml"]));

    assert_eq!(output.status.code(), Some(1));
    for told in [
        "settings.toml has unknown keys",
        "line 1: unknown key lissten; did you mean listen?",
        "line 2: unknown key password; known keys: listen,",
        "line 5: unknown key scope in [[clients]]; did you mean scopes?",
        "line 7: unknown key sign-in in [limits]; did you mean sign_in?",
        "line 8: unknown key nonsense; known keys: listen,",
    ] {
        assert!(errors.contains(told), "{told} in {errors}");
    }
    assert!(!errors.contains("hunter2"), "{errors}");
    std::fs::write(folder.join("settings.toml"), "limits = 5\nclients = [{ scope = 1 }]\n")
        .unwrap();
    let (_, errors) = run(command_in(&folder).args(["--config", "settings.toml"]));
    assert!(errors.contains("- line 2: unknown key scope in [[clients]]; did you"), "{errors}");
}

#[test]
fn limits_are_requests_in_a_time() {
    let folder = folder();
    let set = |limit: &str| {
        let text = format!("[limits]\nsign_in = \"{limit}\"\n");
        std::fs::write(folder.join("settings.toml"), text).unwrap();
        run(command_in(&folder).args(["--config", "settings.toml", "openapi"])).1
    };
    for limit in ["30/5m", "10/s", "100 / 2h", "off"] {
        assert_eq!(set(limit), "", "{limit}");
    }
    for limit in ["", "30", "0/5m", "30/0s", "30/5", "30/5d", "x/5m", "30/99999999999999999999s"] {
        assert!(set(limit).contains("such as 30/5m, or off"), "{limit}");
    }
}

#[test]
fn an_identity_provider_that_cannot_be_used_is_told_with_its_setting_or_its_file() {
    let folder = folder();
    std::fs::write(folder.join("short.secret"), "0123456789\n").unwrap();
    let whom = ["--identity-issuer", "https://a.example", "--identity-audience", "shop"];
    for (flags, told) in [
        (["--identity-keys-url", "http://a.example/jwks"], "--identity-keys-url cannot be used"),
        (["--identity-keys-url", "https://me:pw@a.example/"], "a user name or a password"),
        (
            ["--identity-introspection-url", "http://a.example/"],
            "--identity-introspection-url cannot be used",
        ),
        (["--identity-secret-file", "short.secret"], "short.secret: the secret is shorter than 32"),
        (["--identity-secret-file", "nowhere.secret"], "cannot read nowhere.secret"),
    ] {
        let (output, errors) = run(command_in(&folder).args(whom).args(flags));

        assert_eq!(output.status.code(), Some(1), "{flags:?}");
        assert!(errors.contains(told), "{flags:?}: {errors}");
        assert_eq!(files(&folder), ["short.secret"], "{flags:?}");
    }
    let here = ["--identity-keys-url", "http://localhost:9/jwks"];
    Running::start_in(&folder, |command| {
        command.args(whom).args(here);
    });
}

#[test]
fn half_an_identity_provider_is_told() {
    let folder = folder();
    for (flags, told) in [
        (["--identity-issuer", "https://a.example"], "--identity-audience"),
        (["--identity-audience", "shop"], "--identity-issuer"),
    ] {
        let (output, errors) = run(command_in(&folder).args(flags));

        assert_eq!(output.status.code(), Some(1));
        assert!(errors.contains(told), "{errors}");
    }
}

#[test]
fn development_mode_takes_no_requests_from_proxies() {
    let (output, errors) = run(command_in(&folder()).args(["--trusted-proxy", "10.0.0.1"]));

    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("--trusted-proxy"), "{errors}");
}

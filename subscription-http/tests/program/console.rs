//! The setting `console`: where the console is served, and where it is not.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;

use subscription_http::{ApiPart, openapi_json_for};

use crate::running::{Running, command, command_in, folder, get, lines, run};

/// Settings of production mode that are complete.
const PRODUCTION: &str = r#"
mode = "production"
database = "sqlite://records.db"
keys = "server.keys"
identity_issuer = "https://accounts.example.com"
identity_audience = "shop"
identity_secret_file = "provider.secret"

[[clients]]
id = "web"
scopes = ["auth", "plans:read"]
"#;

/// A folder with the settings of production mode, and a line before them.
fn production(line: &str) -> std::path::PathBuf {
    let folder = folder();
    std::fs::write(folder.join("settings.toml"), format!("{line}\n{PRODUCTION}")).unwrap();
    std::fs::write(folder.join("provider.secret"), "0123456789abcdef0123456789abcdef\n").unwrap();
    let (made, errors) = run(configured(&folder).args(["key", "rotate"]));
    assert!(made.status.success(), "{errors}");
    folder
}

fn configured(folder: &Path) -> std::process::Command {
    let mut command = command_in(folder);
    command.args(["--config", "settings.toml"]);
    command
}

/// The address of the console, from the log.
fn console_address(running: &mut Running) -> SocketAddr {
    let line = running.log_line("console at ");
    let text = line.get("message").and_then(serde_json::Value::as_str).unwrap();
    let address = text.strip_prefix("console at http://").and_then(|t| t.strip_suffix("/console/"));
    address.expect(text).parse().unwrap()
}

fn is_served(running: &Running, path: &str) -> bool {
    let answer = running.ask(get(path));
    let is_missing = answer.starts_with("HTTP/1.1 404") && answer.contains("route_not_found");
    assert!(is_missing || answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    !is_missing
}

const PATHS: [&str; 3] = ["/console/", "/console/index.html", "/console/settings"];

#[test]
fn in_development_it_is_where_all_else_is() {
    let mut running = Running::start(|_| {});

    assert_eq!(console_address(&mut running), running.address);

    assert!(PATHS.iter().all(|path| is_served(&running, path)));
    let page = running.ask(get("/console/"));
    assert!(page.contains("content-security-policy: default-src 'none'; "), "{page}");
    let moved = running.ask(get("/console"));
    assert!(moved.starts_with("HTTP/1.1 308") && moved.contains("location: console/"), "{moved}");
    let settings = running.ask(get("/console/settings"));
    let capabilities = r#""capabilities":["billing","webhooks"]"#;
    assert!(settings.contains(r#""mode":"development","users":"accounts""#), "{settings}");
    assert!(settings.contains(capabilities), "{settings}");
    let anybody = get("/console/client").replace("Host", "client-id: console\r\nHost");
    let client = running.ask(anybody);
    assert!(client.contains(r#""id":"console""#) && client.contains("payments:write"), "{client}");
}

#[test]
fn off_there_is_none_and_no_line_says_so() {
    let running = Running::start(|command| {
        command.args(["--console", "off"]);
    });

    assert!(!PATHS.iter().any(|path| is_served(&running, path)));
    assert!(!is_served(&running, "/stats/now") && !is_served(&running, "/stats/months"));
    running.signal("TERM");
    let (_, _, log) = running.end();
    let told = |line: &serde_json::Value| line.to_string().contains("console at");
    assert!(!lines(&log).iter().any(told), "{log}");
}

/// Attack C9: the console is open in production by accident.
#[test]
fn in_production_it_is_off_unless_it_is_set() {
    let folder = production("");

    let running = Running::start_as(configured(&folder), |_| {});

    assert!(!PATHS.iter().any(|path| is_served(&running, path)));
    assert!(!is_served(&running, "/stats/now") && !is_served(&running, "/stats/months"));
    assert!(is_served(&running, "/health/live"));
    drop(running);
    for on in ["file", "variable", "flag"] {
        let folder = production(if on == "file" { "console = \"on\"" } else { "" });
        let running = Running::start_as(configured(&folder), |command| {
            match on {
                "variable" => command.env("SUBSCRIPTION_CONSOLE", "on"),
                "flag" => command.args(["--console", "on"]),
                _ => command,
            };
        });

        assert!(PATHS.iter().all(|path| is_served(&running, path)), "{on}");
        let settings = running.ask(get("/console/settings"));
        assert!(settings.contains(r#""mode":"production""#), "{settings}");
        let missing = running.ask(get("/console/client"));
        assert!(missing.starts_with("HTTP/1.1 401"), "{missing}");
    }
}

#[test]
fn at_an_address_of_its_own_it_has_the_whole_api_and_the_other_has_neither_page_nor_figures() {
    let folder = production("");
    let add = ["client", "add", "--name", "ada", "--scope", "subscriptions:read"];
    let (added, errors) = run(configured(&folder).args(add));
    let key = String::from_utf8(added.stdout).unwrap();
    let key = key.lines().last().expect(&errors).to_owned();
    let mut running = Running::start_as(configured(&folder), |command| {
        command.args(["--console", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"]);
    });
    let console = console_address(&mut running);
    assert_ne!(console, running.address);
    let with_key = |path: &str| get(path).replace("Host", &format!("client-id: {key}\r\nHost"));

    assert!(!PATHS.iter().any(|path| is_served(&running, path)));
    assert!(!is_served(&running, "/stats/now") && !is_served(&running, "/stats/months"));
    assert!(running.ask(with_key("/subscriptions")).starts_with("HTTP/1.1 200"));
    assert!(!running.ask(get("/openapi.json")).contains("\"/stats/"));

    let public = std::mem::replace(&mut running.address, console);
    assert!(PATHS.iter().all(|path| is_served(&running, path)));
    for path in ["/console/client", "/subscriptions"] {
        let answer = running.ask(with_key(path));
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }
    assert!(running.ask(with_key("/users")).contains("scope_missing"));
    for path in ["/health/live", "/openapi.json", "/docs"] {
        assert!(is_served(&running, path), "{path}");
    }

    running.address = public;
    running.signal("TERM");
    assert_eq!(running.end().0, Some(0));
    assert!(TcpStream::connect(console).is_err());
}

#[test]
fn requests_that_wait_at_either_address_are_answered_when_the_server_stops() {
    let mut running = Running::start(|command| {
        command.args(["--console", "127.0.0.1:0"]);
    });
    let (console, public) = (console_address(&mut running), running.address);
    let poll = get("/events?wait=20").replace("Host", "client-id: console\r\nHost");
    let waiting: Vec<_> = [console, public]
        .map(|address| {
            use std::io::Write as _;
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(poll.as_bytes()).unwrap();
            stream
        })
        .into();
    // Answered after the polls have arrived: one thread reads each connection in order.
    assert!(is_served(&running, "/health/live"));

    running.signal("TERM");

    for mut stream in waiting {
        use std::io::Read as _;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn values_that_cannot_be_used_are_errors() {
    for value in ["", "yes", "true", "ON", "8080", ":8080", "example.com:443", "127.0.0.1:99999"] {
        let (output, errors) = run(command().env("SUBSCRIPTION_CONSOLE", value));

        assert_eq!(output.status.code(), Some(2), "{value}");
        assert!(errors.contains("--console"), "{value}: {errors}");
        let hint = "must be on, off, or an IP address and a port, such as 127.0.0.1:9080";
        assert!(errors.contains(hint) || value.is_empty(), "{value}: {errors}");
    }
    for text in ["console = true", "console = \"yes\"", "console = 8080", "consol = \"on\""] {
        let folder = folder();
        std::fs::write(folder.join("settings.toml"), text).unwrap();

        let (output, errors) = run(&mut configured(&folder));

        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(errors.contains("console"), "{text}: {errors}");
    }
}

#[test]
fn two_listeners_need_two_addresses() {
    for (flags, told) in [
        (
            vec!["--listen", "127.0.0.1:9", "--console", "127.0.0.1:9"],
            "--listen and --console are both 127.0.0.1:9: use --console on to share the address of --listen",
        ),
        (
            vec!["--metrics-listen", "127.0.0.1:9", "--console", "localhost:9"],
            "--metrics-listen and --console are both 127.0.0.1:9: they need different addresses",
        ),
        (
            vec!["--listen", "127.0.0.1:9", "--metrics-listen", "127.0.0.1:9"],
            "--listen and --metrics-listen are both 127.0.0.1:9: they need different addresses",
        ),
    ] {
        let folder = folder();

        let (output, errors) = run(command_in(&folder).args(&flags));

        assert_eq!(output.status.code(), Some(1), "{flags:?}");
        assert!(errors.contains(told), "{flags:?}: {errors}");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "{flags:?}");
    }
}

#[test]
fn an_address_that_is_in_use_or_open_to_others_is_told() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let free = ["--listen", "127.0.0.1:0"];

    let (output, errors) = run(command().args(free).args(["--console", &address]));
    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains(&format!("cannot listen on {address}")), "{errors}");

    let (output, errors) = run(command().args(free).args(["--console", "0.0.0.0:9"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("use --console 127.0.0.1:9"), "{errors}");
}

#[test]
fn demo_says_where_it_is() {
    let said = |flags: &[&str]| {
        let demo = ["demo", "--subscriptions", "1", "--until", "2025-01-31T12:00:00Z"];
        let (output, errors) = run(command().args(demo).args(flags));
        assert!(output.status.success(), "{errors}");
        String::from_utf8(output.stdout).unwrap()
    };

    assert!(said(&[]).ends_with("http://127.0.0.1:8080/console/\n"));
    assert!(said(&["--listen", "[::1]:80"]).ends_with("http://[::1]:80/console/\n"));
    assert!(said(&["--console", "127.0.0.1:9"]).ends_with("http://127.0.0.1:9/console/\n"));
    assert!(!said(&["--console", "off"]).contains("/console/"));
}

#[test]
fn the_document_that_the_command_prints_has_no_route_of_it() {
    let (output, _) = run(command().args(["openapi", "--console", "off"]));

    let document = String::from_utf8(output.stdout).unwrap();
    let parts = [ApiPart::Billing, ApiPart::Docs, ApiPart::Webhooks];
    assert_eq!(document.trim_end(), openapi_json_for(&[], &parts));
    assert!(!document.contains("\"/console") && !document.contains("\"/stats"));
}

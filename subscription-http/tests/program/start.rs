//! Start, settings, log and stop of the program.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use crate::running::{Running, bare, command, command_in, folder, get, lines, run};

#[test]
fn help_lists_every_flag_with_its_variable_and_default() {
    let (output, _) = run(command().arg("--help"));

    let help = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    for text in [
        "--listen",
        "SUBSCRIPTION_LISTEN",
        "127.0.0.1:8080",
        "--log",
        "SUBSCRIPTION_LOG",
        "default: info",
        "--database",
        "DATABASE_URL",
        "sqlite://subscription.db",
        "--mode",
        "SUBSCRIPTION_MODE",
        "default: development",
        "--config",
        "--keys",
        "--metrics-listen",
        "SUBSCRIPTION_METRICS_LISTEN",
        "--console",
        "SUBSCRIPTION_CONSOLE",
        "default: on in development, off in production",
        "--max-connections",
        "default: 10000",
        "--max-connections-per-peer",
        "default: 1000",
        "--version",
        "migrate",
        "client",
        "key",
        "openapi",
        "[[clients]]",
        "[limits]",
        "sign_in",
        "refresh_session",
        "failed_clients",
        "sign-ins and sign-ups from one address [default: \"30/5m\"]",
        "[default: \"150/5m\"]",
        "[default: \"10/1m\"]",
        "[default: \"20/5m\"]",
        "[default: \"10000/10s\"]",
    ] {
        assert!(help.contains(text), "{text} in {help}");
    }
}

#[test]
fn it_listens_on_this_machine_only() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        for level in ["info", "off"] {
            let (output, errors) = run(command().args(["--listen", address, "--log", level]));

            assert_eq!(output.status.code(), Some(1), "{address} {level}");
            assert!(errors.contains("this machine only"), "{address} {level}: {errors}");
            assert!(errors.contains("--listen 127.0.0.1:"), "{address} {level}: {errors}");
            assert!(output.stdout.is_empty(), "{address} {level}");
        }
    }
}

#[test]
fn a_port_in_use_is_told() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();

    let (output, errors) = run(command().args(["--listen", &address]));

    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains(&format!("cannot listen on {address}")), "{errors}");
    assert!(errors.contains("in use"), "{errors}");
    assert!(output.stdout.is_empty());
}

#[test]
fn settings_that_cannot_be_used_are_errors() {
    let cases = [
        ("SUBSCRIPTION_LISTEN", "here", "--listen"),
        ("SUBSCRIPTION_LISTEN", "", "--listen"),
        ("SUBSCRIPTION_LISTEN", "127.0.0.1:99999", "--listen"),
        ("SUBSCRIPTION_LISTEN", "8080", "such as 127.0.0.1:8080 or"),
        ("SUBSCRIPTION_LISTEN", "example.com:443", "such as 127.0.0.1:443 or"),
        ("SUBSCRIPTION_LISTEN", "localhost", "such as 127.0.0.1:8080 or"),
        ("SUBSCRIPTION_LISTEN", "localhost:99999", "such as 127.0.0.1:8080 or"),
        ("SUBSCRIPTION_METRICS_LISTEN", ":9090", "such as 127.0.0.1:9090"),
        ("SUBSCRIPTION_LOG", "loud", "--log"),
    ];
    for (variable, value, flag) in cases {
        let (output, errors) = run(command().env(variable, value));

        assert_eq!(output.status.code(), Some(2), "{variable}={value}");
        assert!(errors.contains(flag), "{variable}={value}: {errors}");
        assert!(errors.contains(&format!("'{value}'")) || value.is_empty(), "{errors}");
        assert!(!errors.contains("panicked"), "{variable}={value}: {errors}");
    }
    let (output, errors) = run(command().arg("--nonsense"));
    assert_eq!(output.status.code(), Some(2), "{errors}");
}

#[test]
fn absurd_numbers_are_refused_with_the_name_of_their_setting() {
    for flag in ["--database-connections", "--max-connections", "--max-connections-per-peer"] {
        for number in
            ["0", "1000001", "18446744073709551615", "18446744073709551616", "-1", "x", ""]
        {
            let (output, errors) = run(command().arg(format!("{flag}={number}")));

            assert_eq!(output.status.code(), Some(2), "{flag} {number}: {errors}");
            assert!(errors.contains(flag), "{flag} {number}: {errors}");
            assert!(errors.contains("must be a number from 1 to"), "{flag} {number}: {errors}");
        }
    }
    for number in ["10000", "10001", "9223372036854775807"] {
        let folder = folder();
        let text = format!("database_connections = {number}");
        std::fs::write(folder.join("settings.toml"), text).unwrap();

        let (output, errors) =
            run(command_in(&folder).args(["--config", "settings.toml", "openapi"]));

        assert_eq!(output.status.success(), number == "10000", "{errors}");
        assert_eq!(errors.contains("database_connections"), number != "10000", "{errors}");
        let bounds = errors.contains("must be a number from 1 to 10000");
        assert_eq!(bounds, number != "10000", "{errors}");
    }
}

#[test]
fn databases_are_known_by_their_scheme_and_no_password_is_shown() {
    for url in ["memory:", "sqlite:///var/x.db", "sqlite:x.db", "postgresql://me:secret@db/x"] {
        let (output, errors) = run(command().args(["--database", url, "openapi"]));

        assert!(output.status.success(), "{url}: {errors}");
    }
    for url in ["", "mysql://me:secret@db/x", "sqlite://", "sqlite:x.db?mode=ro", "x.db"] {
        let (output, errors) = run(command().args(["--database", url, "openapi"]));

        assert_eq!(output.status.code(), Some(1), "{url}: {errors}");
        assert!(errors.contains("--database (DATABASE_URL): must be sqlite://FILE"), "{errors}");
        assert!(!errors.contains("secret") && !errors.contains("x.db"), "{errors}");
    }
}

#[test]
fn this_machine_may_be_named() {
    let running = Running::start_as(command(), |command| {
        command.env("SUBSCRIPTION_METRICS_LISTEN", "localhost:0");
    });

    assert!(running.ask(get("/health/live")).starts_with("HTTP/1.1 200 "));
}

#[test]
fn all_misspelt_variables_are_reported_at_once_with_a_hint() {
    let (output, errors) = run(command()
        .env("SUBSCRIPTION_MOED", "production")
        .env("SUBSCRIPTION_KEY", "server.keys")
        .env("SUBSCRIPTION_MAXCONNECTIONSPERPEER", "5")
        .env("SUBSCRIPTION_TRUSTED-PROXIES", "10.0.0.1")
        .env("SUBSCRIPTION_PASSWORD", "hunter2")
        .env("SUBSCRIPTION_TEST_POSTGRES", "skip")
        .arg("migrate"));

    assert_eq!(output.status.code(), Some(1));
    for line in [
        "SUBSCRIPTION_KEY: did you mean SUBSCRIPTION_KEYS?\n",
        "SUBSCRIPTION_MAXCONNECTIONSPERPEER: did you mean SUBSCRIPTION_MAX_CONNECTIONS_PER_PEER?\n",
        "SUBSCRIPTION_MOED: did you mean SUBSCRIPTION_MODE?\n",
        "SUBSCRIPTION_PASSWORD\n",
        "SUBSCRIPTION_TRUSTED-PROXIES: did you mean SUBSCRIPTION_TRUSTED_PROXIES?\n",
    ] {
        assert!(errors.contains(&format!("\n  - {line}")), "{line} in {errors}");
    }
    assert!(!errors.contains("SUBSCRIPTION_TEST") && !errors.contains("hunter2"), "{errors}");
}

/// Kubernetes sets them in every container, about a service that is named `subscription…`.
#[test]
fn variables_of_container_platforms_are_ignored() {
    let (output, errors) = run(command()
        .env("SUBSCRIPTION_HTTP_SERVICE_HOST", "10.0.0.1")
        .env("SUBSCRIPTION_HTTP_SERVICE_PORT", "8080")
        .env("SUBSCRIPTION_HTTP_SERVICE_PORT_HTTP", "8080")
        .env("SUBSCRIPTION_HTTP_PORT", "tcp://10.0.0.1:8080")
        .env("SUBSCRIPTION_HTTP_PORT_8080_TCP_PROTO", "tcp")
        .env("SUBSCRIPTION_PORT_8080_TCP", "tcp://10.0.0.1:8080")
        .arg("openapi"));
    assert!(output.status.success(), "{errors}");

    let (output, _) = run(command().env("SUBSCRIPTION_PORT", "8080").arg("openapi"));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn help_of_a_command_shows_its_own_options_first_and_every_scope() {
    let (output, _) = run(command().args(["client", "add", "--help"]));

    let help = String::from_utf8(output.stdout).unwrap();
    let (own, general) = help.split_once("General options:").unwrap();
    for text in [
        "--name",
        "--id",
        "--scope",
        "--public",
        "auth",
        "plans:read",
        "plans:write",
        "subscriptions:read",
        "subscriptions:write",
        "payments:read",
        "payments:write",
        "users:read",
        "users:write",
        "events:read",
        "providers:read",
        "providers:write",
        "assert-ip",
    ] {
        assert!(own.contains(text), "{text} in {help}");
    }
    for text in ["--config", "--database"] {
        assert!(!own.contains(text), "{text} in {own}");
        assert!(general.contains(text), "{text} in {general}");
    }
    assert!(!help.contains("admin"), "{help}");
}

#[test]
fn a_flag_goes_before_a_variable_and_both_before_the_file() {
    let folder = folder();
    let text = "listen = \"0.0.0.0:0\"\nmax_connections_per_peer = 1\nlog = \"off\"";
    std::fs::write(folder.join("settings.toml"), text).unwrap();
    let running = Running::start_in(&folder, |command| {
        command.args(["--config", "settings.toml"]);
        command.env("SUBSCRIPTION_LISTEN", "0.0.0.0:0");
        command.env("SUBSCRIPTION_MAX_CONNECTIONS_PER_PEER", "2");
    });

    assert!(running.address.ip().is_loopback());
    // Each has its answer before the next one comes: then the server has counted it.
    let _held = [(); 2].map(|()| {
        let mut stream = TcpStream::connect(running.address).unwrap();
        stream.write_all(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).unwrap();
        assert_eq!(&begin, b"HTTP/1.1 200");
        stream
    });
    assert_eq!(running.try_ask(get("/health/live")), "");
    running.signal("TERM");
    assert_eq!(running.end(), (Some(0), String::new(), String::new()));
}

#[test]
fn it_says_one_line_answers_and_ends_well_at_each_signal() {
    // A server that was started with HUP ignored, as all under `nohup` are, ignores it rightly.
    let names: &[_] = if ignores_hup() { &["TERM", "INT"] } else { &["TERM", "INT", "HUP"] };
    for &name in names {
        let running = Running::start(|_| {});
        assert!(running.ask(get("/health/live")).starts_with("HTTP/1.1 200 "), "{name}");
        running.signal(name);

        let (code, out, errors) = running.end();

        assert_eq!(code, Some(0), "{name}: {errors}");
        assert_eq!(out, "", "{name}");
    }
}

/// True if this process, and so each that it starts, ignores the signal HUP (number 1).
fn ignores_hup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 != 0)
}

#[test]
fn a_closed_terminal_ends_nothing_that_was_started_to_survive_it() {
    let mut shell = bare("sh", &folder());
    let program = env!("CARGO_BIN_EXE_subscription-http");
    shell.args(["-c", "trap '' HUP && exec \"$0\" \"$@\"", program]);
    let running = Running::start_as(shell, |_| {});
    running.signal("HUP");

    assert!(running.ask(get("/health/live")).starts_with("HTTP/1.1 200 "));

    running.signal("TERM");
    assert_eq!(running.end().0, Some(0));
}

/// A reader of the line may act on it at once.
#[test]
fn a_signal_right_after_the_line_ends_it_well() {
    for n in 0..10 {
        let running = Running::start(|_| {});
        running.signal("TERM");

        let (code, _, errors) = running.end();

        assert_eq!(code, Some(0), "{n}: {errors}");
    }
}

#[test]
fn connections_that_idle_do_not_hold_up_its_end() {
    let running = Running::start(|_| {});
    let _silent = TcpStream::connect(running.address).unwrap();
    let mut half = TcpStream::connect(running.address).unwrap();
    half.write_all(b"GET /health/live HTTP/1.1\r\n").unwrap();
    assert!(running.ask(get("/health/live")).starts_with("HTTP/1.1 200 "));
    running.signal("TERM");

    let (code, _, errors) = running.end();

    assert_eq!(code, Some(0), "{errors}");
    assert!(!errors.contains("cut off"), "{errors}");
}

#[test]
fn the_documents_of_the_api_are_served_unless_they_are_turned_off() {
    for (docs, status) in [(None, "200"), (Some("on"), "200"), (Some("off"), "404")] {
        let folder = folder();
        let text = docs.map(|docs| format!("docs = \"{docs}\"\n")).unwrap_or_default();
        std::fs::write(folder.join("settings.toml"), text).unwrap();
        let config = ["--config", "settings.toml"];
        let running = Running::start_in(&folder, |command| {
            command.args(config).args(["--database", "memory:"]);
        });
        let (printed, _) = run(command_in(&folder).args(config).arg("openapi"));

        for path in ["/openapi.json", "/docs"] {
            let answer = running.ask(get(path));
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{docs:?} {answer}");
            let printed = String::from_utf8_lossy(&printed.stdout);
            assert_eq!(printed.contains(&format!("\"{path}\":")), status == "200", "{docs:?}");
        }
        let keys = running.ask(get("/.well-known/jwks.json"));
        assert!(keys.starts_with("HTTP/1.1 200 "), "{docs:?} {keys}");
    }
}

#[test]
fn the_log_is_json_one_line_for_each_request() {
    let running = Running::start(|_| {});
    for _ in 0..3 {
        running.ask(get("/health/live"));
    }
    running.ask(get("/nowhere").replace("Host", "x-request-id: mine\r\nHost"));
    running.signal("TERM");

    let (_, _, log) = running.end();

    let lines = lines(&log);
    let answered: Vec<_> = lines.iter().filter(|line| line["message"] == "request").collect();
    assert_eq!(answered.len(), 4, "{log}");
    assert_eq!(answered[0]["route"], "/health/live");
    assert_eq!(answered[0]["level"], "INFO");
    assert!(answered[0]["target"].as_str().unwrap().starts_with("subscription_http"), "{log}");
    assert!(answered[0]["timestamp"].as_str().unwrap().ends_with('Z'), "{log}");
    assert_eq!(answered[0]["status"], 200);
    assert_eq!((&answered[3]["status"], &answered[3]["request_id"]), (&404.into(), &"mine".into()));
    let loud = |line: &serde_json::Value| line.to_string().contains("DEVELOPMENT MODE");
    assert!(lines.iter().any(loud), "{log}");
}

#[test]
fn the_log_tells_no_secrets_even_at_its_finest() {
    let secrets = ["client-secret", "bearer-secret", "body-secret", "path-secret", "query-secret"];
    let running = Running::start(|command| {
        command.env("SUBSCRIPTION_LOG", "trace");
    });
    let body = r#"{"access_token":"body-secret","email":"ada@example.com"}"#;
    let headers = "Host: localhost\r\nclient-id: client-secret\r\nAuthorization: Bearer bearer-secret\r\n\
                   Connection: close\r\nContent-Type: application/json";
    let length = body.len();
    let mut answers = String::new();
    for (method, path) in [
        ("POST", "/authentication/sign-up"),
        ("POST", "/authentication/sign-in"),
        ("POST", "/authentication/refresh-token"),
        ("POST", "/authentication/user-logged-in"),
        ("GET", "/authentication/tokens"),
        ("GET", "/subscription-plans/path-secret?limit=query-secret"),
        ("GET", "/path-secret?token=query-secret"),
    ] {
        let head = format!("{method} {path} HTTP/1.1\r\n{headers}\r\nContent-Length: {length}");
        answers += &running.ask(format!("{head}\r\n\r\n{body}"));
    }
    assert!(answers.contains("HTTP/1.1 201 "), "{answers}");
    // HTTP/2: a greeting, settings, and a request whose headers are spelled out.
    let mut frames = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    let block = b"\x82\x86\x84\x41\x04here\x00\x09client-id\x0dclient-secret";
    frames.extend([0, 0, u8::try_from(block.len()).unwrap(), 1, 5, 0, 0, 0, 1]);
    frames.extend(block);
    frames.extend(b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0");
    running.ask(frames);
    running.signal("TERM");

    let (code, _, log) = running.end();

    assert_eq!(code, Some(0), "{log}");
    let answered = lines(&log).iter().filter(|line| line["message"] == "request").count();
    assert_eq!(answered, 8, "{log}");
    for secret in secrets.into_iter().chain(["ada@example.com", "srt_", "eyJ"]) {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
}

#[test]
fn nobody_writes_lines_of_their_own_into_the_log() {
    let running = Running::start(|_| {});
    let forged = "{\"message\":\"forged\"}";
    for (path, header) in [
        (format!("/%0a{forged}"), String::new()),
        ("/%1b[2J".into(), String::new()),
        ("/health/live".into(), "user-agent: a\x1b[2J\r\n".into()),
        ("/health/live".into(), format!("user-agent: a\n{forged}\r\n")),
        ("/health/live".into(), "x-request-id: \x1b[2J\r\n".into()),
        ("/health/live".into(), format!("x-request-id: \",{forged}\r\n")),
    ] {
        running.ask(get(&path).replace("Host", &format!("{header}Host")));
    }
    running.try_ask("\x1b[2J\n{\"message\":\"forged\"}\n\n\n\n\n\n");
    running.signal("TERM");

    let (_, _, log) = running.end();

    assert!(!log.contains('\x1b'), "{log}");
    assert!(lines(&log).iter().all(|line| line["message"] != "forged"), "{log}");
}

#[test]
fn it_goes_on_when_nobody_reads_what_it_says() {
    let mut running = Running::start(|_| {});
    drop(running.child.stderr.take());

    for n in 0..5 {
        let answer = running.ask(get("/health/live"));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{n}: {answer}");
    }
    running.signal("TERM");
    assert_eq!(running.end().0, Some(0));
}

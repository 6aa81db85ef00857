//! The two listeners, their limits, and which endpoints each serves.

use std::net::{SocketAddr, TcpStream};

use crate::running::{Running, bare, command, folder, get, run};

/// The address of the metrics, from the log.
fn metrics_address(running: &mut Running) -> SocketAddr {
    let line = running.log_line("metrics are served");
    line.get("address").and_then(serde_json::Value::as_str).unwrap().parse().unwrap()
}

#[test]
fn operators_have_a_listener_of_their_own_with_nothing_else_on_it() {
    let mut running = Running::start(|command| {
        command.env("SUBSCRIPTION_METRICS_LISTEN", "127.0.0.1:0");
    });
    let operators = metrics_address(&mut running);
    // As a proxy on this machine would ask for somebody who is elsewhere.
    let from_afar = |path: &str| get(path).replace("Host", "x-forwarded-for: 203.0.113.7\r\nHost");

    assert!(running.ask(from_afar("/metrics")).starts_with("HTTP/1.1 404"));
    let main = std::mem::replace(&mut running.address, operators);
    for path in ["/metrics", "/health/live", "/health/ready"] {
        assert!(running.ask(from_afar(path)).starts_with("HTTP/1.1 200"), "{path}");
    }
    let shown = running.ask(get("/metrics"));
    assert!(shown.contains("subscription_http_requests_total"), "{shown}");
    for path in ["/subscription-plans", "/docs", "/openapi.json", "/.well-known/jwks.json"] {
        for method in ["GET", "OPTIONS", "PATCH"] {
            let answer = running.ask(get(path).replacen("GET", method, 1));
            assert!(answer.starts_with("HTTP/1.1 404"), "{method} {path}: {answer}");
        }
    }

    running.address = main;
    running.signal("TERM");
    assert_eq!(running.end().0, Some(0));
    assert!(TcpStream::connect(operators).is_err());
}

#[test]
fn in_development_operators_are_on_this_machine_too() {
    let (output, errors) =
        run(command().args(["--listen", "127.0.0.1:0", "--metrics-listen", "0.0.0.0:9"]));

    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("use --metrics-listen 127.0.0.1:9"), "{errors}");
}

#[test]
fn a_limit_of_connections_that_was_set_holds() {
    let running = Running::start(|command| {
        command.args(["--max-connections-per-peer", "3"]);
    });
    let held: Vec<_> = (0..3).map(|_| TcpStream::connect(running.address).unwrap()).collect();

    assert_eq!(running.try_ask(get("/health/live")), "");

    drop(held);
    let begun = std::time::Instant::now();
    while running.try_ask(get("/health/live")).is_empty() {
        assert!(begun.elapsed().as_secs() < 10, "no place is free");
    }
}

#[test]
fn no_connections_at_all_are_no_setting() {
    for flag in ["--max-connections", "--max-connections-per-peer"] {
        let (output, errors) = run(command().args([flag, "0"]));

        assert_eq!(output.status.code(), Some(2));
        assert!(errors.contains(flag), "{errors}");
    }
}

/// A store that cannot open its files fails requests; callers who wait for a place do not.
#[test]
fn fewer_open_files_than_connections_are_told_and_kept_to() {
    let mut shell = bare("sh", &folder());
    let program = env!("CARGO_BIN_EXE_subscription-http");
    // Each thread of connections has four for itself.
    let files = 100 + 4 * std::thread::available_parallelism().unwrap().get();
    let limited = format!("ulimit -n {files} && exec \"$0\" \"$@\"");
    shell.args(["-c", &limited, program]);
    let mut running = Running::start_as(shell, |_| {});

    let told = running.log_line("the limit of open files");

    assert_eq!(told["connections"], 20);
    let held: Vec<_> = (0..30).map(|_| TcpStream::connect(running.address).unwrap()).collect();
    drop(held);
    assert!(running.ask(get("/health/ready")).starts_with("HTTP/1.1 200"));
}

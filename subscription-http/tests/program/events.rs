//! The feed: the command `events`, requests that wait, and events that are too old.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::running::{Running, command_in, folder, get, run};

const DEADLINE: Duration = Duration::from_mins(1);

fn create_plan(server: &Running, slug: &str) {
    let body = format!(r#"{{"name":"Pro","slug":"{slug}","price":1,"billing_cycle":"monthly"}}"#);
    let made = server.ask(format!(
        "POST /subscription-plans HTTP/1.1\r\nHost: localhost\r\nclient-id: web\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
}

/// The command, in a folder that is not the server's.
fn events(server: &Running, arguments: &[&str]) -> Command {
    let mut command = command_in(&folder());
    command.args(["events", "--api", &format!("http://{}", server.address)]).args(arguments);
    command
}

/// The types of the printed events.
fn types(output: &str) -> Vec<String> {
    let event = |line| serde_json::from_str::<Value>(line).unwrap();
    let name = |event: Value| event.get("type").and_then(Value::as_str).unwrap().to_owned();
    output.lines().map(|line| name(event(line))).collect()
}

/// Waits until a request waits for events.
fn until_one_waits(server: &Running) {
    let begun = Instant::now();
    while !server.ask(get("/metrics")).contains("\nsubscription_http_feed_waiters 1\n") {
        assert!(begun.elapsed() < DEADLINE, "no request waits");
        std::thread::yield_now();
    }
}

/// The command while it follows the feed; dropped, it is killed.
struct Following {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Following {
    fn start(mut command: Command) -> Self {
        let mut child = command.arg("--follow").spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// The type and the sequence of the next event.
    fn next(&mut self) -> (String, u64) {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        let event: Value = serde_json::from_str(&line).expect(&line);
        let name = event.get("type").and_then(Value::as_str).unwrap().to_owned();
        (name, event.get("sequence").and_then(Value::as_u64).unwrap())
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn the_feed_is_printed_as_json_lines() {
    let server = Running::start(|_| {});
    create_plan(&server, "a");
    create_plan(&server, "b");

    for (arguments, expected) in [
        (&[][..], 2),
        (&["--type", "plan.*", "--type", "payment.*"][..], 2),
        (&["--after", "1"][..], 1),
        (&["--type", "subscription.*"][..], 0),
        (&["--subject", "01940000-0000-7000-8000-000000000000"][..], 0),
    ] {
        let (output, errors) = run(&mut events(&server, arguments));

        assert!(output.status.success(), "{arguments:?}: {errors}");
        let printed = types(&String::from_utf8(output.stdout).unwrap());
        assert_eq!(printed, vec!["plan.created"; expected], "{arguments:?}");
    }
}

#[test]
fn what_cannot_be_read_is_told_on_standard_error() {
    let server = Running::start(|_| {});

    for (arguments, message) in [
        (&["--type", "plan"][..], "400 invalid_query: the query parameter type must be plan.*"),
        (&["--subject", "x"][..], "400 invalid_query: the query parameter subject_id"),
        (&["--client-id-file", "none"][..], "--client-id-file none: No such file"),
        (&["--after=x"][..], "--after"),
    ] {
        let (output, errors) = run(&mut events(&server, arguments));

        assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?}");
        assert!(errors.contains(message), "{arguments:?}: {errors}");
    }
    for (api, message) in [
        ("http://127.0.0.1:1", "http://127.0.0.1:1/events: the document could not be fetched"),
        ("http://shop.example", "the URL must be https, or http on this machine"),
        ("shop", "--api"),
    ] {
        let (output, errors) = run(command_in(&folder()).args(["events", "--api", api]));

        assert!(!output.status.success(), "{api}");
        assert!(errors.contains(message), "{api}: {errors}");
    }
}

#[test]
fn the_feed_is_followed_from_the_newest_event_on_and_across_a_restart_of_the_server() {
    let folder = folder();
    let server = Running::start_in(&folder, |_| {});
    create_plan(&server, "before");
    let mut following = Following::start(events(&server, &["--type", "plan.*"]));
    until_one_waits(&server);

    create_plan(&server, "first");
    assert_eq!(following.next(), ("plan.created".to_owned(), 2));
    until_one_waits(&server);
    let address = server.address.to_string();
    server.signal("TERM");
    let (code, _, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("cut off"), "the waiting request was not answered: {log}");
    let server = Running::start_at(&address, command_in(&folder), |_| {});
    create_plan(&server, "second");

    assert_eq!(following.next(), ("plan.created".to_owned(), 3));
    let script = format!("kill -s TERM {}", following.child.id());
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    assert_eq!(following.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_closed_output_ends_the_command() {
    let server = Running::start(|_| {});
    let mut following = Following::start(events(&server, &["--after", "0"]));
    until_one_waits(&server);
    create_plan(&server, "a");
    following.next();

    drop(std::mem::replace(&mut following.lines, closed()));
    until_one_waits(&server);
    create_plan(&server, "b");

    assert_eq!(following.child.wait().unwrap().code(), Some(0));
}

/// An output at its end.
fn closed() -> BufReader<ChildStdout> {
    let mut ended = Command::new("true").stdout(std::process::Stdio::piped()).spawn().unwrap();
    ended.wait().unwrap();
    BufReader::new(ended.stdout.take().unwrap())
}

#[test]
fn events_that_are_too_old_are_deleted_and_their_readers_are_told() {
    let folder = folder();
    let demo = ["demo", "--subscriptions", "50", "--seed", "7"];
    let (filled, errors) = run(command_in(&folder).args(demo));
    assert!(filled.status.success(), "{errors}");
    let ask = |server: &Running| {
        server.ask(
            "GET /events?after=0 HTTP/1.1\r\nHost: localhost\r\nclient-id: web\r\nConnection: close\r\n\r\n",
        )
    };
    let keeping = Running::start_in(&folder, |command| {
        command.env("SUBSCRIPTION_KEEP_EVENTS", "forever");
    });
    assert!(ask(&keeping).starts_with("HTTP/1.1 200"));
    keeping.signal("TERM");
    assert_eq!(keeping.end().0, Some(0));

    let mut server = Running::start_in(&folder, |command| {
        command.args(["--keep-events", "PT1S"]);
    });

    let warned = server.log_line("events before this time are deleted");
    assert_eq!(warned.get("level").and_then(Value::as_str), Some("WARN"), "{warned}");
    let gone = ask(&server);
    assert!(gone.starts_with("HTTP/1.1 410") && gone.contains("events_forgotten"), "{gone}");
    let metrics = server.ask(get("/metrics"));
    let count = metrics.lines().find(|line| {
        line.starts_with("subscription_http_events_forgotten_total ") && !line.ends_with(" 0")
    });
    assert!(count.is_some(), "{metrics}");
}

#[test]
fn a_time_that_is_none_is_refused_at_the_start() {
    for time in ["400", "P400", "400D", "P1Y6M", "P0D", "PT1D", "never", "-P1D", "P1H"] {
        let (output, errors) = run(command_in(&folder())
            .args(["--listen", "127.0.0.1:0"])
            .arg(format!("--keep-events={time}")));

        assert!(!output.status.success(), "{time}");
        assert!(errors.contains("such as P400D, or forever"), "{time}: {errors}");
    }
}

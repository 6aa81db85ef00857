//! The log: read late, not at all, or by a standard error that takes nothing.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::running::{Running, get, lines};

/// Sends so many requests one after the other over one connection, and reads as many answers.
fn ask_often(running: &Running, count: usize) {
    let mut stream = TcpStream::connect(running.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let id = "i".repeat(128);
    let request =
        format!("GET /health/live HTTP/1.1\r\nHost: localhost\r\nx-request-id: {id}\r\n\r\n");
    let (at_once, end) = (100, br#"{"status":"live"}"#);
    let mut chunk = vec![0; 1 << 16];
    for _ in 0..count / at_once {
        stream.write_all(request.repeat(at_once).as_bytes()).unwrap();
        let (mut answered, mut rest) = (0, Vec::new());
        while answered < at_once {
            let read = stream.read(&mut chunk).expect("an answer");
            assert_ne!(read, 0, "the connection was closed");
            rest.extend_from_slice(chunk.get(..read).unwrap());
            while let Some(at) = rest.windows(end.len()).position(|bytes| bytes == end) {
                rest.drain(..at + end.len());
                answered += 1;
            }
        }
    }
}

fn lost(running: &Running) -> u64 {
    let metrics = running.ask(get("/metrics"));
    let count = metrics.lines().find_map(|line| {
        line.strip_prefix("subscription_http_log_lines_lost_total ")?.trim().parse().ok()
    });
    count.unwrap_or_else(|| panic!("{metrics}"))
}

#[test]
fn requests_go_on_while_nobody_reads_the_log_and_lost_lines_are_counted() {
    let running = Running::start(|command| {
        command.args(["--database", "memory:"]);
    });

    // More than the pipe holds, and more than waits in memory.
    ask_often(&running, 20_000);

    let lost = lost(&running);
    assert!(lost > 0, "{lost}");
    running.signal("TERM");
    let (code, _, log) = running.end();
    assert_eq!(code, Some(0));
    // The pipe holds the first lines, in order; only the last one may be incomplete.
    let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let lines = lines(whole);
    assert!(lines.len() > 100, "{}", lines.len());
    let times: Vec<_> = lines.iter().map(|line| line["timestamp"].to_string()).collect();
    assert!(times.iter().all(|time| time.len() > 20) && times.is_sorted(), "{times:?}");
}

#[test]
fn a_log_that_is_read_late_tells_how_many_lines_were_lost() {
    let mut running = Running::start(|command| {
        command.args(["--database", "memory:"]);
    });
    ask_often(&running, 20_000);
    let before = lost(&running);

    let mut log = BufReader::new(running.child.stderr.take().unwrap()).lines();

    let told = log.find_map(|line| {
        let line: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        (line["message"] == "log lines were lost").then_some(line)
    });
    assert!(told.unwrap()["lost"].as_u64().unwrap() >= before, "of {before}");
}

#[test]
fn a_log_that_nobody_reads_holds_up_no_stop() {
    let running = Running::start(|command| {
        command.args(["--database", "memory:"]);
    });
    // More than the pipe holds, and less than waits in memory.
    ask_often(&running, 1_000);
    assert_eq!(lost(&running), 0);
    running.signal("TERM");

    let (code, ..) = running.end();

    assert_eq!(code, Some(0));
}

#[test]
fn lines_that_standard_error_does_not_take_are_counted_as_lost() {
    let running = Running::start(|command| {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        command.stderr(full);
    });

    ask_often(&running, 100);

    // The thread that writes may be a moment behind.
    while lost(&running) < 100 {
        std::thread::yield_now();
    }
    running.signal("TERM");
    assert_eq!(running.end().0, Some(0));
}

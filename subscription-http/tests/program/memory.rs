//! Thousands of attacks on the running program: other callers are still served, and its memory does not
//! grow.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use test_support::http2_frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, RST_STREAM, SETTINGS, field, frame,
    greeting, head, request,
};

use crate::running::{Running, get};

const WINDOW_UPDATE: u8 = 8;

/// How often each attack is repeated once its memory is known.
const REPEATS: usize = 5;

/// How much more all repetitions may leave behind than the first times did.
const GROWTH_KIB_MAX: u64 = 16 * 1_024;

/// Attackers at once.
const ATTACKERS: usize = 4;

impl Running {
    /// The resident memory of the process.
    fn resident_kib(&self) -> u64 {
        let status = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(status).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Waits until the attackers' connections are gone: only what is left after them counts.
    fn settle(&self, open_files: usize) {
        let begun = Instant::now();
        while self.open_files() > open_files {
            assert!(begun.elapsed() < Duration::from_mins(1), "connections are still open");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Has attackers at work until each is through, and honest requests answered meanwhile.
    fn endure(&self, rounds: usize, attack: impl Fn(SocketAddr) + Sync) -> Duration {
        let (done, mut slowest) = (AtomicBool::new(false), Duration::ZERO);
        let open_files = self.open_files();
        std::thread::scope(|scope| {
            let attackers: Vec<_> = (0..ATTACKERS)
                .map(|_| scope.spawn(|| (0..rounds).for_each(|_| attack(self.address))))
                .collect();
            scope.spawn(|| {
                for attacker in attackers {
                    attacker.join().unwrap();
                }
                done.store(true, Ordering::Relaxed);
            });
            loop {
                let begun = Instant::now();
                let answer = self.ask(get("/health/ready"));
                assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
                slowest = slowest.max(begun.elapsed());
                if done.load(Ordering::Relaxed) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        self.settle(open_files);
        slowest
    }

    /// Asserts that it takes no more memory to be attacked again and again than twice.
    #[expect(clippy::print_stdout, reason = "what was measured, with --nocapture")]
    fn stays_flat(&self, name: &str, rounds: usize, attack: impl Fn(SocketAddr) + Sync) {
        for _ in 0..2 {
            self.endure(rounds, &attack);
        }
        let before = self.resident_kib();
        let slowest = (0..REPEATS).map(|_| self.endure(rounds, &attack)).max().unwrap_or_default();
        let begun = Instant::now();
        loop {
            let after = self.resident_kib();
            if after < before + GROWTH_KIB_MAX {
                println!("{name}: {before} to {after} KiB, slowest answer {slowest:?}");
                return;
            }
            assert!(begun.elapsed() < Duration::from_mins(1), "{name}: {before} to {after} KiB");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream
}

/// Sends bytes, and reads what comes back to its end.
fn throw(address: SocketAddr, bytes: &[u8]) {
    let mut stream = connect(address);
    if stream.write_all(bytes).is_ok() {
        stream.shutdown(Shutdown::Write).ok();
    }
    stream.read_to_end(&mut Vec::new()).ok();
}

/// Sends a piece again and again, and reads nothing, until no more is taken or it was sent so often.
fn flood(stream: &mut TcpStream, times: usize, piece: &[u8]) {
    for _ in 0..times {
        if stream.write_all(piece).is_err() {
            break;
        }
    }
}

fn post(headers: &str) -> String {
    let host = "Host: localhost\r\nclient-id: web\r\nContent-Type: application/json";
    format!("POST /subscription-plans HTTP/1.1\r\n{host}\r\n{headers}\r\n")
}

fn running() -> Running {
    Running::start(|command| {
        command.args(["--database", "memory:", "--log", "error"]);
        // Honest callers share the address of those who are not.
        command.args(["--max-connections-per-peer", "10000"]);
    })
}

#[test]
fn memory_stays_flat_under_requests_that_are_none() {
    let running = running();
    let brackets = "[".repeat(65_000);
    let brackets = post(&format!("Content-Length: {}\r\n", brackets.len())) + &brackets;
    let too_many = post("Content-Length: 100000\r\n") + &"[".repeat(100_000);
    let both = post("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n");
    let hidden = "GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let big = format!("x-long: {}\r\n\r\n", "a".repeat(1 << 20));
    let cases = [
        ("a length beside chunks", both + "4\r\nnull\r\n0\r\n\r\n" + hidden, 100),
        ("two lengths", post("Content-Length: 4\r\nContent-Length: 0\r\n") + "null" + hidden, 100),
        ("a coding", post("Transfer-Encoding: gzip, chunked\r\n") + "0\r\n\r\n" + hidden, 100),
        ("a body cut short", post("Content-Length: 60000\r\n") + "{", 100),
        ("brackets", brackets, 25),
        ("a hundred thousand brackets", too_many, 25),
        ("a large head", format!("GET / HTTP/1.1\r\nHost: localhost\r\n{big}"), 10),
        (
            "many headers",
            format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "x: y\r\n".repeat(90)),
            100,
        ),
        ("garbage", "\u{16}\u{3}\u{1} and so on\r\n\r\n".into(), 100),
    ];
    for (name, bytes, rounds) in cases {
        running.stays_flat(name, rounds, |address| throw(address, bytes.as_bytes()));
    }
    let chunk = format!("400\r\n{}\r\n", " ".repeat(1_024));
    running.stays_flat("chunks without end", 10, |address| {
        let mut stream = connect(address);
        stream.write_all(post("Transfer-Encoding: chunked\r\n").as_bytes()).unwrap();
        flood(&mut stream, 10_000, chunk.as_bytes());
    });
}

#[test]
fn memory_stays_flat_under_many_connections() {
    let running = running();
    for (name, sent) in [
        ("silent", String::new()),
        (
            "half a head",
            "GET /health/live HTTP/1.1\r\nHost: localhost\r\nx-long: ".to_owned()
                + &"a".repeat(4_000),
        ),
        ("half a body", post("Content-Length: 60000\r\n") + &" ".repeat(30_000)),
        ("half a greeting", "PRI * HTTP/2.0\r\n".into()),
    ] {
        running.stays_flat(name, 1, |address| {
            let held: Vec<_> = (0..100)
                .map(|_| {
                    let mut stream = connect(address);
                    stream.write_all(sent.as_bytes()).unwrap();
                    stream
                })
                .collect();
            drop(held);
        });
    }
}

#[test]
fn memory_stays_flat_under_floods_of_http_2_frames() {
    let running = running();
    let start = |address| {
        let mut stream = connect(address);
        stream.write_all(&greeting()).unwrap();
        stream
    };
    let opened =
        |method: &str, flags: u8| frame(HEADERS, flags, 1, &head(method, "/subscription-plans"));

    running.stays_flat("rapid reset", 5, |address| {
        let mut stream = start(address);
        let mut bytes = Vec::new();
        for id in (1..5_000).step_by(2) {
            bytes.extend(request(id, "GET", "/health/live"));
            bytes.extend(frame(RST_STREAM, 0, id, &8_u32.to_be_bytes()));
        }
        flood(&mut stream, 1, &bytes);
    });
    running.stays_flat("a head without end", 2, |address| {
        let mut stream = start(address);
        stream.write_all(&opened("GET", END_STREAM)).unwrap();
        flood(&mut stream, 5_000, &frame(CONTINUATION, 0, 1, &field("x-a", &"b".repeat(1_000))));
    });
    running.stays_flat("empty pieces of a body", 2, |address| {
        let mut stream = start(address);
        stream.write_all(&opened("POST", END_HEADERS)).unwrap();
        flood(&mut stream, 1_000, &frame(DATA, 0, 1, b"").repeat(100));
    });
    running.stays_flat("large header lists", 2, |address| {
        let mut stream = start(address);
        for id in (1..200).step_by(2) {
            let mut block = head("GET", "/health/live");
            block.extend(field("x-long", &"a".repeat(15_500)));
            if stream.write_all(&frame(HEADERS, END_HEADERS, id, &block)).is_err() {
                break;
            }
        }
    });
    // Written to those who never read: what is due to them must not pile up.
    running.stays_flat("settings", 1, |address| {
        flood(&mut start(address), 2_000, &frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 9]).repeat(100));
    });
    running.stays_flat("pings", 1, |address| {
        flood(&mut start(address), 2_000, &frame(PING, 0, 0, &[0; 8]).repeat(100));
    });
    running.stays_flat("windows", 1, |address| {
        let piece = frame(WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes()).repeat(100);
        flood(&mut start(address), 2_000, &piece);
    });
    running.stays_flat("answers that are not fetched", 2, |address| {
        let mut stream = connect(address);
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend(frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 1]));
        for id in (1..200).step_by(2) {
            bytes.extend(request(id, "GET", "/metrics"));
        }
        flood(&mut stream, 1, &bytes);
        std::thread::sleep(Duration::from_millis(100));
    });
}

/// How much memory connections may take whose clients read nothing.
const UNREAD_KIB_MAX: u64 = 300 * 1_024;

#[test]
fn answers_that_nobody_reads_take_little_memory() {
    const CONNECTIONS: usize = 20;
    let running = running();
    let long = "x".repeat(4_000);
    for nth in 0..200 {
        let plan = format!(
            r#"{{"name":"Pro","slug":"plan-{nth}","price":1,"billing_cycle":"monthly","description":"{long}"}}"#
        );
        let head = post(&format!("Connection: close\r\nContent-Length: {}\r\n", plan.len()));
        assert!(running.ask(head + &plan).starts_with("HTTP/1.1 201"), "{nth}");
    }
    let pages = || {
        let metrics = running.ask(get("/metrics"));
        let of_pages = |line: &&str| {
            line.starts_with("subscription_http_requests_total{")
                && line.contains(r#"method="GET",route="/subscription-plans","#)
        };
        let counts = metrics.lines().filter(of_pages);
        let counts = counts.map(|line| line.rsplit_once(' ').unwrap().1.parse::<usize>().unwrap());
        counts.sum::<usize>()
    };
    let before = running.resident_kib();

    let held: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let mut stream = connect(running.address);
            let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
            // An initial window of 0 bytes.
            bytes.extend(frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]));
            for id in (1..200).step_by(2) {
                bytes.extend(request(id, "GET", "/subscription-plans?limit=200"));
            }
            stream.write_all(&bytes).unwrap();
            stream
        })
        .collect();
    let begun = Instant::now();
    while pages() < CONNECTIONS * 32 {
        assert!(begun.elapsed() < Duration::from_mins(1), "{} pages", pages());
        std::thread::sleep(Duration::from_millis(10));
    }

    let after = running.resident_kib();
    println!("unread pages of {CONNECTIONS} connections: {before} to {after} KiB");
    assert!(after < before + UNREAD_KIB_MAX, "{before} to {after} KiB");
    drop(held);
}

//! The time from the start of the program to its first response.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::load_parts::callers::middle;

const TIMES: usize = 15;

pub(crate) fn tell() {
    let Some(program) = program() else {
        println!(
            "start to first answer was not measured: cargo build --release -p subscription-http"
        );
        return;
    };
    let times = (0..TIMES).map(|_| first_answer(&program).as_secs_f64() * 1e3);
    let (time, low, high) = middle(times.collect());
    println!("start to first answer, empty SQLite file: {time:.0} ms ({low:.0} to {high:.0})");
}

/// The program, which is built beside this one.
fn program() -> Option<PathBuf> {
    let here = std::env::current_exe().unwrap();
    let program = here.parent()?.parent()?.join("subscription-http");
    program.exists().then_some(program)
}

fn first_answer(program: &Path) -> Duration {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-start");
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir_all(&folder).unwrap();
    let mut command = Command::new(program);
    let ours = |name: &str| name.starts_with("SUBSCRIPTION_") || name == "DATABASE_URL";
    for (name, _) in std::env::vars().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
    command.args(["--listen", "127.0.0.1:0"]).current_dir(&folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let begun = Instant::now();
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim_end().strip_prefix("listening on http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    let taken = begun.elapsed();
    assert_eq!(&answer, b"HTTP/1.1 200");
    child.kill().unwrap();
    child.wait().unwrap();
    taken
}

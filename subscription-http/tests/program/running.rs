//! A running program, for the tests.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_mins(1);

/// An empty folder that no other test has; the next run clears it away.
pub(crate) fn folder() -> PathBuf {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("program");
        std::fs::remove_dir_all(&root).ok();
        root
    });
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let folder = ROOT.join(NEXT.fetch_add(1, Ordering::Relaxed).to_string());
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The program with no settings, in a folder of its own.
pub(crate) fn command() -> Command {
    command_in(&folder())
}

pub(crate) fn command_in(folder: &Path) -> Command {
    bare(env!("CARGO_BIN_EXE_subscription-http"), folder)
}

/// A command with no settings.
pub(crate) fn bare(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    let ours = |name: &str| name.starts_with("SUBSCRIPTION_") || name == "DATABASE_URL";
    for (name, _) in std::env::vars().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
    command.current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs until it ends by itself.
pub(crate) fn run(command: &mut Command) -> (Output, String) {
    let output = command.output().unwrap();
    let errors = String::from_utf8(output.stderr.clone()).unwrap();
    (output, errors)
}

/// A server that runs; dropped, it is killed.
pub(crate) struct Running {
    pub(crate) child: Child,
    stdout: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
}

impl Running {
    pub(crate) fn start(change: impl FnOnce(&mut Command)) -> Self {
        Self::start_in(&folder(), change)
    }

    pub(crate) fn start_in(folder: &Path, change: impl FnOnce(&mut Command)) -> Self {
        Self::start_as(command_in(folder), change)
    }

    pub(crate) fn start_as(command: Command, change: impl FnOnce(&mut Command)) -> Self {
        Self::start_at("127.0.0.1:0", command, change)
    }

    pub(crate) fn start_at(
        listen: &str,
        mut command: Command,
        change: impl FnOnce(&mut Command),
    ) -> Self {
        command.args(["--listen", listen]);
        change(&mut command);
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let address = line.strip_prefix("listening on http://").expect("the line").trim_end();
        Self { child, stdout, address: address.parse().unwrap() }
    }

    /// Sends a request; the whole answer.
    pub(crate) fn ask(&self, request: impl AsRef<[u8]>) -> String {
        let answer = self.try_ask(request);
        assert!(!answer.is_empty(), "the connection was closed");
        answer
    }

    /// The same, or nothing if the connection is closed.
    pub(crate) fn try_ask(&self, request: impl AsRef<[u8]>) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut answer = Vec::new();
        let asked = stream.write_all(request.as_ref());
        match asked.and_then(|()| stream.read_to_end(&mut answer)) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("no answer in time"),
            Ok(_) | Err(_) => String::from_utf8_lossy(&answer).into_owned(),
        }
    }

    /// The next line of the log with such a message; lines before it are gone.
    pub(crate) fn log_line(&mut self, message: &str) -> serde_json::Value {
        let stderr = self.child.stderr.as_mut().unwrap();
        let mut line = Vec::new();
        loop {
            let mut byte = [0];
            stderr.read_exact(&mut byte).expect("the line");
            if byte != *b"\n" {
                line.extend(byte);
                continue;
            }
            let told: serde_json::Value = serde_json::from_slice(&line).unwrap();
            let text = told.get("message").and_then(serde_json::Value::as_str);
            if text.is_some_and(|text| text.starts_with(message)) {
                return told;
            }
            line.clear();
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        // The shell's own `kill`: not every machine has the program.
        let script = format!("kill -s {name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    }

    /// Waits for its end: the code, and what else was on standard output and on standard error.
    pub(crate) fn end(mut self) -> (Option<i32>, String, String) {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < DEADLINE, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        let (mut out, mut errors) = (String::new(), String::new());
        self.stdout.read_to_string(&mut out).unwrap();
        if let Some(stderr) = &mut self.child.stderr {
            stderr.read_to_string(&mut errors).unwrap();
        }
        (status.code(), out, errors)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
}

pub(crate) fn lines(log: &str) -> Vec<serde_json::Value> {
    log.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

//! A real PostgreSQL server for the tests: the server that `DATABASE_URL` names, or a server of our own that ends with
//! the test process.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use sqlx::{Connection as _, PgConnection};

/// A PostgreSQL server of our own. When this value is dropped or the process ends in any way, the server stops and its
/// files are deleted.
pub struct Cluster {
    folder: PathBuf,
    binaries: PathBuf,
    durable: bool,
    /// Further arguments for the server's command line.
    settings: &'static str,
    running: Option<(Child, ChildStdin)>,
}

impl Cluster {
    /// Starts a server. If `durable` is false, the server never flushes its files, which is faster.
    pub fn start(durable: bool) -> Result<Self, String> {
        Self::start_with(durable, "")
    }

    /// Starts a server with further arguments on its command line.
    pub fn start_with(durable: bool, settings: &'static str) -> Result<Self, String> {
        let binaries = binaries()?;
        let folder = own_folder()?;
        let mut cluster = Self { folder, binaries, durable, settings, running: None };
        copy(&empty_data(&cluster)?, &cluster.folder.join("data"))?;
        cluster.start_again();
        Ok(cluster)
    }

    /// Starts a standby of this server, with synchronous replication: each commit on this server waits until the
    /// standby has it too.
    pub async fn standby(&self) -> Result<Self, String> {
        let folder = own_folder()?;
        let Self { binaries, durable, settings, .. } = self;
        let mut standby =
            Self { folder, binaries: binaries.clone(), durable: *durable, settings, running: None };
        let mut copy = self.command(self.binaries.join("pg_basebackup"));
        copy.args(["-U", "postgres", "-c", "fast", "--no-sync", "-R", "-h"]).arg(&self.folder);
        let made = copy.arg("-D").arg(standby.folder.join("data")).output();
        let made = made.map_err(|error| format!("pg_basebackup: {error}"))?;
        if !made.status.success() {
            return Err(format!("pg_basebackup: {}", String::from_utf8_lossy(&made.stderr)));
        }
        standby.start_again();
        let mut to = PgConnection::connect(&self.url()).await.unwrap();
        for step in ["ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"]
        {
            sqlx::raw_sql(step).execute(&mut to).await.unwrap();
        }
        Ok(standby)
    }

    /// Promotes a standby, so that it accepts writes.
    pub async fn promote(&self) {
        let mut to = PgConnection::connect(&self.url()).await.unwrap();
        sqlx::raw_sql("ALTER SYSTEM RESET synchronous_standby_names").execute(&mut to).await.ok();
        sqlx::raw_sql("SELECT pg_promote()").execute(&mut to).await.unwrap();
    }

    /// The folder with the server's socket.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts the server after it was stopped or killed.
    pub fn start_again(&mut self) {
        let folder = self.folder.display();
        let fsync = if self.durable { "on" } else { "off" };
        let settings = self.settings;
        let postgres = self.binaries.join("postgres");
        // The shell stops the server even if the test process is killed, because the shell's standard input then ends.
        let script = format!(
            "'{}' -D '{folder}/data' -k '{folder}' -c listen_addresses= -c fsync={fsync} \
             -c max_connections=200 -c log_min_messages=fatal {settings} >>'{folder}/log' 2>&1 & \
             server=$!; read -r keep; kill -INT $server 2>/dev/null; wait $server; \
             [ \"$keep\" = keep ] || rm -rf '{folder}'",
            postgres.display(),
        );
        let mut shell = self.command("sh");
        shell.args(["-c", &script]).stdin(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let stdin = shell.stdin.take().unwrap();
        self.running = Some((shell, stdin));
        self.wait_until_it_answers();
    }

    /// Kills the server and its child processes, as a power cut would.
    pub fn kill(&mut self) {
        let file = self.folder.join("data/postmaster.pid");
        let pid = fs::read_to_string(file).unwrap().lines().next().unwrap().to_owned();
        let children = children(&pid);
        // This uses the shell's own `kill`, because not every machine has the program. The server's children are killed
        // too: they would end by themselves, but some only after their current work, and no other server may start
        // before.
        let script = format!("kill -9 {pid} && kill -9 {} || true", children.join(" "));
        Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status().unwrap();
        while children.iter().any(|child| Path::new("/proc").join(child).exists()) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        self.end("keep\n");
        fs::remove_file(self.folder.join("data/postmaster.pid")).ok();
    }

    /// Freezes the server and its child processes, as a machine that hangs. Connections stay open.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    /// Lets a frozen server continue.
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let file = self.folder.join("data/postmaster.pid");
        let Ok(text) = fs::read_to_string(file) else { return };
        let pid = text.lines().next().unwrap_or_default();
        let script = format!("kill -{name} {pid} {}", children(pid).join(" "));
        Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status().unwrap();
    }

    /// Shuts the server down, without a crash. Open connections are closed.
    pub fn stop(&mut self) {
        self.end("keep\n");
    }

    /// The path of a program that comes with the server, such as `pgbench`.
    pub fn program(name: &str) -> PathBuf {
        binaries().map_or_else(|_| name.into(), |folder| folder.join(name))
    }

    pub fn url(&self) -> String {
        format!("postgres://postgres@localhost/postgres?host={}", self.folder.display())
    }

    /// The part of the server's log that begins at the byte `from`.
    pub fn log(&self, from: u64) -> String {
        let mut log = fs::File::open(self.folder.join("log")).unwrap();
        log.seek(SeekFrom::Start(from)).unwrap();
        let mut text = String::new();
        log.read_to_string(&mut text).unwrap();
        text
    }

    /// The length of the server's log in bytes.
    pub fn log_len(&self) -> u64 {
        fs::metadata(self.folder.join("log")).unwrap().len()
    }

    fn end(&mut self, word: &str) {
        if let Some((mut shell, mut stdin)) = self.running.take() {
            stdin.write_all(word.as_bytes()).ok();
            drop(stdin);
            shell.wait().ok();
        }
    }

    fn wait_until_it_answers(&self) {
        let psql = self.binaries.join("pg_isready");
        for _ in 0..600 {
            let ready = Command::new(&psql).arg("-q").arg("-h").arg(&self.folder).status();
            if ready.is_ok_and(|status| status.success()) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("PostgreSQL did not start: {}", self.log(0));
    }

    /// A command that runs as the user of the server. PostgreSQL refuses to run as root.
    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.folder).env("LC_ALL", "C");
        if let Some((user, group)) = owner() {
            command.uid(user).gid(group);
        }
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // A frozen server does not stop.
        self.thaw();
        self.end("\n");
        fs::remove_dir_all(&self.folder).ok();
    }
}

/// The data of a new server, which every server of this process begins with: `initdb` takes ten times as long as a copy.
fn empty_data(by: &Cluster) -> Result<PathBuf, String> {
    /// A shell that deletes the folder when the process ends in any way, because the shell's standard input then ends.
    struct Kept {
        data: PathBuf,
        _deletes: ChildStdin,
    }

    static EMPTY: Mutex<Option<Kept>> = Mutex::new(None);
    let mut empty = EMPTY.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kept) = &*empty {
        return Ok(kept.data.clone());
    }
    let folder = own_folder()?;
    let mut shell = by.command("sh");
    shell.args(["-c", &format!("read -r end; rm -rf '{}'", folder.display())]);
    let mut shell = shell.stdin(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
    let deletes = shell.stdin.take().ok_or("no standard input")?;
    let data = folder.join("data");
    let mut initdb = by.command(by.binaries.join("initdb"));
    initdb.args(["-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync", "-D"]);
    let made = initdb.arg(&data).output().map_err(|error| format!("initdb: {error}"))?;
    if !made.status.success() {
        return Err(format!("initdb: {}", String::from_utf8_lossy(&made.stderr)));
    }
    Ok(empty.insert(Kept { data, _deletes: deletes }).data.clone())
}

/// Copies a folder with its owners and permissions.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let made = Command::new("cp").arg("-a").args([from, to]).output();
    let made = made.map_err(|error| format!("cp: {error}"))?;
    let is_made = made.status.success();
    is_made.then_some(()).ok_or_else(|| format!("cp: {}", String::from_utf8_lossy(&made.stderr)))
}

/// Creates an empty folder for one server.
fn own_folder() -> Result<PathBuf, String> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // The folder is not below the target folder, because the path of a socket must be short.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("subscription-pg-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    if let Some((user, group)) = owner() {
        chown(&folder, Some(user), Some(group)).map_err(|error| error.to_string())?;
    }
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    Ok(folder)
}

/// The ids of the child processes of a process. Empty where `/proc` does not exist.
fn children(pid: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let names = processes.filter_map(|process| process.file_name().into_string().ok());
    let is_child = |name: &String| {
        let about = fs::read_to_string(format!("/proc/{name}/stat")).unwrap_or_default();
        // After the name of the process in brackets come its state and the id of its parent.
        let parent = about.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        parent == Some(pid)
    };
    names.filter(is_child).collect()
}

/// A server for the tests that do not stop or change the server itself. It is the server of `DATABASE_URL`, or one of
/// our own, which starts when it is first needed. No test kills it, so it does not flush its files.
#[derive(Default)]
pub struct Shared {
    url: OnceLock<Result<String, String>>,
    ours: Mutex<Option<Cluster>>,
}

impl Shared {
    pub const fn new() -> Self {
        Self { url: OnceLock::new(), ours: Mutex::new(None) }
    }

    pub fn url(&self) -> &str {
        let url = self.url.get_or_init(|| match std::env::var("DATABASE_URL") {
            Ok(url) => Ok(url),
            Err(_) => Ok(self.ours().insert(Cluster::start(false)?).url()),
        });
        url.as_deref().unwrap_or_else(|missing| panic!("{missing}"))
    }

    /// Stops the server if it is our own.
    pub fn stop(&self) {
        self.ours().take();
    }

    fn ours(&self) -> MutexGuard<'_, Option<Cluster>> {
        self.ours.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reason why tests that can use any server cannot run. `None` if they can run.
pub fn missing() -> Option<String> {
    if std::env::var_os("DATABASE_URL").is_some() { None } else { missing_binaries() }
}

/// The reason why tests that need a server of their own cannot run. `None` if they can run.
pub fn missing_binaries() -> Option<String> {
    binaries().err()
}

/// The folder with the programs `initdb` and `postgres`.
fn binaries() -> Result<PathBuf, String> {
    let has_server =
        |folder: &PathBuf| folder.join("initdb").exists() && folder.join("postgres").exists();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).collect::<Vec<_>>();
    let mut debian: Vec<_> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    debian.sort();
    let named = std::env::var_os("PG_BIN_DIR").map(PathBuf::from);
    let mut places = named.into_iter().chain(debian.into_iter().rev()).chain(on_path);
    places.find(has_server).ok_or_else(|| {
        "no PostgreSQL server was found (apt-get install postgresql, or set DATABASE_URL)"
            .to_owned()
    })
}

/// The ids of the user and the group that PostgreSQL runs as if the test process is root. `None` if it is not root.
fn owner() -> Option<(u32, u32)> {
    let root = fs::metadata(Path::new("/proc/self")).is_ok_and(|me| {
        use std::os::unix::fs::MetadataExt as _;
        me.uid() == 0
    });
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let ids = |name: &str| {
        let line = users.lines().find(|line| line.starts_with(&format!("{name}:")))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    root.then(|| ids("postgres").or_else(|| ids("nobody"))).flatten()
}

/// Creates an empty schema in a database, and returns the name of the schema.
pub async fn fresh_schema(url: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let schema = format!("test_{}_{number}", std::process::id());
    let mut connection = PgConnection::connect(url).await.unwrap();
    let text = format!("DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}");
    sqlx::raw_sql(sqlx::AssertSqlSafe(text)).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    schema
}

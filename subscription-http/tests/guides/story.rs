//! A page, lived through.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use sqlx::{Connection as _, PgConnection};
use test_support::cluster::Cluster;

use crate::page::{Block, blocks, read, root};
use crate::script::{DATABASE, Script};

/// How long a page may take.
const DEADLINE: Duration = Duration::from_mins(10);

/// An nginx that needs nothing of the machine's: the page's file is among the sites that it includes.
const NGINX: &str = "\
daemon off; pid nginx.pid; error_log stderr;
events {}
http {
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    include ../*.nginx;
}
";

pub(crate) struct Story {
    pub(crate) page: &'static str,
    pub(crate) part: Part,
    /// Text of the page, and the text to run instead.
    pub(crate) instead: &'static [(&'static str, &'static str)],
    /// Text that the output must contain.
    pub(crate) told: &'static [&'static str],
}

/// Which sections of a page belong to the story.
pub(crate) enum Part {
    All,
    Only(&'static str),
    AllBut(&'static str),
}

impl Story {
    pub(crate) const fn of(page: &'static str) -> Self {
        Self { page, part: Part::All, instead: &[], told: &[] }
    }

    pub(crate) fn name(&self) -> String {
        match self.part {
            Part::All => self.page.to_owned(),
            Part::Only(section) => format!("{}: {section}", self.page),
            Part::AllBut(section) => format!("{}: all but {section}", self.page),
        }
    }

    pub(crate) fn has(&self, page: &str, block: &Block) -> bool {
        self.page == page
            && match self.part {
                Part::All => true,
                Part::Only(section) => block.section == section,
                Part::AllBut(section) => block.section != section,
            }
    }

    fn script(&self) -> Script {
        let page = read(self.page);
        let blocks = blocks(&page);
        let mut script = Script::of(blocks.iter().filter(|block| self.has(self.page, block)));
        for (there, here) in self.instead {
            assert!(page.contains(there), "{} does not say {there:?} any more", self.page);
            script.text = script.text.replace(there, here);
        }
        script
    }

    pub(crate) fn needs_postgres(&self) -> bool {
        self.script().text.contains(DATABASE)
    }

    /// The programs that it calls and that not every machine has.
    pub(crate) fn programs(&self) -> BTreeSet<String> {
        self.script().programs
    }

    pub(crate) fn run(&self) -> Result<(), Failed> {
        let mut script = self.script().with_free_ports();
        let _cluster = self.cluster(&mut script)?;
        let folder = folder(&self.name());
        std::fs::create_dir(folder.join("nginx"))?;
        std::fs::write(folder.join("nginx/here.conf"), NGINX)?;
        std::os::unix::fs::symlink(
            root().canonicalize()?.join("examples"),
            folder.join("examples"),
        )?;
        let out = run_script(&folder, &script.text)?;
        let failed = |why: &str| Err(format!("{why}\n--- told\n{out}").into());
        if let Some(missing) = self.told.iter().find(|told| !out.contains(**told)) {
            return failed(&format!("not told: {missing}"));
        }
        let mut rest = &*out;
        for told in &script.told {
            match rest.split_once(told.as_str()) {
                Some((_, after)) => rest = after,
                None => return failed(&format!("not told, or not then: {told}")),
            }
        }
        Ok(())
    }

    /// A server of its own for a page that has a database.
    fn cluster(&self, script: &mut Script) -> Result<Option<Cluster>, Failed> {
        if !self.needs_postgres() {
            return Ok(None);
        }
        let cluster = Cluster::start(false)?;
        let url = cluster.url();
        let (server, socket) = url.split_once("/postgres?").ok_or("the address of a cluster")?;
        create_database(&url)?;
        for name in ["billing", "restored"] {
            let here = format!("{server}/{name}?{socket}");
            script.text = script.text.replace(&format!("{DATABASE}{name}"), &here);
        }
        Ok(Some(cluster))
    }
}

/// An empty folder, which the next run clears away.
pub(crate) fn folder(name: &str) -> PathBuf {
    let name: String = name.chars().filter(|c| c.is_alphanumeric()).collect();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guides").join(name);
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs a script in a folder, with the program on the path, and gives what it has printed.
pub(crate) fn run_script(folder: &Path, text: &str) -> Result<String, Failed> {
    std::fs::write(folder.join("story.sh"), text)?;
    let succeeded = Group::start(folder)?.wait();
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap_or_default();
    let (out, log) = (read("story.out"), read("story.log"));
    let out = String::from_utf8_lossy(&out).into_owned();
    if succeeded {
        return Ok(out);
    }
    // Its end tells most, and all of it is in the folder.
    let log = String::from_utf8_lossy(&log);
    let end = log.lines().rev().take(20).collect::<Vec<_>>().into_iter().rev();
    let end: String = end.flat_map(|line| [line, "\n"]).collect();
    Err(format!("it did not end well\n--- told\n{out}\n--- log\n{end}").into())
}

fn create_database(url: &str) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut connection = PgConnection::connect(url).await?;
        sqlx::raw_sql("CREATE DATABASE billing").execute(&mut connection).await?;
        connection.close().await?;
        Ok(())
    })
}

/// A script and all that it starts; dropped, all of it is killed.
struct Group(Child);

impl Group {
    fn start(folder: &Path) -> std::io::Result<Self> {
        let mut command = Command::new("bash");
        let ours = |name: &str| name.starts_with("SUBSCRIPTION_") || name == "DATABASE_URL";
        for (name, _) in std::env::vars().filter(|(name, _)| ours(name)) {
            command.env_remove(name);
        }
        let program = Path::new(env!("CARGO_BIN_EXE_subscription-http"));
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", program.parent().unwrap().display());
        command.args(["-euxo", "pipefail", "story.sh"]).env("PATH", path).current_dir(folder);
        command.stdin(Stdio::null());
        command.stdout(File::create(folder.join("story.out"))?);
        command.stderr(File::create(folder.join("story.log"))?);
        command.process_group(0).spawn().map(Self)
    }

    /// True if the script ended well, and in time.
    fn wait(&mut self) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < DEADLINE {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.success();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The shell's own `kill`: not every machine has the program.
        let script = format!("kill -s KILL -- -{}", self.0.id());
        Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status().ok();
        self.0.wait().ok();
    }
}

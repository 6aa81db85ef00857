//! A proxy in front of a PostgreSQL server: what a pooler, a firewall or a network does to its connections.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use test_support::cluster::Cluster;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

/// The end of each answer of the server: outside of a transaction, it is ready for a query.
const READY: &[u8] = b"Z\0\0\0\x05I";

/// What happens to the answer to a message. The server gets the message itself in any case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Sent,
    /// It is late by this time.
    Late(Duration),
    /// The client gets this error instead, and its connection is closed.
    Lost(Vec<u8>),
    /// The client gets this error instead, and its connection stays open.
    Failed(Vec<u8>),
    /// From now on, neither this connection nor its client hears anything. It stays open.
    Silence,
}

/// Decides on the answer to the bytes that a client sends.
type Decide = dyn Fn(&[u8]) -> Answer + Send + Sync;

/// An edit of the bytes that the server sends.
type Edit = fn(&mut [u8]);

/// A proxy in front of a server. It ends when it is dropped.
pub(crate) struct Proxy {
    folder: PathBuf,
    task: JoinHandle<()>,
}

impl Proxy {
    /// A proxy that decides on the answer to each message.
    pub(crate) fn of(
        cluster: &Cluster,
        decide: impl Fn(&[u8]) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::new(cluster, Arc::new(decide), |_| ())
    }

    /// A proxy that edits what the server sends.
    pub(crate) fn with_edit(cluster: &Cluster, edit: Edit) -> Self {
        Self::new(cluster, Arc::new(|_: &[u8]| Answer::Sent), edit)
    }

    fn new(cluster: &Cluster, decide: Arc<Decide>, edit: Edit) -> Self {
        let folder = cluster.folder().with_extension("proxy");
        std::fs::create_dir_all(&folder).unwrap();
        let listener = UnixListener::bind(folder.join(".s.PGSQL.5432")).unwrap();
        let server = cluster.folder().join(".s.PGSQL.5432");
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (from_client, to_client) = client.into_split();
                let Ok(server) = UnixStream::connect(&server).await else { continue };
                let (from_server, to_server) = server.into_split();
                let next = Arc::new(Mutex::new(Answer::Sent));
                let decided = Arc::clone(&next);
                tokio::spawn(requests(from_client, to_server, Arc::clone(&decide), decided));
                tokio::spawn(answers(from_server, to_client, next, edit));
            }
        });
        Self { folder, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@localhost/postgres?host={}", self.folder.display())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    decide: Arc<Decide>,
    next: Arc<Mutex<Answer>>,
) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        let Some(read) = bytes.get(..length) else { return };
        let answer = decide(read);
        if answer != Answer::Sent {
            *next.lock().unwrap() = answer;
        }
        if to.write_all(read).await.is_err() {
            return;
        }
    }
}

async fn answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    next: Arc<Mutex<Answer>>,
    edit: Edit,
) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        let Some(read) = bytes.get_mut(..length) else { return };
        edit(read);
        let answer = next.lock().unwrap().clone();
        let is_whole = read.ends_with(READY);
        if is_whole && answer != Answer::Silence {
            *next.lock().unwrap() = Answer::Sent;
        }
        let sent = match answer {
            Answer::Sent => to.write_all(read).await,
            Answer::Late(by) => {
                tokio::time::sleep(by).await;
                to.write_all(read).await
            }
            Answer::Lost(error) if is_whole => {
                to.write_all(&error).await.ok();
                return;
            }
            Answer::Failed(error) if is_whole => {
                to.write_all(&[error.as_slice(), READY].concat()).await
            }
            Answer::Lost(_) | Answer::Failed(_) | Answer::Silence => Ok(()),
        };
        if sent.is_err() {
            return;
        }
    }
}

/// The message of an error, as a server sends it.
pub(crate) fn error(severity: &str, code: &str, message: &str) -> Vec<u8> {
    let fields = format!("S{severity}\0V{severity}\0C{code}\0M{message}\0\0");
    let length = u32::try_from(fields.len() + 4).unwrap().to_be_bytes();
    [b"E".as_slice(), &length, fields.as_bytes()].concat()
}

/// True if a message has these bytes.
pub(crate) fn has(message: &[u8], bytes: &[u8]) -> bool {
    message.windows(bytes.len()).any(|window| window == bytes)
}

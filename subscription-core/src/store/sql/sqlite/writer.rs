//! The writer task: change sets that wait for it share a transaction, and so a flush of the disk.

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout_at;

use super::super::access;
use super::super::dialect::SqlConnection as _;
use super::super::error::{failed, outages, unavailable};
use super::super::page::Statement;
use super::commit;
use super::file::HeldFile;
use super::traces::Traces;
use crate::store::{ChangeSet, StoreError};
use crate::values::clock::Timestamp;

/// The largest number of jobs in one transaction.
const GROUP_MAX: usize = 256;

/// The queue of the writer task.
#[derive(Debug)]
pub(super) struct Writer(mpsc::Sender<Job>);

#[derive(Debug)]
enum Job {
    Commit(Vec<ChangeSet>, oneshot::Sender<Vec<Result<(), StoreError>>>),
    MoveDue(Timestamp, oneshot::Sender<Result<(), StoreError>>),
    Lend(oneshot::Sender<Loan>),
    Close(oneshot::Sender<()>),
}

/// The writer's connection, lent to an import while commits wait. A connection that is not given back is
/// replaced, and its open transaction is rolled back.
#[derive(Debug)]
pub(super) struct Loan {
    pub(super) connection: SqliteConnection,
    back: oneshot::Sender<SqliteConnection>,
}

impl Loan {
    pub(super) fn give_back(self) {
        // Without a receiver the connection is closed.
        self.back.send(self.connection).ok();
    }
}

impl Writer {
    /// Starts the writer, which holds the file for as long as it runs.
    pub(super) fn start(
        options: SqliteConnectOptions,
        connection: SqliteConnection,
        held: HeldFile,
    ) -> Self {
        let (sender, jobs) = mpsc::channel(GROUP_MAX);
        tokio::spawn(run(jobs, options, connection, held));
        Self(sender)
    }

    pub(super) async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError> {
        let outcomes = self.ask(|answer| Job::Commit(vec![changes], answer)).await?;
        outcomes.into_iter().collect()
    }

    /// Commits each set alone, all of them in one transaction.
    pub(super) async fn commit_each(&self, sets: Vec<ChangeSet>) -> Vec<Result<(), StoreError>> {
        let count = sets.len();
        match self.ask(|answer| Job::Commit(sets, answer)).await {
            Ok(outcomes) => outcomes,
            Err(error) => outages(error).take(count).collect(),
        }
    }

    pub(super) async fn move_due(&self, now: Timestamp) -> Result<(), StoreError> {
        self.ask(|answer| Job::MoveDue(now, answer)).await?
    }

    /// Lends the connection to the caller for a transaction.
    pub(super) async fn lend(&self) -> Result<Loan, StoreError> {
        self.ask(Job::Lend).await
    }

    pub(super) async fn close(&self) {
        // The second call finds the store closed.
        self.ask(Job::Close).await.ok();
    }

    async fn ask<T>(&self, job: impl FnOnce(oneshot::Sender<T>) -> Job) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.0.send(job(answer)).await.map_err(|_| unavailable("the store is closed"))?;
        answered.await.map_err(|_| unavailable("the store closed meanwhile"))
    }
}

async fn run(
    mut jobs: mpsc::Receiver<Job>,
    options: SqliteConnectOptions,
    connection: SqliteConnection,
    held: HeldFile,
) {
    let mut connection = Some(connection);
    let mut group = Vec::new();
    let mut traces = Traces::new();
    while next(&mut jobs, &mut group, &traces).await {
        let mut closing = Vec::new();
        let mut lending = Vec::new();
        let mut work = Vec::new();
        for job in group.drain(..) {
            match job {
                Job::Commit(..) | Job::MoveDue(..) => work.push(job),
                Job::Lend(to) => lending.push(to),
                Job::Close(done) => closing.push(done),
            }
        }
        if connection.is_none() {
            connection = options.connect().await.ok();
        }
        let sound = match &mut connection {
            Some(_) if !work.is_empty() && !held.is_in_place() => {
                tracing::error!("the database file was removed or replaced while it was open");
                refuse(work, "the file was removed or replaced");
                true
            }
            Some(open) => serve(open, work, &mut traces).await,
            None => {
                refuse(work, "the file cannot be opened");
                true
            }
        };
        if !sound {
            connection = None;
        }
        // A loan that is refused is dropped, which fails the call that waits for it.
        let lending = lending.into_iter().filter(|_| held.is_in_place());
        for to in lending {
            connection = lend(connection, &options, to).await;
            // The log may hold the records of a refused import.
            traces.in_log();
        }
        if !closing.is_empty() {
            jobs.close();
            if let Some(mut open) = connection.take() {
                traces.erase_all(&mut open).await;
                open.close().await.ok();
            }
            drop(held);
            for done in closing {
                done.send(()).ok();
            }
            return;
        }
        match &mut connection {
            Some(open) => traces.erase_due(open).await,
            None => traces.put_off(),
        }
    }
}

/// Waits for the next jobs, or until deleted rows are to be erased; false once the queue is closed.
async fn next(jobs: &mut mpsc::Receiver<Job>, group: &mut Vec<Job>, traces: &Traces) -> bool {
    let received = jobs.recv_many(group, GROUP_MAX);
    match traces.due() {
        Some(due) => timeout_at(due, received).await.map_or(true, |count| count > 0),
        None => received.await > 0,
    }
}

/// Waits until the connection is given back; `None` if it never is.
async fn lend(
    connection: Option<SqliteConnection>,
    options: &SqliteConnectOptions,
    to: oneshot::Sender<Loan>,
) -> Option<SqliteConnection> {
    let connection = match connection {
        Some(connection) => connection,
        None => options.connect().await.ok()?,
    };
    let (back, returned) = oneshot::channel();
    match to.send(Loan { connection, back }) {
        Ok(()) => returned.await.ok(),
        Err(loan) => Some(loan.connection),
    }
}

fn refuse(work: Vec<Job>, why: &'static str) {
    for job in work {
        answer(job, &mut outages(why));
    }
}

/// Sends a job the next of the outcomes, one for each of its change sets.
fn answer(job: Job, outcomes: &mut impl Iterator<Item = Result<(), StoreError>>) {
    match job {
        // The caller may have been cancelled.
        Job::Commit(sets, to) => drop(to.send(outcomes.take(sets.len()).collect())),
        Job::MoveDue(_, to) => drop(outcomes.next().map(|outcome| to.send(outcome))),
        // These have no outcome.
        Job::Lend(_) => {}
        Job::Close(to) => drop(to.send(())),
    }
}

/// Runs one group of jobs and sends each its outcome. False if the connection cannot be used any more.
async fn serve(connection: &mut SqliteConnection, work: Vec<Job>, traces: &mut Traces) -> bool {
    if work.is_empty() {
        return true;
    }
    let mut outcomes = Vec::with_capacity(work.len());
    match transact(connection, &work, &mut outcomes).await {
        Ok(()) => {
            let mut outcomes = outcomes.into_iter();
            for job in work {
                if let Job::Commit(sets, _) = &job {
                    let taken = sets.iter().zip(outcomes.as_slice()).filter(|(_, it)| it.is_ok());
                    taken.for_each(|(changes, _)| traces.note(changes));
                }
                answer(job, &mut outcomes);
            }
            true
        }
        Err(error) => {
            // The whole group is rolled back.
            let undone = connection.execute(Statement::new("ROLLBACK", Vec::new())).await;
            tracing::error!(%error, "a group of commits could not be written");
            let mut outcomes = outages(error);
            for job in work {
                answer(job, &mut outcomes);
            }
            // ROLLBACK fails where SQLite has rolled back by itself.
            undone.is_ok() || connection.ping().await.is_ok()
        }
    }
}

/// Runs jobs in one transaction. A refused change set does not affect others; an error of the file fails all.
async fn transact(
    connection: &mut SqliteConnection,
    work: &[Job],
    outcomes: &mut Vec<Result<(), StoreError>>,
) -> Result<(), StoreError> {
    step(connection, "BEGIN IMMEDIATE").await?;
    for job in work {
        match job {
            Job::Commit(sets, _) => {
                for changes in sets {
                    outcomes.push(commit_alone(connection, changes).await?);
                }
            }
            Job::MoveDue(now, _) => {
                move_due(connection, *now).await?;
                outcomes.push(Ok(()));
            }
            Job::Lend(_) | Job::Close(_) => {}
        }
    }
    step(connection, "COMMIT").await
}

/// Commits a change set; one that is refused leaves nothing behind. The error of the file is the outer one.
async fn commit_alone(
    connection: &mut SqliteConnection,
    changes: &ChangeSet,
) -> Result<Result<(), StoreError>, StoreError> {
    // A set that is refused at its only write has written nothing.
    let many = changes.writes.len() > 1 || !changes.deletes.is_empty();
    if many {
        step(connection, "SAVEPOINT one_set").await?;
    }
    let outcome = commit::commit(connection, changes).await.map_err(StoreError::from);
    if let Err(error @ (StoreError::Unavailable(_) | StoreError::Damaged(_))) = outcome {
        return Err(error);
    }
    if many && outcome.is_err() {
        step(connection, "ROLLBACK TO one_set").await?;
    }
    if many {
        step(connection, "RELEASE one_set").await?;
    }
    Ok(outcome)
}

async fn step(connection: &mut SqliteConnection, text: &'static str) -> Result<(), StoreError> {
    connection.execute(Statement::new(text, Vec::new())).await.map(drop).map_err(failed)
}

async fn move_due(connection: &mut SqliteConnection, now: Timestamp) -> Result<(), StoreError> {
    connection.execute(access::move_due(now, "")).await.map(drop).map_err(failed)
}

//! The writer task: change sets that wait for it share a transaction, and so a flush of the disk.
//!
//! The sets that one caller commits together (`commit_each`), such as those of the billing clock, are a batch. Batches
//! that wait share a transaction too. If other callers wait, the transaction ends early and includes their change sets.
//! So a request waits only for a few sets of the billing clock and for one flush.

use std::collections::VecDeque;
use std::mem::take;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout_at;

use super::super::access;
use super::super::dialect::SqlConnection as _;
use super::super::error::{failed, outages, unavailable};
use super::super::statement::Statement;
use super::commit;
use super::commit_several::{SetBatch, set_batch};
use super::erasure::Erasure;
use super::file::HeldFile;
use crate::store::{Cause, ChangeSet, StoreError};
use crate::values::Timestamp;

/// The largest number of jobs in one transaction.
const GROUP_MAX: usize = 256;

/// If other callers wait, a transaction commits at least this number of change sets of a batch before it leaves the
/// rest of the batch to later transactions.
const BATCH_MIN: usize = 4;

/// A transaction that has committed this number of sets from batches begins no further batch. The next transaction
/// writes that further batch, while the callers of the finished batches prepare their next sets.
const BATCHES_MAX: usize = 128;

/// The queue of the writer task.
#[derive(Debug)]
pub(super) struct Writer(mpsc::Sender<Job>);

#[derive(Debug)]
enum Job {
    Work(Work, Answer),
    CommitEach(Batch),
    Lend(oneshot::Sender<Loan>),
    Close(oneshot::Sender<()>),
}

/// The sender of the outcome to the caller, who may have been cancelled.
type Answer = oneshot::Sender<Result<(), StoreError>>;

#[derive(Debug)]
enum Work {
    Commit(Box<ChangeSet>),
    MoveDue(Timestamp),
}

/// The writer's connection, which is lent to an import while commits wait. A connection that is not given back is
/// replaced, and its open transaction is rolled back.
#[derive(Debug)]
pub(super) struct Loan {
    pub(super) connection: SqliteConnection,
    back: oneshot::Sender<SqliteConnection>,
}

impl Loan {
    pub(super) fn give_back(self) {
        // If the writer task has ended, nobody receives the connection, and it is closed.
        self.back.send(self.connection).ok();
    }
}

/// The change sets of one caller: `sets` are still to be committed, `outcomes` are the results of the others.
#[derive(Debug)]
struct Batch {
    sets: std::vec::IntoIter<ChangeSet>,
    /// The number of all sets of the batch.
    count: usize,
    outcomes: Vec<Result<(), StoreError>>,
    to: oneshot::Sender<Vec<Result<(), StoreError>>>,
}

impl Batch {
    /// Sends the outcomes to the caller, who may have been cancelled.
    fn answer(self) {
        self.to.send(self.outcomes).ok();
    }
}

impl Writer {
    /// Starts the writer, which holds the file for as long as it runs.
    pub(super) fn start(
        options: SqliteConnectOptions,
        connection: SqliteConnection,
        mut held: HeldFile,
    ) -> Self {
        held.note_log();
        let (sender, jobs) = mpsc::channel(GROUP_MAX);
        tokio::spawn(run(jobs, options, connection, held));
        Self(sender)
    }

    pub(super) async fn commit(&self, changes: ChangeSet) -> Result<(), StoreError> {
        self.ask(|answer| Job::Work(Work::Commit(Box::new(changes)), answer)).await?
    }

    /// Commits many sets as one batch. Each set is accepted or refused by itself.
    pub(super) async fn commit_each(&self, sets: Vec<ChangeSet>) -> Vec<Result<(), StoreError>> {
        let count = sets.len();
        let batch =
            |to| Batch { sets: sets.into_iter(), count, outcomes: Vec::with_capacity(count), to };
        match self.ask(|answer| Job::CommitEach(batch(answer))).await {
            Ok(outcomes) => outcomes,
            Err(error) => outages(error).take(count).collect(),
        }
    }

    pub(super) async fn refresh_access_classes(&self, now: Timestamp) -> Result<(), StoreError> {
        self.ask(|answer| Job::Work(Work::MoveDue(now), answer)).await?
    }

    /// Lends the connection to the caller for a transaction.
    pub(super) async fn lend(&self) -> Result<Loan, StoreError> {
        self.ask(Job::Lend).await
    }

    pub(super) async fn close(&self) {
        // A second call fails because the store is closed already. The error is ignored.
        self.ask(Job::Close).await.ok();
    }

    async fn ask<T>(&self, job: impl FnOnce(oneshot::Sender<T>) -> Job) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.0.send(job(answer)).await.map_err(|_| unavailable("the database is closed"))?;
        answered.await.map_err(|_| unavailable("the database was closed"))
    }
}

async fn run(
    jobs: mpsc::Receiver<Job>,
    options: SqliteConnectOptions,
    connection: SqliteConnection,
    mut held: HeldFile,
) {
    let mut connection = Some(connection);
    let mut erasure = Erasure::new();
    let mut queue = Queue::of(jobs);
    let mut batches = VecDeque::new();
    let mut closing = Vec::new();
    while queue.next(!batches.is_empty(), &erasure).await {
        let work = take(&mut queue.work);
        let lending = take(&mut queue.lending);
        batches.extend(queue.batches.drain(..));
        closing.append(&mut queue.closing);
        if connection.is_none() {
            connection = connect(&options, &mut held).await;
        }
        let has_work = !work.is_empty() || !batches.is_empty();
        let sound = match (&mut connection, held.expect_in_place()) {
            (Some(_), Err(fault)) if has_work => {
                tracing::error!("{fault}");
                refuse(work, batches.drain(..), fault);
                // Written into the file, what is in a removed log survives a kill.
                erasure.in_log();
                true
            }
            (Some(open), Ok(())) if has_work => {
                serve(open, work, &mut batches, &mut queue, &mut erasure).await
            }
            (Some(_), _) => true,
            (None, _) => {
                refuse(work, batches.drain(..), "the file cannot be opened");
                true
            }
        };
        if !sound {
            connection = None;
        }
        // If the file is not in place, the request for the connection is dropped, and the call that waits for it fails.
        for to in lending {
            if held.expect_in_place().is_err() {
                continue;
            }
            connection = lend(connection, &options, &mut held, to).await;
            // The log may contain the records of a refused import, so it is truncated soon.
            erasure.in_log();
        }
        if !closing.is_empty() && batches.is_empty() {
            queue.jobs.close();
            if let Some(mut open) = connection.take() {
                erasure.erase_all(&mut open).await;
                open.close().await.ok();
            }
            drop(held);
            for done in closing {
                done.send(()).ok();
            }
            return;
        }
        match &mut connection {
            Some(open) => erasure.erase_due(open).await,
            None => erasure.put_off(),
        }
    }
}

/// The jobs that wait, by their kinds.
struct Queue {
    jobs: mpsc::Receiver<Job>,
    work: Vec<(Work, Answer)>,
    batches: Vec<Batch>,
    lending: Vec<oneshot::Sender<Loan>>,
    closing: Vec<oneshot::Sender<()>>,
}

impl Queue {
    fn of(jobs: mpsc::Receiver<Job>) -> Self {
        let (work, batches, lending, closing) = Default::default();
        Self { jobs, work, batches, lending, closing }
    }

    /// Waits for a job, or until deleted rows are to be erased. Returns at once if a batch is running or jobs wait.
    /// False once the queue is closed.
    async fn next(&mut self, is_busy: bool, erasure: &Erasure) -> bool {
        let waits = self.is_for_others() || !self.batches.is_empty() || !self.closing.is_empty();
        if is_busy || waits {
            return true;
        }
        let received = match erasure.due() {
            Some(due) => timeout_at(due, self.jobs.recv()).await,
            None => Ok(self.jobs.recv().await),
        };
        match received {
            Ok(Some(job)) => self.push(job),
            Ok(None) => return false,
            Err(_) => {}
        }
        self.take();
        true
    }

    /// Moves each job that has arrived into the list of its kind.
    fn take(&mut self) {
        while self.work.len() < GROUP_MAX
            && let Ok(job) = self.jobs.try_recv()
        {
            self.push(job);
        }
    }

    fn push(&mut self, job: Job) {
        match job {
            Job::Work(job, answer) => self.work.push((job, answer)),
            Job::CommitEach(batch) => self.batches.push(batch),
            Job::Lend(to) => self.lending.push(to),
            Job::Close(done) => self.closing.push(done),
        }
    }

    /// True if callers without a batch wait.
    fn is_for_others(&mut self) -> bool {
        self.take();
        !self.work.is_empty() || !self.lending.is_empty()
    }
}

/// Opens a connection for the writer; `None` if the file cannot be opened.
async fn connect(options: &SqliteConnectOptions, held: &mut HeldFile) -> Option<SqliteConnection> {
    let connection = options.connect().await.ok()?;
    held.note_log();
    Some(connection)
}

/// Lends the connection, and waits until it is given back; `None` if it is not given back.
async fn lend(
    connection: Option<SqliteConnection>,
    options: &SqliteConnectOptions,
    held: &mut HeldFile,
    to: oneshot::Sender<Loan>,
) -> Option<SqliteConnection> {
    let connection = match connection {
        Some(connection) => connection,
        None => connect(options, held).await?,
    };
    let (back, returned) = oneshot::channel();
    match to.send(Loan { connection, back }) {
        Ok(()) => returned.await.ok(),
        Err(loan) => Some(loan.connection),
    }
}

fn refuse(work: Vec<(Work, Answer)>, batches: impl Iterator<Item = Batch>, why: impl Into<Cause>) {
    let mut outcomes = outages(why);
    for ((_, to), outcome) in work.into_iter().zip(outcomes.by_ref()) {
        to.send(outcome).ok();
    }
    for mut batch in batches {
        // Sets of the batch that were committed in an earlier transaction stay committed.
        let refused = batch.count - batch.outcomes.len();
        batch.outcomes.extend(outcomes.by_ref().take(refused));
        batch.answer();
    }
}

/// Runs the jobs and some of the batches in one transaction, and sends each caller the outcome. A batch that is not
/// finished stays the first batch. False if the connection can no longer be used.
async fn serve(
    connection: &mut SqliteConnection,
    mut work: Vec<(Work, Answer)>,
    batches: &mut VecDeque<Batch>,
    queue: &mut Queue,
    erasure: &mut Erasure,
) -> bool {
    let mut outcomes = Vec::with_capacity(work.len());
    // The first batch may have begun in an earlier transaction.
    let committed = batches.front().map_or(0, |batch| batch.outcomes.len());
    let mut begun = 0;
    let done = async {
        step(connection, "BEGIN IMMEDIATE").await?;
        run_all(connection, &work, &mut outcomes, erasure).await?;
        let mut is_waited_for = || !work.is_empty() || queue.is_for_others();
        let mut sets = 0;
        for batch in &mut *batches {
            begun += 1;
            commit_part(connection, batch, &mut is_waited_for, erasure).await?;
            sets += batch.count;
            if is_waited_for() || sets >= BATCHES_MAX {
                break;
            }
        }
        if begun > 0 {
            // Jobs that came meanwhile join the transaction. Otherwise they would wait for two flushes.
            queue.take();
            work.append(&mut queue.work);
            run_all(connection, &work, &mut outcomes, erasure).await?;
        }
        step(connection, "COMMIT").await
    };
    if let Err(error) = done.await {
        // The whole group is rolled back.
        let undone = connection.execute(Statement::plain("ROLLBACK")).await;
        tracing::error!(%error, "a group of commits could not be written");
        for (nth, batch) in batches.iter_mut().take(begun).enumerate() {
            batch.outcomes.truncate(if nth == 0 { committed } else { 0 });
        }
        refuse(work, batches.drain(..begun), error);
        // ROLLBACK fails also if SQLite has already rolled back by itself: then a ping shows whether the connection
        // still works.
        return undone.is_ok() || connection.ping().await.is_ok();
    }
    for ((_, to), outcome) in work.into_iter().zip(outcomes) {
        to.send(outcome).ok();
    }
    while let Some(batch) = batches.pop_front_if(|batch| batch.outcomes.len() == batch.count) {
        batch.answer();
    }
    true
}

/// Runs the jobs that have no outcome yet inside a transaction: one by one, or several by one message to SQLite's
/// thread (see `commit_several.rs`). A refused change set does not affect others. If the result is an error, it is an
/// error of the file, and all jobs fail.
async fn run_all(
    connection: &mut SqliteConnection,
    jobs: &[(Work, Answer)],
    outcomes: &mut Vec<Result<(), StoreError>>,
    erasure: &mut Erasure,
) -> Result<(), StoreError> {
    let mut prepared = None;
    while let Some(next @ [(first, _), ..]) = jobs.get(outcomes.len()..) {
        if let Work::MoveDue(now) = first {
            connection.execute(access::refresh_access_classes(*now, "")).await.map_err(failed)?;
            outcomes.push(Ok(()));
            continue;
        }
        let sets = next.iter().map_while(|(work, _)| match work {
            Work::Commit(changes) => Some(&**changes),
            Work::MoveDue(_) => None,
        });
        outcomes.extend(commit_next(connection, sets, next.len(), &mut prepared, erasure).await?);
    }
    Ok(())
}

/// Commits the next sets of a batch inside a transaction: all remaining sets, or a few if other callers wait.
async fn commit_part(
    connection: &mut SqliteConnection,
    batch: &mut Batch,
    mut is_waited_for: impl FnMut() -> bool,
    erasure: &mut Erasure,
) -> Result<(), StoreError> {
    let before = batch.outcomes.len();
    let mut prepared = None;
    while !batch.sets.as_slice().is_empty() {
        let is_waited_for = is_waited_for();
        let done = batch.outcomes.len() - before;
        if is_waited_for && done >= BATCH_MIN {
            break;
        }
        let max = if is_waited_for { BATCH_MIN - done } else { usize::MAX };
        let sets = batch.sets.as_slice().iter();
        let outcomes = commit_next(connection, sets, max, &mut prepared, erasure).await?;
        batch.sets.by_ref().take(outcomes.len()).for_each(drop);
        batch.outcomes.extend(outcomes);
    }
    Ok(())
}

/// Commits the first of the change sets by itself, or the first ones (at most `max`) by one message. Returns their
/// outcomes. While SQLite's thread runs the message, the next message is built and stored in `prepared`.
async fn commit_next<'c>(
    connection: &mut SqliteConnection,
    sets: impl Iterator<Item = &'c ChangeSet> + Clone,
    max: usize,
    prepared: &mut Option<SetBatch>,
    erasure: &mut Erasure,
) -> Result<Vec<Result<(), StoreError>>, StoreError> {
    let mut count = 1;
    let mut written = None;
    let message = prepared.take().filter(|message| message.count <= max);
    if let Some(message) = message.or_else(|| set_batch(sets.clone(), max)) {
        count = message.count;
        let following = sets.clone().skip(count);
        let (done, next) = tokio::join!(
            biased;
            message.commit(connection),
            async { set_batch(following, usize::MAX) },
        );
        (written, *prepared) = (done.map_err(failed)?, next);
    }
    let mut outcomes = Vec::with_capacity(count);
    for (nth, changes) in sets.take(count).enumerate() {
        let is_written = written.as_ref().and_then(|written| written.get(nth)) == Some(&true);
        outcomes.push(if is_written {
            Ok(())
        } else {
            commit_alone(connection, changes, erasure).await?
        });
    }
    Ok(outcomes)
}

/// Commits one change set; a refused set writes nothing. The inner error is the refusal of the set. The outer error is
/// a failure of the database.
async fn commit_alone(
    connection: &mut SqliteConnection,
    changes: &ChangeSet,
    erasure: &mut Erasure,
) -> Result<Result<(), StoreError>, StoreError> {
    step(connection, "SAVEPOINT one_set").await?;
    let outcome = commit::commit(connection, changes).await.map_err(StoreError::from);
    if let Err(error @ (StoreError::Unavailable(_) | StoreError::Damaged(_))) = outcome {
        return Err(error);
    }
    if outcome.is_err() {
        step(connection, "ROLLBACK TO one_set").await?;
    }
    step(connection, "RELEASE one_set").await?;
    if outcome.is_ok() {
        erasure.note(changes);
    }
    Ok(outcome)
}

async fn step(connection: &mut SqliteConnection, text: &'static str) -> Result<(), StoreError> {
    connection.execute(Statement::plain(text)).await.map(drop).map_err(failed)
}

//! The background work: while this instance leads, each job runs in its own task.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use subscription_core::{Clock, Error, Timestamp};
use subscription_http::ClockMetrics;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::leader::Leader;
use crate::program::Failure;

/// The shortest pause before a run at a given moment ([`Next::At`]), and the default of the longest pause of a job.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// The pause after the first failure of a job, and the longest pause. The pause doubles with each further failure in a
/// row.
const RETRIES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_mins(1));

/// How often an instance checks whether it leads. An instance that does not lead tries to become the leader.
const CHECKED_EVERY: Duration = Duration::from_secs(2);

/// The minimum time between two warnings about clock skew, and the difference of clocks above which the log warns.
const SKEW_WARNED_EVERY: Duration = Duration::from_mins(1);
const SKEW_MAX: Duration = Duration::from_secs(5);

/// A run that stands still for this long is ended, and another begins. Whatever a job waits for ends sooner: a call of the
/// store or of a receiver has a time-out, and a pause of a job is shorter.
const STILL_MAX: Duration = Duration::from_mins(2);

/// How long the jobs may take to stop before they are aborted. A call of the store takes at most 10 seconds.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// A part of the background work.
#[async_trait]
pub(crate) trait Job: Send + Sync {
    /// The name of the job in log lines.
    fn name(&self) -> &'static str;

    /// Works on a limited number of records. Once `stop` is set, it returns early, between two commits.
    async fn run(&self, stop: &Stop) -> Result<Next, Error>;

    /// The longest pause between two runs.
    fn longest_pause(&self) -> Duration {
        PAUSES.1
    }

    /// Called when the job has stopped, because the instance no longer leads or the process ends.
    fn ended(&self) {}

    /// Waits until the job must run although its pause has not ended. By default this never happens.
    async fn woken(&self) {
        std::future::pending::<()>().await;
    }
}

/// The time of the next run of a job.
#[derive(Clone, Copy)]
pub(crate) enum Next {
    /// Run again at once, because there is more to do.
    Again,
    /// Run again after this pause. There is more to do, but requests are served during the pause.
    After(Duration),
    /// Run again at this moment of the process's clock.
    At(Timestamp),
    /// Run again after the longest pause.
    Idle,
}

/// A signal to stop. It is set when the instance no longer leads, or when the process ends.
#[derive(Clone)]
pub(crate) struct Stop(watch::Receiver<()>);

impl Stop {
    /// A stop that is set when the sender is dropped.
    pub(crate) fn new() -> (watch::Sender<()>, Self) {
        let (sender, receiver) = watch::channel(());
        (sender, Self(receiver))
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.has_changed().is_err()
    }

    /// Waits until the stop is set.
    pub(crate) async fn wait(&self) {
        // The channel never carries a value: `changed` fails when the sender is dropped, which ends the loop.
        while self.0.clone().changed().await.is_ok() {}
    }
}

/// The background work of the process.
pub(crate) struct BackgroundWork {
    pub(crate) jobs: Vec<Arc<dyn Job>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: ClockMetrics,
}

impl BackgroundWork {
    /// Runs the jobs while this instance leads, until the process stops. Returns when no job runs any more.
    pub(crate) async fn run(&self, leader: &dyn Leader, stop: &Stop) {
        let mut running = None;
        let mut warned: Option<Instant> = None;
        while !stop.is_set() {
            let leads = tokio::select! {
                leads = leader.leads() => leads,
                () = stop.wait() => break,
            };
            self.metrics.leads(leads);
            match (leads, running.take()) {
                (true, None) => {
                    tracing::info!("this instance leads: it does the background work");
                    running = Some(self.start());
                }
                (false, Some(jobs)) => {
                    tracing::warn!("this instance no longer leads: it stops its background work");
                    end(jobs).await;
                    // A job that was still running may have set metrics that the call of `leads` above had reset. So
                    // they are reset again.
                    self.metrics.leads(false);
                }
                (_, unchanged) => running = unchanged,
            }
            let skew = leader.skew();
            self.metrics.skew(skew);
            if skew > SKEW_MAX && warned.is_none_or(|at| at.elapsed() >= SKEW_WARNED_EVERY) {
                warned = Some(Instant::now());
                let seconds = skew.as_secs();
                tracing::warn!(
                    seconds,
                    "clock skew: this machine's time differs from the database's; if they differ by more than a minute, this instance writes nothing"
                );
            }
            tokio::select! {
                () = sleep(CHECKED_EVERY) => {}
                () = stop.wait() => {}
            }
        }
        if let Some(jobs) = running {
            end(jobs).await;
        }
        self.metrics.leads(false);
    }

    fn start(&self) -> Running {
        let (stopping, stop) = Stop::new();
        let mut tasks = JoinSet::new();
        for job in &self.jobs {
            let job = Arc::clone(job);
            let clock = Arc::clone(&self.clock);
            let stop = stop.clone();
            tasks.spawn(async move { repeat(&*job, &*clock, &stop).await });
        }
        Running { stopping, tasks }
    }
}

/// The running jobs, each in its own task.
struct Running {
    stopping: watch::Sender<()>,
    tasks: JoinSet<()>,
}

/// Stops the jobs. Each job finishes its current commit, unless [`STOP_TIMEOUT`] ends first.
async fn end(Running { stopping, mut tasks }: Running) {
    drop(stopping);
    let ended = timeout(STOP_TIMEOUT, async { while tasks.join_next().await.is_some() {} });
    if ended.await.is_err() {
        tracing::warn!("stop timed out: background work was cut off");
        tasks.shutdown().await;
    }
}

/// Runs a job again and again until the stop is set. A failure delays the next run.
async fn repeat(job: &dyn Job, clock: &dyn Clock, stop: &Stop) {
    let mut failures = 0;
    while !stop.is_set() {
        let ran = unless_still(STILL_MAX, AssertUnwindSafe(job.run(stop)).catch_unwind()).await;
        let failure = match ran {
            Some(Ok(Ok(next))) => Ok(next),
            Some(Ok(Err(error))) => Err(Failure::from(error).to_string()),
            Some(Err(_)) => Err("it panicked".to_owned()),
            None => Err(format!("it stood still for {} seconds", STILL_MAX.as_secs())),
        };
        let pause = match failure {
            Ok(next) => {
                failures = 0;
                pause(next, clock.now(), job.longest_pause())
            }
            Err(error) => {
                failures += 1;
                tracing::warn!(job = job.name(), failures, error, "a background job failed");
                pause_after(failures)
            }
        };
        tokio::select! {
            () = sleep(pause) => {}
            () = stop.wait() => {}
            // A signal does not shorten the pause of a job that failed.
            () = job.woken(), if failures == 0 => {}
        }
    }
    job.ended();
}

/// The result of a run. `None` if the run stands still: for `longest` or more, nothing that it waits for has happened. A
/// run that works may take any time.
async fn unless_still<T>(longest: Duration, run: impl Future<Output = T> + Send) -> Option<T> {
    let polls = AtomicU64::new(0);
    let mut run = pin!(run);
    // The set polls the run only if something has woken the run itself.
    let mut runs = FuturesUnordered::from_iter([poll_fn(|context| {
        polls.fetch_add(1, Ordering::Relaxed);
        run.as_mut().poll(context)
    })]);
    // The first poll begins the run.
    let mut seen = 1;
    loop {
        tokio::select! {
            // The run comes first: after a pause of the whole process, it has work and the time is over as well.
            biased;
            done = runs.next() => return done,
            () = sleep(longest) => {
                let now = polls.load(Ordering::Relaxed);
                if now == seen {
                    return None;
                }
                seen = now;
            }
        }
    }
}

/// The pause before the next run.
fn pause(next: Next, now: Timestamp, longest: Duration) -> Duration {
    match next {
        Next::Again => Duration::ZERO,
        Next::After(pause) => pause.min(longest),
        Next::Idle => longest,
        Next::At(at) => {
            let micros = u64::try_from(at.micros() - now.micros()).unwrap_or(0);
            Duration::from_micros(micros).clamp(PAUSES.0, longest)
        }
    }
}

/// The pause after this many failures in a row.
fn pause_after(failures: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
    RETRIES.0.saturating_mul(doubled).min(RETRIES.1)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;

    use subscription_core::ManualClock;
    use tokio::sync::Semaphore;

    use super::*;

    /// A job whose runs signal that they have begun and ended, and wait for a permit in between.
    struct Steered {
        begun: Semaphore,
        permits: Semaphore,
        ended: Semaphore,
        panics: AtomicBool,
        stops: Mutex<Vec<Stop>>,
    }

    impl Steered {
        fn new() -> Arc<Self> {
            let begun = Semaphore::new(0);
            let permits = Semaphore::new(0);
            let ended = Semaphore::new(0);
            let panics = AtomicBool::new(false);
            let stops = Mutex::default();
            Arc::new(Self { begun, permits, ended, panics, stops })
        }

        /// Waits until a run has begun, and returns its stop.
        async fn begun(&self) -> Stop {
            self.begun.acquire().await.unwrap().forget();
            self.stops.lock().unwrap().pop().unwrap()
        }

        /// Lets the present run finish.
        async fn finish(&self) {
            self.permits.add_permits(1);
            self.ended.acquire().await.unwrap().forget();
        }
    }

    #[async_trait]
    impl Job for Steered {
        fn name(&self) -> &'static str {
            "steered"
        }

        async fn run(&self, stop: &Stop) -> Result<Next, Error> {
            self.stops.lock().unwrap().push(stop.clone());
            self.begun.add_permits(1);
            self.permits.acquire().await.unwrap().forget();
            self.ended.add_permits(1);
            assert!(!self.panics.load(Ordering::SeqCst), "as the test asks for");
            Ok(Next::Again)
        }
    }

    /// An instance that leads if the test sets it to true.
    struct FixedLeader(AtomicBool);

    #[async_trait]
    impl Leader for FixedLeader {
        async fn leads(&self) -> bool {
            self.0.load(Ordering::SeqCst)
        }
    }

    fn jobs(job: &Arc<Steered>) -> BackgroundWork {
        let job: Arc<dyn Job> = Arc::<Steered>::clone(job);
        let clock = Arc::new(ManualClock::at(Timestamp::MIN));
        BackgroundWork { jobs: vec![job], clock, metrics: ClockMetrics::default() }
    }

    #[test]
    fn a_job_pauses_until_its_next_moment_within_bounds() {
        let at = |micros| Timestamp::from_micros(micros).unwrap();
        let longest = PAUSES.1;
        let pause = |next| pause(next, at(1_000_000), longest).as_millis();

        assert_eq!(pause(Next::Again), 0);
        assert_eq!(pause(Next::After(Duration::from_millis(7))), 7);
        assert_eq!(pause(Next::At(at(0))), 50);
        assert_eq!(pause(Next::At(at(1_000_001))), 50);
        assert_eq!(pause(Next::At(at(1_700_000))), 700);
        assert_eq!(pause(Next::At(at(60_000_000))), 5_000);
        assert_eq!(pause(Next::Idle), 5_000);
    }

    #[test]
    fn a_job_pauses_longer_with_each_failure() {
        let pauses = [1, 2, 3, 10, 11, 1_000].map(|failures| pause_after(failures).as_millis());

        assert_eq!(pauses, [100, 200, 400, 51_200, 60_000, 60_000]);
    }

    #[tokio::test]
    async fn a_run_that_stands_still_is_ended_and_one_that_works_is_not() {
        let longest = Duration::from_secs(1);

        let still = unless_still(longest, std::future::pending::<()>()).await;
        let works = async {
            for _ in 0..700 {
                sleep(Duration::from_millis(2)).await;
            }
        };
        let works = unless_still(longest, works).await;

        assert_eq!((still, works), (None, Some(())));
    }

    #[tokio::test]
    async fn a_job_that_panics_runs_again() {
        let (job, leader, (stopping, stop)) =
            (Steered::new(), FixedLeader(true.into()), Stop::new());
        job.panics.store(true, Ordering::SeqCst);
        let jobs = jobs(&job);
        let story = async {
            for _ in 0..3 {
                job.begun().await;
                job.finish().await;
            }
            drop(stopping);
            job.permits.add_permits(1);
        };

        tokio::join!(jobs.run(&leader, &stop), story);
    }

    #[tokio::test]
    async fn jobs_run_while_the_instance_leads_and_a_stop_lets_a_run_finish() {
        let (job, leader, (stopping, stop)) =
            (Steered::new(), FixedLeader(true.into()), Stop::new());
        let jobs = jobs(&job);
        let story = async {
            job.begun().await;
            job.finish().await;
            let first = job.begun().await;
            assert!(!first.is_set());
            leader.0.store(false, Ordering::SeqCst);
            first.wait().await;
            job.finish().await;
            leader.0.store(true, Ordering::SeqCst);
            let second = job.begun().await;
            assert!(first.is_set() && !second.is_set());
            drop(stopping);
            second.wait().await;
            job.finish().await;
        };

        tokio::join!(jobs.run(&leader, &stop), story);

        assert_eq!(job.begun.available_permits(), 0, "a run begins after the stop");
    }
}

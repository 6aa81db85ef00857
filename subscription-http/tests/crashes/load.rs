//! Many who write at once.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::http::{Connection, Cut, Request};
use crate::running::until;
use crate::writer::{Trouble, Writer};
use test_support::rng::Rng;

/// How far they have come.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    answered: AtomicUsize,
    unavailable: AtomicUsize,
    stop: AtomicBool,
}

impl Progress {
    pub(crate) fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    /// How often the answer was that the database is out of reach.
    pub(crate) fn unavailable(&self) -> usize {
        self.unavailable.load(Ordering::Relaxed)
    }

    /// Waits until so many more steps were answered.
    #[track_caller]
    pub(crate) fn wait_for(&self, more: usize) {
        let goal = self.answered() + more;
        until("steps that are answered", || self.answered() >= goal);
    }
}

/// Writes while `act` runs, each over a connection to `address`. In trouble, `handle` says whether a
/// writer goes on.
pub(crate) fn under_load<T>(
    writers: &mut [Writer],
    address: SocketAddr,
    handle: impl Fn(&Trouble, &mut Connection) -> ControlFlow<()> + Sync,
    act: impl FnOnce(&Progress) -> T,
) -> T {
    under_load_on(writers, &[address], handle, act)
}

/// The same with the writers divided among several addresses, by turns.
pub(crate) fn under_load_on<T>(
    writers: &mut [Writer],
    addresses: &[SocketAddr],
    handle: impl Fn(&Trouble, &mut Connection) -> ControlFlow<()> + Sync,
    act: impl FnOnce(&Progress) -> T,
) -> T {
    let (progress, handle) = (Progress::default(), &handle);
    std::thread::scope(|scope| {
        for (writer, address) in writers.iter_mut().zip(addresses.iter().cycle()) {
            let progress = &progress;
            scope.spawn(move || {
                let mut connection = Connection::new(*address);
                while !progress.stop.load(Ordering::Relaxed) {
                    match writer.work(&mut connection) {
                        Ok(()) => {
                            progress.answered.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(trouble) => {
                            if trouble == Trouble::Unavailable {
                                progress.unavailable.fetch_add(1, Ordering::Relaxed);
                            }
                            if handle(&trouble, &mut connection).is_break() {
                                return;
                            }
                        }
                    }
                }
            });
        }
        // Also where `act` panics: else nobody would hear of it.
        let _stop = Stop(&progress.stop);
        act(&progress)
    })
}

struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `act` while four clients wait for events again and again, and hang up at random.
pub(crate) fn beside_readers<T>(rng: &Rng, address: SocketAddr, act: impl FnOnce() -> T) -> T {
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let rng = rng.fork();
            scope.spawn(move || {
                let mut connection = Connection::new(address);
                let mut path = String::from("/events?wait=1");
                while !stop.load(Ordering::Relaxed) {
                    let pause = rng.maybe(50, |rng| Duration::from_micros(rng.below(6_000)));
                    connection.hang_up_after = pause;
                    match connection.ask(&Request::get(&path)) {
                        Ok(page) if page.status == 200 => {
                            let next = &page.json()["next_after"];
                            path = format!("/events?wait=1&after={next}");
                        }
                        Err(Cut::HungUp) => {}
                        // The server was killed, or there is too much to do: nobody looks at these readers.
                        Ok(_) | Err(_) => std::thread::sleep(Duration::from_millis(1)),
                    }
                }
            });
        }
        let _stop = Stop(stop);
        act()
    })
}

/// For a server that is killed: whoever is cut off leaves.
pub(crate) fn leave_when_cut(trouble: &Trouble, _: &mut Connection) -> ControlFlow<()> {
    match trouble {
        Trouble::Cut(Cut::HungUp) | Trouble::Busy => ControlFlow::Continue(()),
        Trouble::Cut(_) => ControlFlow::Break(()),
        Trouble::Unavailable => panic!("the store is not out of reach"),
    }
}

/// For a server that ends in order: whoever is not answered leaves, and no answer breaks off.
pub(crate) fn leave_when_unanswered(
    trouble: &Trouble,
    connection: &mut Connection,
) -> ControlFlow<()> {
    if let Trouble::Cut(Cut::Within(begun)) = trouble {
        panic!("an answer broke off: {begun}");
    }
    leave_when_cut(trouble, connection)
}

/// How long the load lasts before something happens, if `SUBSCRIPTION_TEST_SECONDS` says so.
pub(crate) fn seconds() -> Option<Duration> {
    let seconds = std::env::var("SUBSCRIPTION_TEST_SECONDS").ok()?;
    Some(Duration::from_secs(seconds.parse().unwrap()))
}

/// A moment in the middle of something: after some steps, and a little. Later by
/// [`seconds`].
pub(crate) fn some_moment(rng: &Rng, progress: &Progress) {
    if let Some(seconds) = seconds() {
        std::thread::sleep(seconds);
    }
    progress.wait_for(10 + rng.below(120));
    let little = rng.below(3_000);
    std::thread::sleep(Duration::from_micros(little));
}

//! The program is asked to end while it writes.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::audit::audit;
use crate::database::Database;
use crate::http::Request;
use crate::load::{leave_when_unanswered, some_moment, under_load};
use crate::running::{Running, folder, until};
use crate::writer::Writer;
use test_support::seed;
use test_support::trials;
use test_support::trials::Trial;

/// The stops of a normal run; `SUBSCRIPTION_TEST_STEPS` asks for another number.
const STOPS: u64 = 3;
/// How long a server may take to finish what is under way.
const DRAIN: Duration = Duration::from_secs(10);

pub(crate) fn trials() -> Vec<Trial> {
    trials![blocking:
        a_stop_loses_nothing_and_breaks_no_answer_off_sqlite,
        what_is_under_way_at_a_stop_is_finished_sqlite,
    ]
}

pub(crate) fn trials_with_postgres() -> Vec<Trial> {
    trials![blocking:
        a_stop_loses_nothing_and_breaks_no_answer_off_postgres,
        what_is_under_way_at_a_stop_is_finished_postgres,
    ]
}

fn a_stop_loses_nothing_and_breaks_no_answer_off_sqlite() {
    a_stop_loses_nothing_and_breaks_no_answer_off("stops over SQLite", &Database::file());
}

fn a_stop_loses_nothing_and_breaks_no_answer_off_postgres() {
    a_stop_loses_nothing_and_breaks_no_answer_off("stops over PostgreSQL", &Database::schema());
}

fn a_stop_loses_nothing_and_breaks_no_answer_off(story: &str, database: &Database) {
    let (rng, folder, stops) = (seed::rng(story), folder(), seed::steps(STOPS));
    let (mut answered, mut longest) = (0, Duration::ZERO);
    let mut writers = Writer::some(6, &rng);

    for _ in 0..stops {
        let server = Running::start(&folder, &database.url(), &[]);
        for writer in &mut writers {
            writer.check(&mut server.connect());
        }
        let address = server.address;
        let ended = under_load(&mut writers, address, leave_when_unanswered, |progress| {
            some_moment(&rng, progress);
            let begun = Instant::now();
            server.terminate();
            let (code, log) = server.end();
            assert_eq!(code, Some(0), "{log}");
            assert!(!log.contains("cut off") && !log.contains("\"ERROR\""), "{log}");
            (begun.elapsed(), progress.answered())
        });
        assert!(ended.0 < DRAIN, "{:?}", ended.0);
        longest = longest.max(ended.0);
        answered += ended.1;
        audit(database, &writers);
    }

    println!("{story}: {stops} stops, {answered} answered steps, {longest:?} at the longest");
}

fn what_is_under_way_at_a_stop_is_finished_sqlite() {
    what_is_under_way_at_a_stop_is_finished(&Database::file());
}

fn what_is_under_way_at_a_stop_is_finished_postgres() {
    what_is_under_way_at_a_stop_is_finished(&Database::schema());
}

/// A request is under way from its head on: here its body comes when nobody new is let in any more.
fn what_is_under_way_at_a_stop_is_finished(database: &Database) {
    let folder = folder();
    let server = Running::start(&folder, &database.url(), &[]);
    until("it is ready", || server.status("/health/ready") == 200);
    let plan = json!({ "name": "Late", "slug": "late", "price": 1, "billing_cycle": "monthly" });
    let request = Request::post("/subscription-plans", &plan.to_string());
    let request = request.header("expect", "100-continue");
    let (head, body) = request.parts();
    let mut connection = server.connect();
    connection.send(head.as_bytes()).unwrap();
    assert_eq!(connection.answer().unwrap().status, 100);

    server.terminate();
    until("nobody is let in", || TcpStream::connect(server.address).is_err());
    connection.send(body.as_bytes()).unwrap();

    let made = connection.answer().unwrap().expect(201);
    assert_eq!(made.header("connection"), Some("close"), "{made:?}");
    assert_eq!(server.end().0, Some(0));
    let server = Running::start(&folder, &database.url(), &[]);
    let read = server.connect().sure(&Request::get("/subscription-plans/late")).expect(200);
    assert_eq!(read.body, made.body);
}

//! One of several instances leads: it does the background work.

use std::time::{Duration, Instant};

use test_support::cluster::Cluster;
use test_support::trials;
use test_support::trials::Trial;

use crate::database::Database;
use crate::http::Request;
use crate::running::{Running, folder, until};

/// How soon another instance leads.
pub(crate) const TAKEN_OVER: Duration = Duration::from_mins(1);

pub(crate) fn trials() -> Vec<Trial> {
    trials![blocking:
        one_of_several_leads_and_another_does_once_it_is_killed_or_stops,
        an_instance_that_was_paused_no_longer_leads_and_does_no_harm,
        an_instance_with_a_wrong_clock_is_not_ready_writes_nothing_and_logs_why,
    ]
}

pub(crate) fn trials_with_a_server_of_their_own() -> Vec<Trial> {
    trials![blocking: idle_instances_read_little_and_write_nothing]
}

/// True if an instance says that it leads.
fn leads(running: &Running) -> bool {
    let metrics = running.connect().sure(&Request::get("/metrics")).expect(200);
    let line =
        metrics.body.lines().find_map(|line| line.strip_prefix("subscription_http_clock_leads "));
    line.unwrap() == "1"
}

pub(crate) fn leaders(instances: &[Running]) -> usize {
    instances.iter().filter(|running| leads(running)).count()
}

/// Takes the leader out of the instances, once there is one.
pub(crate) fn leader(instances: &mut Vec<Running>) -> Running {
    until("one leads", || leaders(instances) == 1);
    let nth = instances.iter().position(leads).unwrap();
    instances.swap_remove(nth)
}

fn one_of_several_leads_and_another_does_once_it_is_killed_or_stops() {
    let (database, folder) = (Database::schema(), folder());
    let start = || Running::start(&folder, &database.url(), &["--database-connections", "4"]);
    let mut instances: Vec<_> = (0..4).map(|_| start()).collect();

    for is_killed in [true, false, true] {
        let goes = leader(&mut instances);
        if is_killed {
            goes.kill();
        } else {
            goes.stop();
        }
        let begun = Instant::now();
        until("another leads", || leaders(&instances) == 1);
        let took = begun.elapsed();
        println!("another instance leads after {took:?} (killed: {is_killed})");
        assert!(took < TAKEN_OVER, "{took:?}");
    }
}

fn an_instance_that_was_paused_no_longer_leads_and_does_no_harm() {
    let (database, folder) = (Database::schema(), folder());
    let start = || Running::start(&folder, &database.url(), &["--database-connections", "4"]);
    let mut instances = vec![start(), start()];
    let paused = leader(&mut instances);

    paused.signal("STOP");
    until("the other leads", || leaders(&instances) == 1);
    paused.signal("CONT");

    until("it notices", || !leads(&paused));
    assert_eq!(leaders(&instances), 1);
    for (nth, running) in instances.iter().chain([&paused]).enumerate() {
        let slug = format!("plan-{nth}");
        let plan = format!(r#"{{"name":"P","slug":"{slug}","price":1,"billing_cycle":"daily"}}"#);
        running.connect().sure(&Request::post("/subscription-plans", &plan)).expect(201);
    }
    drop(instances);
    until("it leads again", || leads(&paused));
    let log = paused.stop();
    assert!(!log.contains("\"ERROR\"") && log.contains("no longer leads"), "{log}");
}

fn idle_instances_read_little_and_write_nothing() {
    const WATCHED: Duration = Duration::from_secs(8);
    const READS_MAX: usize = 4;
    let mut cluster =
        Cluster::start_with(false, "-c log_min_messages=log -c log_statement=all").unwrap();
    let folder = folder();
    let instances: Vec<_> = (0..2).map(|_| Running::start(&folder, &cluster.url(), &[])).collect();
    until("one leads", || leaders(&instances) == 1);
    for (path, body) in [
        ("/subscription-plans", r#"{"name":"P","slug":"p","price":1,"billing_cycle":"daily"}"#),
        // It wants no event that there is.
        ("/webhook-endpoints", r#"{"url":"http://127.0.0.1:9/","types":["payment.*"]}"#),
    ] {
        instances[0].connect().sure(&Request::post(path, body)).expect(201);
    }
    let (mut length, mut rests_since) = (cluster.log_len(), Instant::now());
    let writes = |log: &str| ["INSERT", "UPDATE", "DELETE"].iter().any(|word| log.contains(word));
    until("the start is over", || {
        if writes(&cluster.log(length)) {
            (length, rests_since) = (cluster.log_len(), Instant::now());
        }
        rests_since.elapsed() > Duration::from_secs(2)
    });

    let (length, begun) = (cluster.log_len(), Instant::now());
    until("some time has passed", || begun.elapsed() >= WATCHED);

    let log = cluster.log(length);
    let seconds = usize::try_from(begun.elapsed().as_secs()).unwrap();
    let run = |line: &&str| line.contains("LOG:  execute ") || line.contains("LOG:  statement: ");
    // Both try the lock every two seconds: that is no job.
    let of_job = |line: &&str| run(line) && !line.contains("pg_try_advisory_lock");
    let statements = log.lines().filter(of_job).count();
    println!("two idle instances: {statements} statements of jobs in {seconds} s");
    assert!((1..=READS_MAX * seconds).contains(&statements) && !writes(&log), "{log}");
    drop(instances);
    cluster.stop();
}

/// The database of the second instance has a clock of its own: a function that comes before PostgreSQL's.
fn an_instance_with_a_wrong_clock_is_not_ready_writes_nothing_and_logs_why() {
    let database = Database::schema();
    let plan = r#"{"name":"P","slug":"p","price":1,"billing_cycle":"daily"}"#;
    let create = Request::post("/subscription-plans", plan);
    let right = Running::start(&folder(), &database.url(), &["--database-connections", "4"]);
    until("one leads", || leads(&right));
    database.execute(
        "CREATE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql \
         AS $$ SELECT pg_catalog.clock_timestamp() + interval '400 days' $$",
    );

    let own_functions_first = format!("{}%2Cpg_catalog", database.url());
    let wrong = Running::start(&folder(), &own_functions_first, &["--database-connections", "4"]);

    until("it is not ready", || wrong.status("/health/ready") == 503);
    let refused = wrong.connect().sure(&create).expect(503);
    assert_eq!(refused.code(), "store_unavailable");
    until("the metric shows 400 days", || {
        let metrics = wrong.connect().sure(&Request::get("/metrics")).expect(200).body;
        let mut lines = metrics.lines();
        let skew =
            lines.find_map(|line| line.strip_prefix("subscription_http_clock_skew_seconds "));
        skew.unwrap().parse::<f64>().unwrap() > 34_473_600.0
    });
    assert!(!leads(&wrong));
    let log = wrong.stop();
    assert!(log.contains("clock skew: this machine's time differs"), "{log}");
    assert_eq!(right.status("/health/ready"), 200);
    right.connect().sure(&create).expect(201);
}

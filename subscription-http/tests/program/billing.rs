//! Billing in the binary: its settings, a year in one call, and its pause after an import.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection};

use crate::running::{Running, command_in, folder, get, run};

const USER: &str = "00000000-0000-4000-8000-000000000001";
const START: &str = "2030-01-31T00:00:00Z";

/// A server with a manual clock that starts at [`START`].
fn manual(folder: &Path, more: &[&str]) -> Running {
    Running::start_in(folder, |command| {
        command.args(["--clock", "manual", "--clock-at", START, "--users", "any"]).args(more);
    })
}

fn send(running: &Running, method: &str, path: &str, body: &str) -> Value {
    let head =
        "Host: localhost\r\nclient-id: web\r\nConnection: close\r\nContent-Type: application/json";
    let length = body.len();
    let answer = running.ask(format!(
        "{method} {path} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}"
    ));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 20"), "{path}: {answer}");
    serde_json::from_str(body).expect(&answer)
}

fn read(running: &Running, path: &str) -> Value {
    let answer = running.ask(format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nclient-id: web\r\nConnection: close\r\n\r\n"
    ));
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).expect(&answer)
}

fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of.get(field).and_then(Value::as_str).unwrap_or_else(|| panic!("no {field} in {of}"))
}

/// The day of a moment: 2030-01-31.
fn day(of: &Value, field: &str) -> String {
    text(of, field).chars().take(10).collect()
}

/// A subscription to a monthly plan in euros; its id.
fn subscribe(running: &Running, trial: &str) -> String {
    let plan = format!(
        r#"{{"name":"Pro","slug":"pro","price":10,"currency":"EUR","billing_cycle":"monthly"{trial}}}"#
    );
    let plan = send(running, "POST", "/subscription-plans", &plan);
    let body = format!(r#"{{"user_id":"{USER}","subscription_plan_id":"{}"}}"#, text(&plan, "id"));
    text(&send(running, "POST", "/subscriptions", &body), "id").to_owned()
}

fn advance(running: &Running, to: &str, payments: &str) -> Value {
    let body = format!(r#"{{"to":"{to}","payments":"{payments}"}}"#);
    let advanced = send(running, "POST", "/clock/advance", &body);
    assert_eq!(advanced.get("done"), Some(&Value::Bool(true)), "{advanced}");
    assert!(text(&advanced, "now").starts_with(to.trim_end_matches('Z')), "{advanced}");
    advanced
}

/// The payments of a subscription, the first period first.
fn payments(running: &Running, id: &str) -> Vec<Value> {
    let page = read(running, &format!("/subscriptions/{id}/payments?limit=200"));
    let mut payments = page.get("data").and_then(Value::as_array).expect("payments").clone();
    payments.sort_by_key(|payment| text(payment, "period_start").to_owned());
    payments
}

/// The events of a type: when, in order.
fn events(running: &Running, kind: &str) -> Vec<String> {
    let page = read(running, &format!("/events?limit=200&type={kind}"));
    let events = page.get("data").and_then(Value::as_array).expect("events");
    events.iter().map(|event| day(event, "at")).collect()
}

fn metrics(running: &Running) -> String {
    running.ask(get("/metrics"))
}

fn stop(running: Running) -> String {
    running.signal("TERM");
    let (code, _, log) = running.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("cut off") && !log.contains("\"ERROR\""), "{log}");
    log
}

#[test]
fn a_year_passes_in_one_call_with_every_period_asked_for_once() {
    for (trial, first, last) in [
        ("", "2030-01-31", "2030-12-31"),
        (r#","trial_period":"P14D""#, "2030-02-14", "2031-01-14"),
    ] {
        let running = manual(&folder(), &["--database", "memory:"]);
        let id = subscribe(&running, trial);

        let advanced = advance(&running, "2031-01-30T23:00:00Z", "succeed");

        let payments = payments(&running, &id);
        assert_eq!(payments.len(), 12, "{payments:?}");
        for payment in &payments {
            assert_eq!(text(payment, "status"), "succeeded", "{payment}");
            assert_eq!(day(payment, "period_start"), day(payment, "due_at"));
            // Reported when it was due, not at the end of the year.
            assert_eq!(day(payment, "updated_at"), day(payment, "due_at"), "{payment}");
        }
        let starts: Vec<_> = payments.iter().map(|one| day(one, "period_start")).collect();
        assert_eq!(
            (starts.first().unwrap().as_str(), starts.last().unwrap().as_str()),
            (first, last)
        );
        // The first period without a trial was asked for at once. Each other one was announced, and without a
        // trial also the next.
        let (periods, steps) = if trial.is_empty() { (11, 23) } else { (12, 24) };
        assert_eq!(advanced.get("steps").and_then(Value::as_u64), Some(steps), "{advanced}");
        let metrics = metrics(&running);
        let line = format!("clock_steps_total{{step=\"period_started\"}} {periods}\n");
        assert!(metrics.contains(&line), "{metrics}");
        assert!(metrics.contains("http_periods_skipped_total 0\n"), "{metrics}");
    }
}

/// A metric that has this value soon.
fn until_metric(running: &Running, line: &str) {
    let begun = Instant::now();
    while !metrics(running).contains(line) {
        assert!(begun.elapsed() < Duration::from_mins(1), "{}", metrics(running));
        // Each reading is a line of the log, whose pipe nobody reads meanwhile.
        std::thread::sleep(Duration::from_millis(250));
    }
}

#[test]
fn payments_that_nobody_reports_are_counted_and_after_a_week_in_the_log_once_a_day() {
    let told = "payments are due, but their results were not reported";
    let running = manual(&folder(), &["--database", "memory:"]);
    let id = subscribe(&running, "");
    until_metric(&running, "payments_to_collect 1\n");
    // A collector has begun, and died.
    let payment = text(payments(&running, &id).first().unwrap(), "id").to_owned();
    send(
        &running,
        "PUT",
        &format!("/subscription-payments/{payment}"),
        r#"{"status":"processing"}"#,
    );
    advance(&running, "2030-02-06T00:00:00Z", "leave");
    until_metric(&running, "payments_to_collect_oldest_seconds 518");
    advance(&running, "2030-02-08T00:00:00Z", "leave");
    until_metric(&running, "payments_to_collect_oldest_seconds 691");
    advance(&running, "2030-02-08T12:00:00Z", "leave");
    until_metric(&running, "payments_to_collect_oldest_seconds 734");
    advance(&running, "2030-02-09T12:00:00Z", "leave");
    until_metric(&running, "payments_to_collect_oldest_seconds 820");

    let log = stop(running);

    assert_eq!(log.matches(told).count(), 2, "{log}");
    assert!(log.contains(r#""payments":1,"oldest":"2030-01-31T00:0"#), "{log}");
}

#[test]
fn a_start_warns_of_plans_that_nobody_bills() {
    let folder = folder();
    let running = manual(&folder, &[]);
    for (slug, more) in [
        ("gift", r#""price":1"#),
        ("billed", r#""price":1,"currency":"EUR""#),
        ("free", r#""price":0"#),
        ("of-a-provider", r#""price":1,"product_id":"prod_1""#),
    ] {
        let plan = format!(r#"{{"name":"P","slug":"{slug}","billing_cycle":"monthly",{more}}}"#);
        send(&running, "POST", "/subscription-plans", &plan);
    }
    let told = "the plan has no currency";
    assert!(!stop(running).contains(told));

    let log = stop(manual(&folder, &[]));

    let lines: Vec<_> = log.lines().filter(|line| line.contains(told)).collect();
    assert!(lines.len() == 1 && lines[0].contains(r#""plan":"gift""#), "{log}");
}

#[test]
fn a_payment_that_always_fails_is_tried_four_times_again_and_then_the_subscription_is_unpaid() {
    let folder = folder();
    let running = manual(&folder, &[]);
    let id = subscribe(&running, "");
    let subscription = |running: &Running| read(running, &format!("/subscriptions/{id}"));

    // Restarted on the way: it goes on.
    advance(&running, "2030-02-05T12:00:00Z", "fail");
    assert_eq!(text(&subscription(&running), "status"), "past_due");
    stop(running);
    let running = manual(&folder, &[]);
    advance(&running, "2031-01-31T00:00:00Z", "fail");

    let payments = payments(&running, &id);
    assert_eq!(payments.len(), 1, "no period starts while it is unpaid: {payments:?}");
    let payment = payments.first().unwrap();
    assert_eq!(text(payment, "status"), "failed");
    assert_eq!(payment.get("attempt").and_then(Value::as_u64), Some(5));
    let failed = ["2030-01-31", "2030-02-01", "2030-02-04", "2030-02-09", "2030-02-14"];
    assert_eq!(events(&running, "payment.status_changed.failed"), failed);
    assert_eq!(text(&subscription(&running), "status"), "unpaid");
    assert_eq!(events(&running, "subscription.status_changed.unpaid"), ["2030-02-14"]);
}

#[test]
fn a_plan_is_changed_for_the_amount_of_its_preview_and_back_when_the_period_ends() {
    let running = manual(&folder(), &[]);
    let id = subscribe(&running, "");
    let pay = |kind: &str| {
        let due = read(&running, "/due-payments");
        let payment = due.pointer("/data/0").unwrap_or_else(|| panic!("no {kind} is due"));
        assert_eq!(text(payment, "kind"), kind, "{due}");
        let path = format!("/subscription-payments/{}", text(payment, "id"));
        send(&running, "PUT", &path, r#"{"status":"succeeded"}"#)
    };
    pay("initial");
    let plan =
        r#"{"name":"Team","slug":"team","price":20,"currency":"EUR","billing_cycle":"monthly"}"#;
    let team = send(&running, "POST", "/subscription-plans", plan);
    let basic = text(&read(&running, "/subscription-plans/pro"), "id").to_owned();
    let change = |end: &str, plan: &str, more: &str| {
        let body = format!(r#"{{"subscription_plan_id":"{plan}"{more}}}"#);
        send(&running, "POST", &format!("/subscriptions/{id}/change-plan{end}"), &body)
    };
    // Half of the period is left.
    advance(&running, "2030-02-14T00:00:00Z", "leave");

    let quote = change("/preview", text(&team, "id"), "");
    let (at, due) = (text(&quote, "at"), quote.get("amount_due").unwrap());
    let agreed = format!(r#","at":"{at}","amount_due":{due}"#);
    let changed = change("", text(&team, "id"), &agreed);
    let paid = pay("proration");
    let scheduled = change("", &basic, r#","effective":"period_end""#);
    advance(&running, "2030-03-01T00:00:00Z", "succeed");

    assert_eq!(due.as_f64(), Some(5.0), "{quote}");
    assert_eq!(text(&changed, "subscription_plan_id"), text(&team, "id"));
    assert_eq!((paid.get("amount"), text(&paid, "period_start")), (Some(due), at));
    assert_eq!(scheduled.pointer("/scheduled_change/action").unwrap(), "change_plan");
    let now = read(&running, &format!("/subscriptions/{id}"));
    assert_eq!(text(&now, "subscription_plan_id"), basic);
    assert_eq!(now.get("scheduled_change"), Some(&Value::Null));
    let asked = payments(&running, &id);
    let asked: Vec<_> = asked
        .iter()
        .map(|one| {
            (text(one, "kind"), one.get("amount").and_then(Value::as_f64), day(one, "due_at"))
        })
        .collect();
    let expected = [
        ("initial", Some(10.0), "2030-01-31".to_owned()),
        ("proration", Some(5.0), "2030-02-14".to_owned()),
        ("renewal", Some(10.0), "2030-02-28".to_owned()),
    ];
    assert_eq!(asked, expected);
    assert_eq!(events(&running, "subscription.plan_changed"), ["2030-02-14", "2030-02-28"]);
    stop(running);
}

/// The payment for February: its id and its charge key.
fn renewal(running: &Running, id: &str) -> Option<(String, String)> {
    let payments = payments(running, id);
    let renewal = payments.iter().find(|payment| day(payment, "period_start") == "2030-02-28")?;
    Some((text(renewal, "id").to_owned(), text(renewal, "charge_key").to_owned()))
}

#[test]
fn a_restored_backup_asks_for_a_charged_period_with_the_same_key_once_billing_is_resumed() {
    let here = folder();
    let (file, copy) = (here.join("subscription.db"), here.join("backup.db"));
    let running = manual(&here, &[]);
    let id = subscribe(&running, "");
    advance(&running, "2030-02-01T00:00:00Z", "succeed");
    stop(running);
    std::fs::copy(&file, &copy).unwrap();
    let running = manual(&here, &[]);
    advance(&running, "2030-03-01T00:00:00Z", "succeed");
    let (first_id, first_key) = renewal(&running, &id).expect("a renewal");
    stop(running);

    std::fs::copy(&copy, &file).unwrap();
    let said = |command: &str| {
        let (output, errors) = run(command_in(&here).args(["billing", command]).args([
            "--users",
            "any",
            "--clock",
            "manual",
            "--clock-at",
            START,
        ]));
        assert!(output.status.success(), "{errors}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(said("pause").starts_with("billing is paused: "));
    assert_eq!(said("pause"), "billing was paused already\n");
    let mut running = manual(&here, &[]);
    running.log_line("billing is paused: ");
    assert!(metrics(&running).contains("subscription_http_billing_paused 1\n"));
    advance(&running, "2030-03-01T00:00:00Z", "leave");
    assert_eq!(renewal(&running, &id), None, "billing is paused");
    stop(running);
    assert_eq!(said("resume"), "billing is resumed\n");
    let running = manual(&here, &[]);
    advance(&running, "2030-03-02T00:00:00Z", "leave");

    let (second_id, second_key) = renewal(&running, &id).expect("a renewal");
    assert_eq!(second_key, first_key);
    assert_ne!(second_id, first_id);
    stop(running);
}

#[test]
fn an_import_pauses_the_billing_until_it_is_resumed() {
    let (here, there, moved) = (folder(), folder(), folder());
    let running = manual(&here, &[]);
    subscribe(&running, "");
    stop(running);
    let file = here.join("all.jsonl").display().to_string();
    let said = |folder: &Path, arguments: &[&str]| {
        let (output, errors) = run(command_in(folder).args(["--users", "any"]).args(arguments));
        assert!(output.status.success(), "{errors}");
        String::from_utf8(output.stdout).unwrap()
    };
    said(&here, &["export", &file, "--clock", "manual"]);

    let told = said(&there, &["import", &file]);

    assert!(told.contains("the exported database had a manual clock"), "{told}");
    assert!(told.contains("billing is paused"), "{told}");
    let told = said(&there, &["billing", "status"]);
    assert!(told.starts_with("billing is paused: "), "{told}");
    assert!(told.contains("0 subscriptions are due"), "{told}");
    let mut running = Running::start_in(&there, |command| {
        command.args(["--users", "any"]);
    });
    running.log_line("billing is paused: ");
    assert!(metrics(&running).contains("subscription_http_billing_paused 1\n"));
    assert!(!stop(running).contains("billing is paused"), "once");
    assert_eq!(said(&there, &["billing", "resume"]), "billing is resumed\n");
    assert_eq!(said(&there, &["billing", "resume"]), "billing was not paused\n");
    assert!(said(&there, &["billing", "status"]).starts_with("billing is not paused"));

    let told = said(&moved, &["import", &file, "--as-is"]);

    assert_eq!(told.lines().count(), 1, "{told}");
    let status = said(&moved, &["billing", "status", "--clock", "manual"]);
    assert!(status.starts_with("billing is not paused"), "{status}");
}

#[test]
fn a_billing_that_is_paused_takes_no_step_also_while_the_clock_is_turned() {
    let (here, there) = (folder(), folder());
    let running = manual(&here, &[]);
    let id = subscribe(&running, "");
    stop(running);
    let file = here.join("all.jsonl").display().to_string();
    run(command_in(&here).args(["export", &file, "--clock", "manual"]));
    let (output, errors) = run(command_in(&there).args(["import", &file, "--users", "any"]));
    assert!(output.status.success(), "{errors}");
    let running = manual(&there, &[]);

    let advanced = advance(&running, "2031-05-01T00:00:00Z", "succeed");

    assert_eq!(advanced.get("steps").and_then(Value::as_u64), Some(0));
    assert_eq!(payments(&running, &id).len(), 1);
    stop(running);
    run(command_in(&there).args(["billing", "resume", "--clock", "manual"]));
    let mut running = manual(&there, &["--log", "info"]);
    running.log_line("periods were skipped").get("periods").expect("their number");
}

#[test]
fn settings_of_billing_are_read_and_mistakes_are_errors() {
    let folder = folder();
    let started = |text: &str| {
        std::fs::write(folder.join("settings.toml"), text).unwrap();
        run(command_in(&folder).args(["--config", "settings.toml", "openapi"]))
    };
    let all = "one_live_per = \"product\"\n[billing]\ndunning = [\"P1D\", \"P1W\"]\n\
               after_dunning = \"expired\"\nactivation = \"on_payment\"\nremind_before = \"off\"\n\
               missed_periods_max = 0\n";
    for good in [all, "[billing]\n", "[billing]\ndunning = []\nremind_before = \"P7D\"\n"] {
        let (output, errors) = started(good);

        assert!(output.status.success(), "{good}: {errors}");
    }
    for (bad, reason) in [
        (
            "[billing]\nduning = []",
            "line 2: unknown key duning in [billing]; did you mean dunning?",
        ),
        ("[billing]\ndunning = [\"1 day\"]", "ISO 8601"),
        ("[billing]\ndunning = \"P1D\"", "dunning"),
        ("[billing]\nafter_dunning = \"cancelled\"", "must be one of unpaid, expired"),
        ("[billing]\nactivation = \"later\"", "must be one of at_start, on_payment"),
        ("[billing]\nremind_before = \"soon\"", "or off"),
        ("[billing]\nmissed_periods_max = 367", "must be from 0 to 366"),
        ("billing = true", "billing"),
        ("one_live_per = \"plan\"", "must be one of user, product"),
    ] {
        let (output, errors) = started(bad);

        assert_eq!(output.status.code(), Some(1), "{bad}");
        assert!(errors.contains(reason), "{bad}: {errors}");
    }
    let sixteen = format!("[billing]\ndunning = [{}]", ["\"P1D\""; 16].join(","));
    let (_, errors) = started(&sixteen);
    assert!(errors.contains("must have at most 15 durations"), "{errors}");
    let (_, errors) = run(command_in(&folder).args(["--one-live-per", "plan"]));
    assert!(errors.contains("must be one of user, product"), "{errors}");
}

#[test]
fn a_user_has_one_live_subscription_where_the_setting_says_so() {
    let running = manual(&folder(), &["--database", "memory:", "--one-live-per", "user"]);
    let id = subscribe(&running, "");
    let plan = read(&running, "/subscription-plans/pro");
    let body = format!(r#"{{"user_id":"{USER}","subscription_plan_id":"{}"}}"#, text(&plan, "id"));

    let length = body.len();
    let again = running.ask(format!(
        "POST /subscriptions HTTP/1.1\r\nHost: localhost\r\nclient-id: web\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    ));

    assert!(again.starts_with("HTTP/1.1 409"), "{again}");
    assert!(again.contains("already_subscribed") && again.contains(&id), "{again}");
}

/// Runs a statement on the file of a running server.
fn past_the_server(file: &Path, statement: String) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let url = format!("sqlite://{}", file.display());
        let mut outsider = SqliteConnection::connect(&url).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut outsider).await.unwrap();
    });
}

#[test]
fn a_subscription_that_cannot_be_read_holds_up_neither_the_clock_nor_the_lists() {
    let folder = folder();
    let file = folder.join("billing.db");
    let running = manual(&folder, &["--database", &format!("sqlite://{}", file.display())]);
    let damaged = subscribe(&running, "");
    let plan = text(&read(&running, "/subscription-plans/pro"), "id").to_owned();
    let body = format!(
        r#"{{"user_id":"{}","subscription_plan_id":"{plan}"}}"#,
        USER.replace("0001", "0002")
    );
    let sound = send(&running, "POST", "/subscriptions", &body);
    let hex = damaged.replace('-', "");
    past_the_server(&file, format!("UPDATE subscriptions SET billing = '{{' WHERE id = x'{hex}'"));

    advance(&running, "2030-06-15T00:00:00Z", "succeed");

    let paid = payments(&running, text(&sound, "id"));
    assert_eq!(paid.len(), 5, "{paid:?}");
    assert!(paid.iter().all(|payment| text(payment, "status") == "succeeded"), "{paid:?}");
    let page = read(&running, "/subscriptions");
    assert_eq!(page["data"].as_array().unwrap().len(), 1);
    assert_eq!(page["unreadable"], json!([damaged]));
    let head = "Host: localhost\r\nclient-id: web\r\nConnection: close";
    let alone = running.ask(format!("GET /subscriptions/{damaged} HTTP/1.1\r\n{head}\r\n\r\n"));
    assert!(alone.starts_with("HTTP/1.1 500"), "{alone}");
    let metrics = metrics(&running);
    assert!(metrics.contains("subscription_http_damaged_records 1\n"), "{metrics}");
    running.signal("TERM");
    let (_, _, log) = running.end();
    let line = log.lines().find(|line| line.contains("a record cannot be read"));
    let line: Value = serde_json::from_str(line.expect(&log)).unwrap();
    assert_eq!((&line["kind"], &line["id"]), (&json!("subscription"), &json!(damaged)));
    assert!(text(&line, "cause").contains("EOF"), "{line}");
}

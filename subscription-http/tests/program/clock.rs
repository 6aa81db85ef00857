//! The manual clock, and the background work of one instance.

use std::path::Path;

use crate::running::{Running, command, command_in, folder, get, run};

fn manual(folder: &Path, more: &[&str]) -> Running {
    Running::start_in(folder, |command| {
        command.args(["--clock", "manual"]).args(more);
    })
}

/// The time that the clock shows.
fn now(running: &Running) -> String {
    let answer = running.ask(get("/clock"));
    let (_, now) = answer.split_once("{\"now\":\"").expect(&answer);
    now.trim_end_matches("\"}").to_owned()
}

fn post(running: &Running, path: &str, body: &str) -> String {
    let head = "Host: localhost\r\nclient-id: web\r\nContent-Type: application/json";
    let length = body.len();
    running.ask(format!(
        "POST {path} HTTP/1.1\r\n{head}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

fn stop(running: Running) {
    running.signal("TERM");
    let (code, _, log) = running.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("cut off") && !log.contains("\"ERROR\""), "{log}");
}

#[test]
fn a_manual_clock_goes_on_after_a_restart() {
    let folder = folder();
    let running = manual(&folder, &["--clock-at", "2030-01-31T00:00:00Z"]);
    assert!(now(&running).starts_with("2030-01-31T00:0"), "{}", now(&running));

    let advanced = post(&running, "/clock/advance", r#"{"by":"P1M"}"#);
    assert!(advanced.contains(r#"{"now":"2030-02-28T00:0"#), "{advanced}");
    assert!(advanced.ends_with(r#""steps":0,"done":true}"#), "{advanced}");
    stop(running);
    let running = manual(&folder, &["--clock-at", "2030-01-31T00:00:00Z"]);

    assert!(now(&running).starts_with("2030-02-28T00:0"), "{}", now(&running));
    let plan = r#"{"name":"Pro","slug":"pro","price":1,"billing_cycle":"monthly"}"#;
    let made = post(&running, "/subscription-plans", plan);
    assert!(made.contains(r#""created_at":"2030-02-28T00:0"#), "{made}");
    stop(running);
}

#[test]
fn a_database_whose_clock_was_turned_is_not_opened_by_the_machines_clock() {
    let folder = folder();
    stop(manual(&folder, &[]));

    for arguments in [&["serve"][..], &["migrate"], &["export", "all.jsonl"]] {
        let (output, errors) = run(command_in(&folder).args(arguments));

        assert_eq!(output.status.code(), Some(1), "{arguments:?} {errors}");
        assert!(errors.contains("use --clock manual"), "{arguments:?} {errors}");
    }
    assert!(!folder.join("all.jsonl").exists());
    let (output, errors) = run(command_in(&folder).args(["migrate", "--clock", "manual"]));
    assert!(output.status.success(), "{errors}");
}

#[test]
fn commands_leave_the_clock_of_a_database_as_it_is() {
    let folder = folder();

    let (output, errors) = run(command_in(&folder).args(["migrate", "--clock", "manual"]));

    assert!(output.status.success(), "{errors}");
    let (output, errors) = run(command_in(&folder).arg("migrate"));
    assert!(output.status.success(), "{errors}");
}

#[test]
fn a_manual_clock_is_for_development_only() {
    for (arguments, reason) in [
        (&["--clock", "manual", "--mode", "production"][..], "for development mode only"),
        (&["--clock-at", "2030-01-31T00:00:00Z"], "use it with --clock manual"),
        (&["--clock", "manual", "--clock-at", "soon"], "must be an RFC 3339 time"),
        (&["--clock", "fast"], "possible values: system, manual"),
    ] {
        let (output, errors) = run(command().args(arguments));

        assert!(!output.status.success(), "{arguments:?}");
        assert!(errors.contains(reason), "{arguments:?} {errors}");
    }
}

#[test]
fn the_routes_of_the_clock_are_there_with_a_flag_a_variable_or_the_file_and_not_by_default() {
    let folder = folder();
    let file = "clock = \"manual\"\nclock_at = \"2030-01-31T00:00:00Z\"\n";
    std::fs::write(folder.join("settings.toml"), file).unwrap();
    for (how, is_there) in [("nothing", false), ("flag", true), ("variable", true), ("file", true)]
    {
        let running = Running::start_in(&folder, |command| {
            command.args(["--database", "memory:"]);
            match how {
                "flag" => command.args(["--clock", "manual"]),
                "variable" => command.env("SUBSCRIPTION_CLOCK", "manual"),
                "file" => command.args(["--config", "settings.toml"]),
                _ => command,
            };
        });

        let answer = running.ask(get("/clock"));
        assert_eq!(answer.starts_with("HTTP/1.1 200"), is_there, "{how} {answer}");
        assert_eq!(answer.contains("2030-01-31"), how == "file", "{answer}");
        let advanced = post(&running, "/clock/advance", r#"{"by":"P1D"}"#);
        assert_eq!(advanced.contains("\"done\":true"), is_there, "{how} {advanced}");
        let document = running.ask(get("/openapi.json"));
        assert_eq!(document.contains("\"/clock/advance\""), is_there, "{how}");
    }
}

#[test]
fn the_only_instance_over_a_file_leads_and_ends_in_order() {
    let mut running = Running::start(|_| {});
    running.log_line("this instance leads");

    let metrics = running.ask(get("/metrics"));

    assert!(metrics.contains("subscription_http_clock_leads 1\n"), "{metrics}");
    assert!(metrics.contains("subscription_http_clock_skew_seconds 0"), "{metrics}");
    stop(running);
}

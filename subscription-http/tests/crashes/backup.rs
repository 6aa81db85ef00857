//! An old copy of the file is put back.

use std::fs;
use std::process::Command;

use serde_json::json;
use test_support::trials;
use test_support::trials::Trial;

use crate::database::Database;
use crate::http::{Answer, Connection, Request, text};
use crate::running::{Running, folder, until};

pub(crate) fn trials() -> Vec<Trial> {
    trials![blocking: tokens_that_are_newer_than_a_restored_file_are_refused]
}

pub(crate) fn trials_with_postgres() -> Vec<Trial> {
    trials![blocking: billing_is_paused_and_resumed_while_the_server_runs]
}

fn billing_is_paused_and_resumed_while_the_server_runs() {
    let (folder, database) = (folder(), Database::schema());
    let server = Running::start(&folder, &database.url(), &[]);
    let is_paused = || {
        let metrics = server.connect().sure(&Request::get("/metrics")).body;
        metrics.contains("subscription_http_billing_paused 1\n")
    };
    for (command, paused) in [("pause", true), ("resume", false)] {
        let mut billing = Command::new(env!("CARGO_BIN_EXE_subscription-http"));
        billing.args(["billing", command, "--database", &database.url()]).current_dir(&folder);

        assert!(billing.status().unwrap().success());

        until(command, || is_paused() == paused);
    }
    server.stop();
}

fn refresh(connection: &mut Connection, token: &str) -> Answer {
    let body = json!({ "refresh_token": token }).to_string();
    connection.sure(&Request::post("/authentication/refresh-token", &body))
}

fn tokens_that_are_newer_than_a_restored_file_are_refused() {
    let folder = folder();
    let (file, copy) = (folder.join("store.db"), folder.join("copy.db"));
    let database = Database::Sqlite(file.clone());
    let server = Running::start(&folder, &database.url(), &[]);
    let body = json!({ "access_token": "believed", "email": "ada@example.com" }).to_string();
    let sign_up = Request::post("/authentication/sign-up", &body);
    let signed_up = server.connect().sure(&sign_up).expect(201).json();
    let first = text(&signed_up, "refresh_token");
    server.stop();
    fs::copy(&file, &copy).unwrap();
    let server = Running::start(&folder, &database.url(), &[]);
    let mut connection = server.connect();
    let second = text(&refresh(&mut connection, &first).expect(200).json(), "refresh_token");
    let third = text(&refresh(&mut connection, &second).expect(200).json(), "refresh_token");
    server.stop();

    fs::copy(&copy, &file).unwrap();
    let server = Running::start(&folder, &database.url(), &[]);

    let mut connection = server.connect();
    for newer in [&third, &second] {
        let refused = refresh(&mut connection, newer).expect(401);
        assert_eq!(refused.code(), "refresh_token_invalid");
    }
    // The session itself goes on from where the copy has it, for who still has that token.
    refresh(&mut connection, &first).expect(200);
    let log = server.stop();
    assert!(log.contains("was an old backup restored?"), "{log}");
    assert!(!log.contains(&third) && !log.contains("panicked"), "{log}");
    database.check_file();
}

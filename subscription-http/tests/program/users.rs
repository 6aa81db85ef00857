//! The setting `users`: which users can have subscriptions.

use crate::running::{Running, command, folder, run};

const SOMEBODY: &str = "966d0ee2-0ba0-53f6-be20-3288f30aad07";

fn post(running: &Running, path: &str, body: &str) -> String {
    let length = body.len();
    running.ask(format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nclient-id: web\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

/// The answer to a subscription of somebody who never signed up.
fn subscribed(running: &Running) -> String {
    let plan = r#"{"name":"Pro","slug":"pro","price":19.90,"billing_cycle":"monthly"}"#;
    let plan = post(running, "/subscription-plans", plan);
    let (_, body) = plan.split_once("\r\n\r\n").unwrap();
    let plan: serde_json::Value = serde_json::from_str(body).expect(body);
    let plan = plan.get("id").unwrap();
    let subscription = format!(r#"{{"user_id":"{SOMEBODY}","subscription_plan_id":{plan}}}"#);
    post(running, "/subscriptions", &subscription)
}

#[test]
fn users_are_accounts_unless_said_otherwise() {
    for users in [None, Some("accounts")] {
        let running = Running::start(|command| {
            command.args(["--database", "memory:"]);
            users.map(|users| command.args(["--users", users]));
        });

        let refused = subscribed(&running);

        assert!(refused.starts_with("HTTP/1.1 422"), "{refused}");
        assert!(refused.contains("unknown_reference"), "{refused}");
    }
}

#[test]
fn users_of_ones_own_may_be_any_by_flag_variable_or_file() {
    let folder = folder();
    std::fs::write(folder.join("settings.toml"), "users = \"any\"").unwrap();
    for how in ["flag", "variable", "file"] {
        let running = Running::start_in(&folder, |command| {
            command.args(["--database", "memory:"]);
            match how {
                "flag" => command.args(["--users", "any"]),
                "variable" => command.env("SUBSCRIPTION_USERS", "any"),
                _ => command.args(["--config", "settings.toml"]),
            };
        });

        let made = subscribed(&running);

        assert!(made.starts_with("HTTP/1.1 201"), "{how}: {made}");
        assert!(made.contains(SOMEBODY), "{how}: {made}");
    }
}

#[test]
fn users_of_another_kind_are_told() {
    let (output, errors) = run(command().args(["--users", "all"]));

    assert_eq!(output.status.code(), Some(2));
    assert!(errors.contains("accounts") && errors.contains("any"), "{errors}");
}

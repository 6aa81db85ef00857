//! The settings `self_service`, `checkout_hosts` and `portal_url`.

use subscription_http::{ApiPart, SelfService, openapi_json_for};

use crate::running::{Running, command, command_in, folder, get, run};

const FILE: &str = "self_service = [\"cancel\", \"resume\"]\n[checkout_hosts]\n\"pay.shop.example\" = \"stripe\"\n";

/// The verbs that the server's OpenAPI document has.
fn served(running: &Running) -> (bool, bool) {
    let document = running.ask(get("/openapi.json"));
    let has = |verb: &str| document.contains(&format!("\"/me/subscriptions/{{id}}/{verb}\""));
    (has("cancel"), has("resume"))
}

#[test]
fn people_may_change_what_a_flag_a_variable_or_the_file_lists_and_nothing_by_default() {
    let folder = folder();
    std::fs::write(folder.join("settings.toml"), FILE).unwrap();
    for (how, expected) in [
        ("nothing", (false, false)),
        ("flag", (true, false)),
        ("variable", (true, true)),
        ("file", (true, true)),
    ] {
        let running = Running::start_in(&folder, |command| {
            command.args(["--database", "memory:"]);
            match how {
                "flag" => command.args(["--self-service", "cancel"]),
                "variable" => command.env("SUBSCRIPTION_SELF_SERVICE", "resume,cancel"),
                "file" => command.args(["--config", "settings.toml"]),
                _ => command,
            };
        });

        assert_eq!(served(&running), expected, "{how}");
    }
}

#[test]
fn the_command_prints_the_document_of_its_settings() {
    let (none, _) = run(command_in(&folder()).arg("openapi"));
    let (both, _) = run(command_in(&folder()).args([
        "openapi",
        "--self-service",
        "cancel,resume",
        "--clock",
        "manual",
    ]));

    let text = |output: std::process::Output| String::from_utf8(output.stdout).unwrap();
    let (none, both) = (text(none), text(both));
    assert!(none.contains("/me/entitlement") && !none.contains("/me/subscriptions/{id}"), "{none}");
    assert!(!none.contains("/clock/advance"), "{none}");
    let changes = [SelfService::Cancel, SelfService::Resume];
    let parts =
        [ApiPart::Billing, ApiPart::Clock, ApiPart::Docs, ApiPart::Figures, ApiPart::Webhooks];
    assert_eq!(both.trim_end(), openapi_json_for(&changes, &parts));
}

#[test]
fn a_checkout_page_at_a_domain_of_ones_own_is_its_providers() {
    let folder = folder();
    std::fs::write(folder.join("settings.toml"), FILE).unwrap();
    let running = Running::start_in(&folder, |command| {
        command.args(["--database", "memory:", "--users", "any", "--config", "settings.toml"]);
    });
    let plan = r#"{"name":"Pro","slug":"pro","price":1,"billing_cycle":"monthly","href":"https://pay.shop.example/t"}"#;
    let head = "Host: localhost\r\nclient-id: web\r\nConnection: close";
    running.ask(format!(
        "POST /subscription-plans HTTP/1.1\r\n{head}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{plan}",
        plan.len()
    ));

    let user = "966d0ee2-0ba0-53f6-be20-3288f30aad07";
    let path = format!("/subscription-plans/pro/checkout-link?user_id={user}");
    let link = running.ask(format!("GET {path} HTTP/1.1\r\n{head}\r\n\r\n"));

    assert!(
        link.contains(&format!("https://pay.shop.example/t?client_reference_id={user}")),
        "{link}"
    );
}

#[test]
fn a_change_that_there_is_not_is_told() {
    let (output, errors) = run(command().args(["--self-service", "pause"]));

    assert_eq!(output.status.code(), Some(2));
    assert!(errors.contains("expected one of `cancel`, `resume`, `change_plan`"), "{errors}");
}

#[test]
fn the_portal_is_an_https_page_or_one_on_this_machine_and_has_no_fragment() {
    let document = |page: &str| run(command_in(&folder()).args(["openapi", "--portal-url", page]));
    for page in
        ["https://shop.example", "https://shop.example:8443/account?x=y", "http://localhost:3000/"]
    {
        let (output, errors) = document(page);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("\"/users/{user_id}/portal-links\""), "{page}: {errors}");
    }
    for page in [
        "http://shop.example/",
        "https://shop.example/#",
        "https://shop.example/#account",
        "data:,x",
    ] {
        let (output, errors) = document(page);
        assert_eq!(output.status.code(), Some(1), "{page}");
        assert!(errors.contains("must be an https address without a fragment"), "{errors}");
    }
    let (output, errors) = document("shop.example");
    assert_eq!(output.status.code(), Some(2), "{errors}");
    let (output, _) = run(command_in(&folder()).arg("openapi"));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("\"/users/{user_id}/portal-links\""));
}

//! Webhooks in the binary: their settings, and their endpoints after an import.

use serde_json::json;
use test_support::receiver::{Receiver, Reply};

use crate::provider_shop::until;
use crate::running::{command_in, folder, run};
use crate::webhook_receiver::{Hooks, start, stop};

#[test]
fn all_faults_of_the_settings_are_reported_at_once() {
    let folder = folder();
    let file = "[webhooks]\nenabled = \"yes\"\nallow = [\"10.0.0.1/8\", \"here\", 7]\ndeny = \"10.0.0.0/8\"\n\
                ca_file = \"nowhere.pem\"\n";
    std::fs::write(folder.join("settings.toml"), file).unwrap();

    let (output, errors) =
        run(command_in(&folder).args(["--config", "settings.toml", "--listen", "127.0.0.1:0"]));

    assert_eq!(output.status.code(), Some(1));
    for part in [
        "[webhooks] cannot be used",
        "webhooks.enabled must be true or false",
        "webhooks.allow: 10.0.0.1/8 has bits after its prefix: did you mean 10.0.0.0/8?",
        "webhooks.allow: here is not a network such as",
        "webhooks.allow: 7 is not a network",
        "webhooks.deny must be a list of networks",
        "webhooks.ca_file nowhere.pem cannot be read",
    ] {
        assert!(errors.contains(part), "{part} in {errors}");
    }
    assert!(!folder.join("subscription.db").exists());
}

#[test]
fn unknown_keys_and_files_without_certificates_are_refused() {
    let folder = folder();
    std::fs::write(folder.join("empty.pem"), "").unwrap();
    for (file, part) in [
        (
            "[webhooks]\nallows = []",
            "line 2: unknown key allows in [webhooks]; did you mean allow?",
        ),
        ("webhooks = true", "webhooks must be a table"),
        ("[webhooks]\nca_file = \"empty.pem\"", "webhooks.ca_file empty.pem has no certificate"),
    ] {
        std::fs::write(folder.join("settings.toml"), file).unwrap();
        let (output, errors) =
            run(command_in(&folder).args(["--config", "settings.toml", "--listen", "127.0.0.1:0"]));
        assert_eq!(output.status.code(), Some(1), "{file}");
        assert!(errors.contains(part), "{part} in {errors}");
    }
}

#[test]
fn webhooks_that_are_off_have_no_routes() {
    let hooks = Hooks::with("[webhooks]\nenabled = false\n");
    let list = hooks.send("GET", "/webhook-endpoints", &json!(null));
    assert_eq!((list.status, &list.json()["code"]), (404, &json!("route_not_found")));

    let document = |settings: &str| {
        std::fs::write(hooks.folder.join("other.toml"), settings).unwrap();
        let (output, errors) =
            run(command_in(&hooks.folder).args(["--config", "other.toml", "openapi"]));
        assert!(output.status.success(), "{errors}");
        String::from_utf8(output.stdout).unwrap()
    };
    for (settings, has) in [
        ("", true),
        ("[webhooks]\nenabled = false", false),
        ("mode = \"production\"", false),
        ("mode = \"production\"\n[webhooks]", true),
        ("mode = \"production\"\n[webhooks]\nenabled = false", false),
    ] {
        assert_eq!(document(settings).contains("/webhook-endpoints"), has, "{settings}");
    }
}

#[test]
fn an_import_disables_endpoints_unless_it_takes_all_as_it_is() {
    let hooks = Hooks::new();
    let (id, _) = hooks.endpoint("/hooks");
    let Hooks { folder: here, running, mut receiver } = hooks;
    stop(running);
    let said = |folder: &std::path::Path, args: &[&str]| {
        let (output, errors) = run(command_in(folder).args(args));
        assert!(output.status.success(), "{errors}");
        String::from_utf8(output.stdout).unwrap()
    };
    let file = here.join("all.jsonl").to_str().unwrap().to_owned();
    said(&here, &["export", &file]);

    for (as_is, reason) in [(false, json!("imported")), (true, json!(null))] {
        let there = folder();
        std::fs::copy(here.join("subscription.keys"), there.join("subscription.keys")).unwrap();
        let args = ["import", &file, "--as-is"];
        let told = said(&there, if as_is { &args } else { &args[..2] });
        assert_eq!(told.contains("1 webhook endpoints are disabled"), !as_is, "{told}");
        let paused = said(&there, &["billing", "status"]).starts_with("billing is paused");
        assert_eq!(paused, !as_is);

        let running = start(&there, "", |_| {});
        let hooks = Hooks { folder: there, running, receiver };
        let shown = hooks.get(&format!("/webhook-endpoints/{id}"));
        assert_eq!(shown["disabled_reason"], reason);
        hooks.plan("pro");
        if as_is {
            hooks.deliveries("/hooks", 1);
        }
        assert_eq!(hooks.receiver.connections(), usize::from(as_is));
        receiver = hooks.receiver;
    }
}

#[test]
fn old_events_are_kept_until_they_are_sent_to_the_enabled_endpoints() {
    const PLANS: usize = 10;
    let folder = folder();
    let begin = || {
        start(&folder, "", |command| {
            command.args(["--clock", "manual", "--keep-events", "P1D"]);
        })
    };
    let mut hooks = Hooks { folder: folder.clone(), running: begin(), receiver: Receiver::start() };
    let (id, _) = hooks.endpoint("/hooks");
    hooks.receiver.replies("/hooks", Reply::Status(500));
    (0..PLANS).for_each(|nth| hooks.plan(&format!("plan-{nth}")));
    let kept = |hooks: &Hooks| hooks.get("/events?type=plan.*")["data"].as_array().unwrap().len();
    let shown = |hooks: &Hooks| hooks.get(&format!("/webhook-endpoints/{id}"));
    until("it is stalled", || !shown(&hooks)["stalled_since"].is_null());
    let advanced = hooks.send("POST", "/clock/advance", &json!({ "by": "P2D" }));
    assert_eq!(advanced.status, 200, "{advanced:?}");

    // Upkeep is done at the start. Events that are set aside are stored with the endpoint.
    stop(hooks.running);
    hooks.running = begin();
    hooks.running.log_line("events before this time are deleted");

    let parked = usize::try_from(shown(&hooks)["parked"].as_u64().unwrap()).unwrap();
    assert!((1..PLANS).contains(&parked), "{parked}");
    assert_eq!(kept(&hooks), PLANS - parked);

    hooks.receiver.replies("/hooks", Reply::Status(200));
    let ping = hooks.send("POST", &format!("/webhook-endpoints/{id}/ping"), &json!(null));
    assert_eq!(ping.status, 200, "{ping:?}");
    until("all are sent", || shown(&hooks)["behind"] == 0);
    stop(hooks.running);
    hooks.running = begin();
    until("they are deleted", || kept(&hooks) == 0);
}

#[test]
fn metrics_count_the_deliveries_of_each_endpoint() {
    let hooks = Hooks::new();
    let (id, _) = hooks.endpoint("/hooks");
    hooks.plan("pro");
    hooks.deliveries("/hooks", 1);

    let metrics = || hooks.send("GET", "/metrics", &json!(null)).text;
    let prefix = "subscription_http_webhook_";
    let lines = [
        format!("{prefix}deliveries_total{{endpoint=\"{id}\",outcome=\"delivered\"}} 1"),
        format!("{prefix}delivery_seconds_count{{endpoint=\"{id}\"}} 1"),
        format!("{prefix}delivery_seconds_bucket{{le=\"+Inf\",endpoint=\"{id}\"}} 1"),
        format!("{prefix}lag_seconds{{endpoint=\"{id}\"}} 0.0"),
        format!("{prefix}parked{{endpoint=\"{id}\"}} 0.0"),
        format!("{prefix}stalled{{endpoint=\"{id}\"}} 0.0"),
        format!("{prefix}given_up_total{{endpoint=\"{id}\"}} 0"),
        format!("{prefix}in_flight 0"),
    ];

    // Each is set at a moment of its own.
    for line in lines {
        until(&line, || metrics().contains(&line));
    }
}

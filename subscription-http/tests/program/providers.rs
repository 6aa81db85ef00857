//! Payment providers in the binary: their settings, what a start refuses and warns of, and the command
//! `provider sync`.

#![expect(
    clippy::indexing_slicing,
    clippy::too_many_lines,
    reason = "a test that fails panics; a row for each fault"
)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::running::{Running, command_in, folder, get, lines, run};

/// Stripe in test mode, complete.
const STRIPE: &str = r#"
[providers.stripe]
kind = "stripe"
signing_secrets = ["whsec_0123456789abcdef"]
api_key = "rk_test_0123456789"
"#;

/// The settings that production mode needs besides.
const PRODUCTION: &str = r#"
mode = "production"
database = "memory:"
identity_issuer = "https://accounts.example.com"
identity_audience = "shop"
identity_secret_file = "provider.secret"
clients = [{ id = "web", scopes = ["auth", "plans:read"] }]
"#;

fn with(text: &str) -> (PathBuf, Command) {
    let folder = folder();
    std::fs::write(folder.join("settings.toml"), text).unwrap();
    std::fs::write(folder.join("provider.secret"), "0123456789abcdef0123456789abcdef\n").unwrap();
    let mut command = command_in(&folder);
    command.args(["--config", "settings.toml"]);
    (folder, command)
}

/// The errors of a start that is refused, and that leaves no file behind.
fn refused(text: &str, change: impl FnOnce(&mut Command)) -> String {
    let (folder, mut command) = with(text);
    command.args(["--listen", "127.0.0.1:0"]);
    change(&mut command);
    let (output, errors) = run(&mut command);
    assert_eq!(output.status.code(), Some(1), "{text}: {errors}");
    assert!(output.stdout.is_empty(), "{text}");
    assert!(!folder.join("subscription.db").exists(), "{text}");
    errors
}

/// A server with these settings in development.
fn started(text: &str) -> (PathBuf, Running) {
    let (folder, command) = with(text);
    (folder, Running::start_as(command, |_| {}))
}

/// The warnings of a start.
fn warnings(running: Running) -> Vec<String> {
    running.signal("TERM");
    let (code, _, log) = running.end();
    assert_eq!(code, Some(0), "{log}");
    let warnings = lines(&log).into_iter().filter(|line| line["level"] == "WARN");
    let warnings = warnings.map(|line| line["message"].as_str().unwrap().to_owned());
    warnings.filter(|warning| warning.contains("providers")).collect()
}

fn document(folder: &Path) -> String {
    let (output, errors) = run(command_in(folder).args(["--config", "settings.toml", "openapi"]));
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_provider_that_is_configured_has_routes_and_without_one_there_are_none() {
    let (folder, running) = started(STRIPE);

    assert!(running.ask(get("/providers")).contains("client_id_missing"));
    assert!(document(&folder).contains("/provider-webhooks/{source}"));
    assert!(running.ask(get("/metrics")).contains("subscription_http_provider_"));
    assert_eq!(warnings(running), Vec::<String>::new());

    for text in ["", "[providers]\n"] {
        let (folder, running) = started(text);
        assert!(running.ask(get("/providers")).contains("route_not_found"), "{text}");
        let document = document(&folder);
        assert!(!document.contains("/provider"), "{text}");
        assert!(!document.contains("providers:read"), "{text}");
        assert!(!running.ask(get("/metrics")).contains("subscription_http_provider_"), "{text}");
    }
}

#[test]
fn each_fault_of_a_provider_is_refused_with_the_name_of_its_setting() {
    let changed = |from: &str, to: &str| {
        assert!(STRIPE.contains(from), "{from}");
        STRIPE.replace(from, to)
    };
    let secrets = r#"signing_secrets = ["whsec_0123456789abcdef"]"#;
    let key = r#"api_key = "rk_test_0123456789""#;
    let more = |line: &str| format!("{STRIPE}{line}\n");
    let other = STRIPE.replace("[providers.stripe]", "[providers.second]");
    let lemon = changed("\"stripe\"\n", "\"lemon_squeezy\"\n");
    for (text, told) in [
        (changed("kind = \"stripe\"", ""), "providers.stripe.kind is required"),
        (changed("\"stripe\"\n", "\"paypal\"\n"), "providers.stripe.kind must be"),
        (changed("\"stripe\"\n", "1\n"), "providers.stripe.kind must be a text"),
        (changed("[providers.stripe]", "[providers.My_Shop]"), "providers.My_Shop: the name must"),
        (
            changed(secrets, ""),
            "providers.stripe.signing_secrets is required (or SUBSCRIPTION_PROVIDER_STRIPE_SIGNING_SECRETS)",
        ),
        (changed(secrets, "signing_secrets = []"), "providers.stripe.signing_secrets is required"),
        (
            changed(secrets, r#"signing_secrets = "whsec_0123456789abcdef""#),
            "providers.stripe.signing_secrets must be a list of texts",
        ),
        (
            changed(secrets, "signing_secrets = [7]"),
            "providers.stripe.signing_secrets must be a list of texts",
        ),
        (
            changed("whsec_0123456789abcdef", "whsec_012345678"),
            "providers.stripe.signing_secrets has a secret of less than 16 characters",
        ),
        (
            changed(
                secrets,
                &format!("signing_secrets = [{}]", "\"whsec_0123456789abcdef\",".repeat(5)),
            ),
            "providers.stripe.signing_secrets has more than 4 secrets",
        ),
        (
            changed(key, ""),
            "providers.stripe.api_key is required (or SUBSCRIPTION_PROVIDER_STRIPE_API_KEY)",
        ),
        (changed(key, "api_key = \"\""), "providers.stripe.api_key is required"),
        (changed(key, "api_key = 1"), "providers.stripe.api_key must be a text"),
        (changed("rk_test_", "rk test "), "providers.stripe.api_key must be visible ASCII"),
        (
            changed("rk_test_", "rk_live_"),
            "providers.stripe.api_key is a key of live mode (_live_), but live is false",
        ),
        (
            more("live = true"),
            "providers.stripe.api_key is a key of test mode (_test_), but live is true",
        ),
        (more("live = \"yes\""), "providers.stripe.live must be true or false"),
        (more("pause = \"never\""), "providers.stripe.pause must be"),
        (
            format!("{lemon}pause = \"stop\"\n"),
            "providers.stripe.pause is a setting of Stripe alone",
        ),
        (more("match_email = 1"), "providers.stripe.match_email must be true or false"),
        (more("manage_url = \"here\""), "providers.stripe.manage_url must be"),
        (
            more("manage_url = \"http://shop.example\""),
            "providers.stripe.manage_url must begin with https://",
        ),
        (
            more("plans = \"pro\""),
            "providers.stripe.plans must be a table from prices or products to slugs of plans",
        ),
        (
            more("plans = { price_1 = 1 }"),
            "providers.stripe.plans.price_1 must be the slug of a plan",
        ),
        (more("plans = { price_1 = \"Pro!\" }"), "providers.stripe.plans.price_1 must"),
        (
            more("api_base = \"https://api.example.com\""),
            "providers.stripe.api_base must be on this machine",
        ),
        (more("api_base = \"file:///tmp\""), "providers.stripe.api_base must be on this machine"),
        (more("api_base = \"here\""), "providers.stripe.api_base "),
        (
            "[providers]\nstripe = \"rk_test_0123456789\"\n".to_owned(),
            "providers.stripe must be a table",
        ),
        ("providers = \"rk_test_0123456789\"\n".to_owned(), "providers must be a table"),
        (
            format!("{STRIPE}{other}"),
            "providers.second.signing_secrets and providers.stripe.signing_secrets have a secret in common",
        ),
    ] {
        let errors = refused(&text, |_| {});

        assert!(errors.contains(told), "{text}\n{errors}");
        for secret in ["whsec_0", "rk_test_0", "rk_live_0", "rk test 0"] {
            assert!(!errors.contains(secret), "{text}\n{errors}");
        }
    }
}

#[test]
fn a_stand_in_for_the_api_is_refused_in_production() {
    let text = format!("{PRODUCTION}{STRIPE}live = false\napi_base = \"http://127.0.0.1:9\"\n");

    let errors = refused(&text, |_| {});

    assert!(
        errors.contains("providers.stripe.api_base is allowed only in development mode"),
        "{errors}"
    );
}

#[test]
fn all_faults_of_all_providers_are_reported_at_once() {
    let text = "[providers.stripe]\nkind = \"stripe\"\nlive = 1\n[providers.lemons]\n";

    let errors = refused(text, |_| {});

    for part in
        ["stripe.signing_secrets", "stripe.api_key", "stripe.live", "lemons.kind", "lemons.api_key"]
    {
        assert!(errors.contains(&format!("\\n  - providers.{part}")), "{part} in {errors}");
    }
}

#[test]
fn unknown_keys_and_variables_of_providers_are_refused_with_a_hint_and_no_secret_is_shown() {
    let errors = refused(&format!("{STRIPE}match_emial = true\n"), |_| {});
    assert!(
        errors.contains("unknown key match_emial in [providers.stripe]; did you mean match_email?"),
        "{errors}"
    );

    let errors = refused(STRIPE, |command| {
        command.env("SUBSCRIPTION_PROVIDER_STRIPE_APIKEY", "rk_test_secret");
        command.env("SUBSCRIPTION_PROVIDER_LEMONS_API_KEY", "a_secret_of_lemons");
    });
    let hint =
        "SUBSCRIPTION_PROVIDER_STRIPE_APIKEY: did you mean SUBSCRIPTION_PROVIDER_STRIPE_API_KEY?";
    assert!(errors.contains(hint), "{errors}");
    assert!(errors.contains("\n  - SUBSCRIPTION_PROVIDER_LEMONS_API_KEY"), "{errors}");
    assert!(!errors.contains("secret"), "{errors}");

    // A line that TOML cannot read is not quoted.
    let errors = refused(&STRIPE.replace("abcdef\"]", "abcdef]"), |_| {});
    assert!(errors.contains("settings.toml: line 5:"), "{errors}");
    assert!(!errors.contains("whsec"), "{errors}");
}

#[test]
fn secrets_and_key_can_come_from_the_environment_which_goes_first() {
    let bare = "[providers.my-shop]\nkind = \"lemon_squeezy\"\n";
    let (_, command) = with(bare);
    let running = Running::start_as(command, |command| {
        let secrets = "a_secret_of_16_characters, another_secret_of_16";
        command.env("SUBSCRIPTION_PROVIDER_MY_SHOP_SIGNING_SECRETS", secrets);
        command.env("SUBSCRIPTION_PROVIDER_MY_SHOP_API_KEY", "a-key");
    });
    assert!(running.ask(get("/providers")).contains("client_id_missing"));

    let errors = refused(STRIPE, |command| {
        command.env("SUBSCRIPTION_PROVIDER_STRIPE_SIGNING_SECRETS", "short");
        command.env("SUBSCRIPTION_PROVIDER_STRIPE_API_KEY", "rk_live_0123456789");
    });
    for told in ["of less than 16 characters", "is a key of live mode"] {
        assert!(errors.contains(told), "{errors}");
    }
}

#[test]
fn a_start_warns_of_a_key_that_can_write_of_test_data_in_production_and_of_unknown_plans() {
    let plans = "[providers.stripe.plans]\nprice_1 = \"nowhere\"\n";
    let text = format!("{}{plans}", STRIPE.replace("rk_test", "sk_test"));
    let (_, running) = started(&text);
    let told = warnings(running);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("providers.stripe.api_key is a secret key (sk_)"), "{told:?}");
    assert!(
        told[1].starts_with("providers.stripe.plans.price_1: there is no plan nowhere"),
        "{told:?}"
    );

    let text = format!("{PRODUCTION}{STRIPE}live = false\n");
    let (folder, _) = with(&text);
    let settings = ["--config", "settings.toml"];
    let (made, errors) = run(command_in(&folder).args(settings).args(["key", "rotate"]));
    assert!(made.status.success(), "{errors}");
    let running = Running::start_in(&folder, |command| {
        command.args(settings);
    });
    let told = warnings(running);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("providers.stripe.live is false in production"), "{told:?}");
}

/// A provider with these subscriptions, and nothing else, until the process ends; its address.
fn provider(subscriptions: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            let mut head = BufReader::new(stream.try_clone().unwrap());
            head.read_line(&mut line).unwrap();
            let mut rest = String::new();
            while head.read_line(&mut rest).unwrap() > 2 {
                rest.clear();
            }
            let items = if line.starts_with("GET /v1/subscriptions?") { subscriptions } else { "" };
            let body = format!(r#"{{"object":"list","data":[{items}],"has_more":false}}"#);
            let length = body.len();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close");
            stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).unwrap();
        }
    });
    format!("http://{address}")
}

/// Runs `provider sync` with these settings and flags.
fn sync(text: &str, flags: &[&str]) -> (Option<i32>, String, String) {
    let (_, mut command) = with(text);
    let (output, errors) = run(command.args(["provider", "sync"]).args(flags));
    (output.status.code(), String::from_utf8(output.stdout).unwrap(), errors)
}

#[test]
fn a_sync_tells_its_counts_and_ends_well_only_if_nothing_waits() {
    let settings = |base: &str| format!("{STRIPE}api_base = \"{base}\"\n");

    let (code, out, errors) = sync(&settings(&provider("")), &[]);
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(out, "stripe: 0 made, 0 changed, 0 same, 0 ignored, 0 waiting, 0 failed\n");

    let unknown = r#"{"id":"sub_1","object":"subscription","livemode":false,"customer":"cus_1",
        "metadata":{},"status":"active","start_date":1767225600,"created":1767225600,
        "cancel_at_period_end":false,"cancel_at":null,"pause_collection":null,"items":{"data":[{
        "price":{"id":"price_1","product":"prod_1","unit_amount":1990,"currency":"usd",
        "recurring":{"interval":"month","interval_count":1}},"quantity":1,
        "current_period_start":1767225600,"current_period_end":1769904000}]}}"#;
    let settings = settings(&provider(unknown));
    for flags in [&["--dry-run"][..], &["--source", "stripe"]] {
        let (code, out, errors) = sync(&settings, flags);
        assert_eq!(code, Some(1), "{flags:?} {errors}");
        assert!(out.contains("1 waiting"), "{flags:?} {out} {errors}");
        assert_eq!(out.contains("dry run"), flags == ["--dry-run"], "{out}");
        assert!(errors.contains("GET /provider-events lists them"), "{errors}");
    }
}

#[test]
fn a_sync_that_cannot_begin_says_why() {
    let other = STRIPE.replace("providers.stripe", "providers.shop").replace("abcdef", "ghijkl");
    let two = format!("{STRIPE}{other}");
    for (text, flags, told) in [
        ("", &[][..], "no payment provider is configured"),
        (STRIPE, &["--source", "shop"], "--source shop is not configured; configured: stripe"),
        (&*two, &["--object", "sub_1"], "--object needs --source; configured: shop, stripe"),
        (STRIPE, &["--database", "memory:"], "a database in memory has nothing to sync"),
        (&STRIPE.replace("rk_test", "rk_live"), &[], "is a key of live mode"),
        (STRIPE, &["--source", "My Shop"], "--source"),
        (STRIPE, &["--object", ""], "--object"),
        (STRIPE, &["--speed", "1"], "--speed"),
    ] {
        let (code, out, errors) = sync(text, flags);

        assert!(matches!(code, Some(1 | 2)), "{flags:?}: {errors}");
        assert!(errors.contains(told), "{told} in {errors}");
        assert_eq!(out, "", "{flags:?}");
    }
}

#[test]
fn a_sync_beside_a_running_server_names_the_route() {
    let (folder, running) = started(STRIPE);

    let sync = ["--config", "settings.toml", "provider", "sync"];
    let (output, errors) = run(command_in(&folder).args(sync));

    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("POST /provider-syncs"), "{errors}");
    drop(running);
}

#[test]
fn help_tells_of_providers() {
    let (output, _) = run(command_in(&folder()).args(["provider", "sync", "--help"]));
    let help = String::from_utf8(output.stdout).unwrap();
    for text in ["--source", "--object", "--dry-run", "POST /provider-syncs"] {
        assert!(help.contains(text), "{text} in {help}");
    }
    let (output, _) = run(command_in(&folder()).arg("--help"));
    let help = String::from_utf8(output.stdout).unwrap();
    for text in ["[providers.NAME]", "signing_secrets", "api_key", "match_email", "webhook "] {
        assert!(help.contains(text), "{text} in {help}");
    }
}

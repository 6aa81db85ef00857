//! The command `webhook`: endpoints of a running server, pings, secrets and signatures.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use subscription_core::webhooks::{Secret, sign};
use subscription_core::{Clock as _, SystemClock};
use test_support::receiver::{Receiver, Reply};

use crate::running::{Running, command_in, folder, run};

/// The command, in a folder that is not the server's.
fn webhook(server: &Running, arguments: &[&str]) -> (bool, String, String) {
    let mut command = command_in(&folder());
    command.arg("webhook").args(arguments).args(["--api", &format!("http://{}", server.address)]);
    let (output, errors) = run(&mut command);
    (output.status.success(), String::from_utf8(output.stdout).unwrap(), errors)
}

fn printed(server: &Running, arguments: &[&str]) -> Vec<Value> {
    let (is_success, out, errors) = webhook(server, arguments);
    assert!(is_success, "{arguments:?}: {errors}");
    out.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_else(|| panic!("{name}: {value}"))
}

/// Runs `webhook verify` with a body on standard input.
fn verify(secret: &str, file: Option<&Path>, flags: &[&str], body: &[u8]) -> (bool, String) {
    let mut command = command_in(&folder());
    command.args(["webhook", "verify"]).args(flags).stdin(Stdio::piped());
    match file {
        Some(file) => command.arg("--secret-file").arg(file),
        None => command.env("WEBHOOK_SECRET", secret),
    };
    let mut child = command.spawn().unwrap();
    // The command may end before it has read the body.
    child.stdin.take().unwrap().write_all(body).ok();
    let output = child.wait_with_output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

fn flags<'a>(id: &'a str, timestamp: &'a str, signature: &'a str) -> [&'a str; 6] {
    ["--id", id, "--timestamp", timestamp, "--signature", signature]
}

#[test]
fn an_endpoint_is_added_listed_pinged_rotated_and_removed() {
    let server = Running::start(|_| {});
    let receiver = Receiver::start();
    let url = receiver.url("/hook");

    let added =
        printed(&server, &["add", "--url", &url, "--type", "plan.*", "--type", "payment.*"]);
    let [endpoint] = &*added else { panic!("{added:?}") };
    let (id, secret) = (text(endpoint, "id"), text(endpoint, "secret"));
    assert_eq!(endpoint.get("types").unwrap().to_string(), r#"["plan.*","payment.*"]"#);
    let listed = printed(&server, &["list"]);
    assert_eq!((listed.len(), text(&listed[0], "url")), (1, &*url));
    assert!(listed[0].get("secret").is_none());

    let pinged = printed(&server, &["ping", id]);
    assert_eq!(text(&pinged[0], "outcome"), "delivered");
    let ping = receiver.received("/hook").remove(0);
    let flags =
        ["webhook-id", "webhook-timestamp", "webhook-signature"].map(|name| ping.header(name));
    let flags = self::flags(flags[0], flags[1], flags[2]);
    assert_eq!(verify(secret, None, &flags, &ping.body), (true, String::new()));

    let rotated = printed(&server, &["rotate", id, "--overlap-hours", "0"]);
    let second = text(&rotated[0], "secret");
    assert_ne!(second, secret);
    assert!(!verify(second, None, &flags, &ping.body).0);
    let (is_success, out, _) = webhook(&server, &["remove", id]);
    assert!(is_success && out == format!("deleted {id}\n"), "{out}");
    assert!(printed(&server, &["list"]).is_empty());
}

#[test]
fn a_call_that_is_refused_is_told_on_standard_error() {
    let server = Running::start(|_| {});
    let receiver = Receiver::start();
    receiver.replies("/hook", Reply::Status(500));
    let url = receiver.url("/hook");
    let added = printed(&server, &["add", "--url", &url]);
    let id = text(&added[0], "id");
    let unknown = "01940000-0000-7000-8000-000000000000";

    for (arguments, message) in [
        (&["ping", id][..], "the endpoint did not accept the ping"),
        (&["ping", unknown][..], "404 not_found"),
        (&["rotate", id, "--overlap-hours", "73"][..], "422 validation_failed"),
        (&["remove", unknown][..], "404 not_found"),
        (&["add", "--url", "https://10.0.0.1"][..], "url must not be a private"),
        (
            &["add", "--url", &url, "--type", "client.*"][..],
            "types[0] must not be a type of client events",
        ),
        (&["list", "--client-id-file", "none"][..], "--client-id-file none: No such file"),
    ] {
        let (is_success, _, errors) = webhook(&server, arguments);

        assert!(!is_success && errors.contains(message), "{arguments:?}: {errors}");
    }
}

/// Attack W6, by the command.
#[test]
fn a_signature_is_checked_without_a_server() {
    let secret: Secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
    let text = secret.expose();
    let now = SystemClock.now().micros() / 1_000_000;
    let (body, id) = (br#"{"test": 2432232314}"#, "msg_1");
    let signed = |at| sign(std::slice::from_ref(&secret), id, at, body);
    let (at, signature) = (now.to_string(), signed(now));
    let old = now - 301;
    let (old_at, old_signature) = (old.to_string(), signed(old));
    let file = folder().join("secret");
    std::fs::write(&file, format!("whsec_AAAA\n{text}\n")).unwrap();

    assert!(verify(&text, None, &flags(id, &at, &signature), body).0);
    assert!(verify("", Some(&file), &flags(id, &at, &signature), body).0, "the second of two");
    let other_body = br#"{"test": 2432232315}"#;
    for (secret, flags, body, message) in [
        (&*text, flags(id, &at, &signature), other_body, "no signature is right"),
        (&*text, flags("msg_2", &at, &signature), body, "no signature is right"),
        ("whsec_AAAA", flags(id, &at, &signature), body, "no signature is right"),
        (&*text, flags(id, &old_at, &old_signature), body, "too long ago"),
        (&*text, flags(id, "soon", &signature), body, "not a number of seconds"),
        (&*text, flags(id, &at, ""), body, "is missing"),
        (
            "no base64",
            flags(id, &at, &signature),
            body,
            "the secret must be whsec_ followed by base64",
        ),
    ] {
        let (is_right, errors) = verify(secret, None, &flags, body);
        assert!(!is_right && errors.contains(message), "{message}: {errors}");
    }
    let (none, errors) = run(command_in(&folder())
        .args(["webhook", "verify"])
        .args(flags(id, &at, &signature))
        .env_remove("WEBHOOK_SECRET"));
    assert!(!none.status.success() && errors.contains("WEBHOOK_SECRET"), "{errors}");
}

/// Attack W7: the export and the log.
#[test]
fn neither_the_export_nor_the_log_has_a_secret_or_the_query_of_a_url() {
    let place = folder();
    let server = Running::start_in(&place, |command| {
        command.args(["--log", "trace"]);
    });
    let receiver = Receiver::start();
    receiver.replies("/hook?token=hunter2", Reply::Status(500));
    let added = printed(&server, &["add", "--url", &receiver.url("/hook?token=hunter2")]);
    let id = text(&added[0], "id");
    assert!(!webhook(&server, &["ping", id]).0);
    let rotated = printed(&server, &["rotate", id]);
    server.signal("TERM");
    let (_, _, log) = server.end();
    let file = place.join("export.jsonl");

    let (exported, errors) = run(command_in(&place).arg("export").arg(&file));

    assert!(exported.status.success(), "{errors}");
    let export = std::fs::read_to_string(file).unwrap();
    assert!(export.contains(id) && log.contains(id), "{log}");
    assert!(log.contains("webhook endpoint managed"), "{log}");
    for secret in [text(&added[0], "secret"), text(&rotated[0], "secret")] {
        let bare = secret.strip_prefix("whsec_").unwrap();
        assert!(!export.contains(bare) && !log.contains(bare));
    }
    assert!(!log.contains("hunter2"), "{log}");
}

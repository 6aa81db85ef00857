//! The commands besides `serve`.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::running::{Running, command_in, folder, get, run};

fn said(command: &mut Command) -> String {
    let (output, errors) = run(command);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_first_start_keeps_its_records_and_its_keys_for_the_next() {
    let folder = folder();
    let body = r#"{"name":"Pro","slug":"pro","price":19.90,"billing_cycle":"monthly"}"#;
    let head =
        "Host: localhost\r\nclient-id: web\r\nConnection: close\r\nContent-Type: application/json";
    let length = body.len();
    let first = Running::start_in(&folder, |_| {});
    let made = first.ask(format!(
        "POST /subscription-plans HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}"
    ));
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    let keys = first.ask(get("/.well-known/jwks.json"));
    first.signal("TERM");
    assert_eq!(first.end().0, Some(0));

    let second = Running::start_in(&folder, |_| {});

    let found = second.ask(format!("GET /subscription-plans/pro HTTP/1.1\r\n{head}\r\n\r\n"));
    assert!(found.contains(r#""price":19.90"#), "{found}");
    let body = |answer: &str| answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    assert_eq!(body(&second.ask(get("/.well-known/jwks.json"))), body(&keys));
    for file in ["subscription.keys", "subscription.db"] {
        let access = std::fs::metadata(folder.join(file)).unwrap().permissions().mode();
        assert_eq!(access & 0o777, 0o600, "{file}");
    }
}

#[test]
fn a_second_on_the_same_file_is_refused() {
    let folder = folder();
    let first = Running::start_in(&folder, |_| {});

    let (output, errors) = run(command_in(&folder).args(["--listen", "127.0.0.1:0"]));

    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("subscription.db is in use by another process"), "{errors}");
    assert!(first.ask(get("/health/ready")).starts_with("HTTP/1.1 200"));
}

/// The lock file stands beside the path by which the first server opened the database, so it says nothing here.
#[test]
fn a_second_on_another_path_of_the_same_file_is_refused() {
    let folder = folder();
    let first = Running::start_in(&folder, |_| {});
    let file = folder.join("subscription.db");
    std::os::unix::fs::symlink("subscription.db", folder.join("link.db")).unwrap();
    let refused = |name: &str| {
        let database = format!("sqlite://{name}");
        for rest in [&["client", "list"][..], &["--listen", "127.0.0.1:0"]] {
            let command = &mut command_in(&folder);
            let (output, errors) = run(command.args(["--database", &database]).args(rest));
            assert_eq!(output.status.code(), Some(1), "{errors}");
            assert!(errors.contains(" is in use by another process"), "{name}: {errors}");
        }
    };

    refused("link.db");
    assert!(first.ask(get("/health/ready")).starts_with("HTTP/1.1 200"));
    // A mount of the file is such a path too, but only root may make one.
    std::fs::rename(&file, folder.join("moved.db")).unwrap();
    refused("moved.db");

    std::fs::rename(folder.join("moved.db"), &file).unwrap();
    assert!(first.ask(get("/health/ready")).starts_with("HTTP/1.1 200"));
}

#[test]
fn a_database_or_log_that_is_removed_under_a_server_makes_it_refuse_writes_and_be_not_ready() {
    for removed in ["subscription.db", "subscription.db-wal"] {
        is_refused_without(removed);
    }
}

fn is_refused_without(file: &str) {
    let folder = folder();
    let running = Running::start_in(&folder, |_| {});
    std::fs::remove_file(folder.join(file)).unwrap();
    let body = r#"{"name":"Pro","slug":"pro","price":19.90,"billing_cycle":"monthly"}"#;
    let length = body.len();

    let made = running.ask(format!(
        "POST /subscription-plans HTTP/1.1\r\nHost: localhost\r\nclient-id: web\r\n\
         Connection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    ));
    let ready = running.ask(get("/health/ready"));

    for answer in [made, ready] {
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert!(answer.contains("\"code\":\"store_unavailable\""), "{answer}");
    }
    // A new connection makes a new log, which has nothing of the other.
    assert!(!folder.join("subscription.db").exists() || file != "subscription.db");
}

#[test]
fn what_a_removed_log_holds_is_in_the_file_soon_and_survives_a_kill() {
    let folder = folder();
    let (file, log) = (folder.join("subscription.db"), folder.join("subscription.db-wal"));
    let running = Running::start_in(&folder, |_| {});
    let until = |what: &str, is_so: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < Duration::from_mins(1), "{what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    until("the log is cut after the start", &|| std::fs::metadata(&log).unwrap().len() == 0);
    let create = |running: &Running, slug: &str| {
        let body =
            format!(r#"{{"name":"Pro","slug":"{slug}","price":19.90,"billing_cycle":"monthly"}}"#);
        let length = body.len();
        running.ask(format!(
            "POST /subscription-plans HTTP/1.1\r\nHost: localhost\r\nclient-id: web\r\n\
             Connection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
    };
    assert!(create(&running, "kept-by-the-log").starts_with("HTTP/1.1 201"));
    std::fs::remove_file(&log).unwrap();
    assert!(create(&running, "refused").starts_with("HTTP/1.1 503"));

    let is_written = || {
        let bytes = std::fs::read(&file).unwrap();
        bytes.windows(15).any(|bytes| bytes == b"kept-by-the-log")
    };
    until("the log is written into the file", &is_written);
    // Dropped, it is killed.
    drop(running);

    let again = Running::start_in(&folder, |_| {});
    let found = again.ask(
        "GET /subscription-plans/kept-by-the-log HTTP/1.1\r\nHost: localhost\r\nclient-id: web\r\n\
         Connection: close\r\n\r\n",
    );
    assert!(found.starts_with("HTTP/1.1 200"), "{found}");
}

#[test]
fn clients_are_added_listed_given_new_keys_and_revoked() {
    let folder = folder();
    let client = |arguments: &[&str]| said(command_in(&folder).arg("client").args(arguments));

    let web =
        client(&["add", "--name", "Web", "--public", "--scope", "auth", "--scope", "plans:read"]);
    let shop = client(&["add", "--name", "Shop Server", "--scope", "plans:write"]);
    let next = client(&["rotate-key", "shop-server"]);
    client(&["revoke", "web"]);

    assert_eq!(web, "web\n");
    assert!(shop.lines().nth(1).unwrap().starts_with("sck_shop-server_"), "{shop}");
    assert_ne!(shop.lines().nth(1), next.lines().nth(1));
    let list = client(&["list"]);
    assert!(list.contains("shop-server  confidential  Shop Server  plans:write\n"), "{list}");
    assert!(list.contains("web  public  Web  auth plans:read, revoked "), "{list}");
    let (output, errors) = run(command_in(&folder).args([
        "client",
        "add",
        "--name",
        "Web 2",
        "--public",
        "--scope",
        "plans:write",
    ]));
    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("plans:write: the client is public"), "{errors}");
    assert!(client(&["restore", "shop-server"]).starts_with("shop-server is not revoked"));
    client(&["revoke", "shop-server"]);
    let restored = client(&["restore", "shop-server"]);
    assert!(restored.contains("client rotate-key shop-server"), "{restored}");
    let pages = ["add", "--name", "Pages", "--public", "--scope", "auth", "--origin"];
    client(&[pages.as_slice(), &["https://shop.example"]].concat());
    let list = client(&["list"]);
    assert!(list.contains("pages  public  Pages  auth https://shop.example\n"), "{list}");
    let (output, errors) =
        run(command_in(&folder).arg("client").args(pages).arg("https://shop.example/"));
    assert_eq!(output.status.code(), Some(2));
    assert!(errors.contains("must be written as browsers send it: https://shop.example"));
    let (output, errors) = run(command_in(&folder).args(["client", "revoke", "nobody"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("nobody"), "{errors}");
}

#[test]
fn the_events_of_a_command_name_it_as_their_actor() {
    let folder = folder();
    let file = folder.join("all.jsonl");
    said(command_in(&folder).args(["client", "add", "--name", "Shop", "--scope", "plans:read"]));
    said(command_in(&folder).args(["client", "revoke", "shop"]));

    said(command_in(&folder).arg("export").arg(&file));

    let text = std::fs::read_to_string(file).unwrap();
    let events: Vec<_> = text.lines().filter(|line| line.contains(r#""kind":"event""#)).collect();
    assert_eq!(events.len(), 2, "{text}");
    assert!(events.iter().all(|event| event.contains(r#""actor":"command""#)), "{text}");
    assert!(text.contains(r#""fields":["keys","revoked_at"]"#), "{text}");
}

#[test]
fn keys_that_others_can_read_are_refused() {
    let folder = folder();
    said(command_in(&folder).args(["key", "rotate"]));
    let keys = folder.join("subscription.keys");
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o644)).unwrap();

    let (output, errors) = run(command_in(&folder).args(["--listen", "127.0.0.1:0"]));

    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("others can read them: chmod 600"), "{errors}");
}

#[test]
fn keys_that_are_none_are_told_with_their_file_and_not_shown() {
    let folder = folder();
    let key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let short = format!(
        "cursor = \"{key}\"\nsigning = [{{ ed25519 = \"secret\" }}, {{ ed25519 = \"{key}\" }}]\n\
         server = [{{ id = 2, key = \"{key}\" }}, {{ id = 1, key = \"{key}\" }}]\n"
    );
    for text in ["cursor = \"secret\"", "secret", &short] {
        let keys = folder.join("subscription.keys");
        std::fs::write(&keys, text).unwrap();
        std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o600)).unwrap();

        let (output, errors) = run(command_in(&folder).args(["--listen", "127.0.0.1:0"]));

        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(errors.contains("the keys in subscription.keys: "), "{text}: {errors}");
        assert!(!errors.contains("secret"), "{text}: {errors}");
        assert!(!folder.join("subscription.db").exists(), "{text}");
    }
}

#[test]
fn rotated_keys_are_published_before_they_sign() {
    let folder = folder();
    let keys = |folder: &std::path::Path| {
        let running = Running::start_in(folder, |_| {});
        let answer = running.ask(get("/.well-known/jwks.json"));
        running.signal("TERM");
        running.end();
        answer.matches("\"kid\"").count()
    };

    assert_eq!(keys(&folder), 2);
    said(command_in(&folder).args(["key", "rotate"]));
    assert_eq!(keys(&folder), 3);
}

#[test]
fn the_document_is_printed() {
    let text = said(command_in(&folder()).arg("openapi"));

    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["openapi"].as_str().unwrap().get(..3), Some("3.1"));
}

#[test]
fn tables_are_made_by_a_command_too() {
    let folder = folder();

    let first = said(command_in(&folder).arg("migrate"));
    let again = said(command_in(&folder).arg("migrate"));

    let did = "sqlite://subscription.db was migrated from schema version 0 to 1 in ";
    assert!(first.starts_with(did), "{first}");
    assert_eq!(again, "sqlite://subscription.db is up to date (schema version 1)\n");
    assert!(folder.join("subscription.db").exists());
}

#[test]
fn everything_moves_from_one_file_to_another_and_back_the_same() {
    let (here, there) = (folder(), folder());
    said(command_in(&here).args(["client", "add", "--name", "Shop", "--scope", "plans:read"]));
    let file = |folder: &std::path::Path, name: &str| folder.join(name).display().to_string();

    let told = said(command_in(&here).args(["export", &file(&here, "all.jsonl")]));
    assert!(told.starts_with("wrote 2 records"), "{told}");
    said(command_in(&there).args(["import", "--as-is", &file(&here, "all.jsonl")]));
    said(command_in(&there).args(["export", &file(&there, "again.jsonl")]));

    let text = |name: String| std::fs::read_to_string(name).unwrap();
    assert_eq!(text(file(&here, "all.jsonl")), text(file(&there, "again.jsonl")));
    let access = std::fs::metadata(file(&here, "all.jsonl")).unwrap().permissions().mode();
    assert_eq!(access & 0o777, 0o600);
    for (arguments, told) in [
        (["export".to_owned(), file(&here, "all.jsonl")], "exists already"),
        (["import".to_owned(), file(&here, "all.jsonl")], "empty"),
        (["import".to_owned(), file(&here, "nowhere.jsonl")], "cannot read"),
    ] {
        let (output, errors) = run(command_in(&here).args(&arguments));

        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(errors.contains(told), "{arguments:?}: {errors}");
    }
    let (_, errors) =
        run(command_in(&folder()).args(["import", &file(&here, "subscription.keys")]));
    assert!(errors.contains("export"), "{errors}");
}

/// In a folder that others can write to, the name of an unfinished export could be a file or a link of theirs.
#[test]
fn an_export_writes_into_no_file_that_was_there_before() {
    let folder = folder();
    said(command_in(&folder).arg("migrate"));
    let (prepared, linked) = (folder.join("one.jsonl.part"), folder.join("two.jsonl.part"));
    std::fs::write(&prepared, "mine").unwrap();
    std::fs::set_permissions(&prepared, std::fs::Permissions::from_mode(0o666)).unwrap();
    let victim = folder.join("victim");
    std::fs::write(&victim, "precious").unwrap();
    std::os::unix::fs::symlink(&victim, &linked).unwrap();
    std::os::unix::fs::symlink(&victim, folder.join("three.jsonl")).unwrap();
    std::os::unix::fs::symlink("nowhere", folder.join("four.jsonl")).unwrap();

    for name in ["one.jsonl", "two.jsonl"] {
        said(command_in(&folder).args(["export", name]));

        let written = std::fs::symlink_metadata(folder.join(name)).unwrap();
        assert!(written.is_file(), "{name}");
        assert_eq!(written.permissions().mode() & 0o777, 0o600, "{name}");
    }
    for name in ["three.jsonl", "four.jsonl"] {
        let (output, errors) = run(command_in(&folder).args(["export", name]));
        assert_eq!(output.status.code(), Some(1), "{name}: {errors}");
        assert!(errors.contains("exists"), "{name}: {errors}");
    }

    assert_eq!(std::fs::read_to_string(&prepared).unwrap(), "mine");
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    assert!(!folder.join("nowhere").exists());
    let entries = std::fs::read_dir(&folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut parts: Vec<_> = names.filter(|name| name.contains(".part")).collect();
    parts.sort();
    assert_eq!(parts, ["one.jsonl.part", "two.jsonl.part"]);
}

#[test]
fn every_fault_of_a_file_is_told_with_its_line_and_nothing_is_imported() {
    let (here, there) = (folder(), folder());
    for name in ["Shop", "Till"] {
        said(command_in(&here).args(["client", "add", "--name", name, "--scope", "plans:read"]));
    }
    let good = here.join("good.jsonl");
    said(command_in(&here).arg("export").arg(&good));
    let text = std::fs::read_to_string(&good).unwrap();
    let bad = here.join("bad.jsonl");
    std::fs::write(&bad, text.replace("plans:read", "plans:eat")).unwrap();

    let (output, errors) = run(command_in(&there).arg("import").arg(&bad));

    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("the file has 3 faults, and nothing of it was imported"), "{errors}");
    for line in
        ["\n  line 2: must be one of auth", "\n  line 3: ", "\n  line 6: the file was changed"]
    {
        assert!(errors.contains(line), "{line}: {errors}");
    }
    said(command_in(&there).args(["import", "--users", "any"]).arg(&good));
}

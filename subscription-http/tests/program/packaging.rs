//! Completions, the manual page, the check of a container, and the sample settings.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::running::{Running, command, command_in, folder, get, run};

fn said(command: &mut Command) -> String {
    let (output, errors) = run(command);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn completions_are_printed_for_each_shell() {
    for (shell, begin) in [
        ("bash", "_subscription__http() {"),
        ("zsh", "#compdef subscription-http"),
        ("fish", "# Print an optspec"),
    ] {
        let script = said(command().args(["completions", shell]));

        assert!(script.starts_with(begin), "{shell}: {script:.100}");
        for word in ["migrate", "rotate-key", "listen", "if-missing"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let (output, errors) = run(command().args(["completions", "cmd"]));
    assert_eq!(output.status.code(), Some(2));
    assert!(errors.contains("bash") && errors.contains("fish"), "{errors}");
}

#[test]
fn bash_reads_its_completions_and_completes_commands_of_commands() {
    let folder = folder();
    let script = said(command_in(&folder).args(["completions", "bash"]));
    std::fs::write(folder.join("completions"), script).unwrap();
    let cases = [("mig", "", 1, "migrate"), ("client ad", "client", 2, "add")];
    for (words, previous, number, completed) in cases {
        let last = words.rsplit(' ').next().unwrap();
        let ask = format!(
            "source completions; COMP_WORDS=(subscription-http {words}); COMP_CWORD={number}; \
             _subscription__http subscription-http {last} '{previous}'; echo \"${{COMPREPLY[@]}}\""
        );

        let asked = Command::new("bash").args(["-euc", &ask]).current_dir(&folder).output();

        let asked = asked.unwrap();
        assert_eq!(String::from_utf8_lossy(&asked.stdout).trim(), completed, "{asked:?}");
    }
}

#[test]
fn the_manual_page_has_all_commands_and_settings() {
    let page = said(command().arg("man"));

    assert!(page.contains("\n.TH subscription-http 1"), "{page:.300}");
    let page = page.replace('\\', "");
    for text in ["--listen", "SUBSCRIPTION_LISTEN", "migrate", "webhook", "[limits]", "sign_in"] {
        assert!(page.contains(text), "{text} in {page}");
    }
    assert!(!page.contains("<--listen"), "no setting is required: {page}");
}

/// `subscription-http man | head -1` is no error.
#[test]
fn a_reader_who_leaves_is_no_error() {
    for arguments in [&["man"][..], &["completions", "bash"]] {
        let mut child = command().args(arguments).stdin(Stdio::null()).spawn().unwrap();
        drop(child.stdout.take());

        let output = child.wait_with_output().unwrap();

        assert!(output.status.success(), "{arguments:?}");
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn help_of_a_command_hides_all_general_options_but_two() {
    for arguments in
        [&["client", "add", "--help"][..], &["billing", "resume", "-h"], &["help", "migrate"]]
    {
        let help = said(command().args(arguments));

        assert!(help.contains("--config") && help.contains("--database"), "{help}");
        assert!(!help.contains("--listen") && !help.contains("--identity-issuer"), "{help}");
        let last = help.trim_end().lines().last().unwrap();
        assert_eq!(last, "`subscription-http --help` lists the general options", "{help}");
        assert!(help.lines().count() < 60, "{help}");
    }
    let help = said(command().arg("--help"));
    assert!(help.contains("--listen") && !help.contains("lists the general options"), "{help}");
    // They can still stand after a command.
    said(command().args(["openapi", "--listen", "127.0.0.1:1"]));
}

#[test]
fn health_asks_the_server_at_the_port_of_listen() {
    let folder = folder();
    let running = Running::start_in(&folder, |_| {});
    let port = running.address.port();
    let health = |address: &str| {
        let mut health = command();
        run(health.args(["health", "--listen", &format!("{address}:{port}")]))
    };

    // In a container it listens on all addresses.
    for address in ["127.0.0.1", "localhost", "0.0.0.0", "[::]"] {
        let (output, errors) = health(address);
        assert!(output.status.success(), "{address}: {errors}");
        assert!(output.stdout.is_empty() && errors.is_empty(), "{address}: {errors}");
    }

    let (output, errors) = health("192.0.2.1");
    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("listens on 192.0.2.1"), "{errors}");

    std::fs::remove_file(folder.join("subscription.db")).unwrap();
    // It is checked once a second.
    while running.ask(get("/health/ready")).starts_with("HTTP/1.1 200") {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let (output, errors) = health("0.0.0.0");
    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("503 store_unavailable"), "{errors}");

    running.signal("KILL");
    running.end();
    let (output, errors) = health("0.0.0.0");
    assert_eq!(output.status.code(), Some(1));
    assert!(errors.starts_with(&format!("http://127.0.0.1:{port}/health/ready: ")), "{errors}");
}

#[test]
fn keys_that_are_not_missing_are_left_alone() {
    let folder = folder();
    let rotate = || said(command_in(&folder).args(["key", "rotate", "--if-missing"]));
    let keys = || std::fs::read(folder.join("subscription.keys")).unwrap();

    assert!(rotate().starts_with("wrote subscription.keys"));
    let first = keys();
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "no temporary file is left");
    assert_eq!(rotate(), "");
    assert_eq!(keys(), first);

    // Damaged ones are reported, and not replaced.
    std::fs::File::options()
        .append(true)
        .open(folder.join("subscription.keys"))
        .unwrap()
        .write_all(b"nothing\n")
        .unwrap();
    let (output, errors) = run(command_in(&folder).args(["key", "rotate", "--if-missing"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("the keys in subscription.keys"), "{errors}");
}

/// As they are, and with each setting that is commented out.
#[test]
fn the_sample_settings_can_be_read() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/settings.toml");
    let sample = std::fs::read_to_string(file).unwrap();
    let is_setting = |text: &str| {
        let name = text.split(" = ").next().unwrap();
        text.starts_with('[')
            || (text.contains(" = ") && name.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
    };
    let full = sample.lines().map(|line| match line.strip_prefix("# ") {
        Some(setting) if is_setting(setting) => format!("{setting}\n"),
        _ => format!("{line}\n"),
    });
    let full: String = full.collect();
    assert!(full.contains("\nconsole = ") && full.contains("\n[limits]\n"), "{full}");

    for settings in [sample, full] {
        let folder = folder();
        std::fs::write(folder.join("settings.toml"), settings).unwrap();

        let (output, errors) =
            run(command_in(&folder).args(["--config", "settings.toml", "openapi"]));

        assert!(output.status.success(), "{errors}");
        // A start lacks only what the sample cannot have.
        let (_, errors) = run(command_in(&folder).args(["--config", "settings.toml"]));
        assert!(errors.contains("production mode needs") && errors.contains("keys: "), "{errors}");
        assert!(!errors.contains("identity") && !errors.contains("clients: "), "{errors}");
    }
}

/// The containers of compose.yaml read it as it is.
#[test]
fn the_settings_of_the_composed_containers_can_be_read() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/compose.toml");

    said(command().arg("--config").arg(file).arg("openapi"));
}

//! The README's tour, run word for word against the real binary.

use std::process::Command;

use crate::running::Running;

#[test]
fn the_tour_of_the_readme_works_word_for_word() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let (_, after) = readme.split_once("## A tour").unwrap();
    let (_, block) = after.split_once("```sh\n").unwrap();
    let (tour, _) = block.split_once("```").unwrap();
    let server = Running::start(|_| {});
    let address = format!("http://{}", server.address);

    let script = tour.replace("http://127.0.0.1:8080", &address);
    assert_ne!(script, tour);
    let output = Command::new("bash").args(["-euo", "pipefail", "-c", &script]).output().unwrap();

    let (told, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}\n{errors}");
    for expected in [
        r#""logged_in":true"#,
        r#""price":19.90"#,
        r#""status":"active""#,
        r#""status":"succeeded""#,
        r#""status":"cancelled""#,
        r#""is_active":true"#,
        r#""has_more":false"#,
    ] {
        assert!(told.contains(expected), "{expected} is not in\n{told}");
    }
    let subscriptions = told.lines().filter(|line| line.contains(r#""data":["#));
    assert_eq!(subscriptions.map(|page| page.matches(r#""renews_at""#).count()).sum::<usize>(), 1);
}

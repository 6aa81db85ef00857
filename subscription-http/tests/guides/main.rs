//! What the guides say, done: every block of code in them is run, compiled, or says why not.
//!
//! Shell blocks of a page are one script, run in order in an empty folder with the real program on the
//! path; blocks with a file's name in their first line are that file. What a guide says it is told
//! (`# says: …`) must be told, in that order. Rust is compiled and run by `cargo test --doc`, or is word
//! for word in a file that is.

#![expect(clippy::unwrap_used, reason = "a test that fails panics")]
#![expect(clippy::print_stderr, reason = "a test tells what it could not test")]

#[expect(dead_code, reason = "what is logged and killed there is for others")]
#[path = "../../../tests/databases/postgres/cluster.rs"]
mod cluster;
mod page;
mod pages;
mod script;
mod story;

use libtest_mimic::{Arguments, Trial};

use self::story::{Part, Story};

/// What a reader does in another terminal, or with root's nginx, is done here in one script.
const STORIES: &[Story] = &[
    Story {
        page: "README.md",
        part: Part::AllBut("Production"),
        instead: &[(
            "cargo run -p subscription-http\n",
            "subscription-http --listen 127.0.0.1:8080 &\nuntil_ready 8080\n",
        )],
        told: &[
            r#""logged_in":true"#,
            r#""price":19.90"#,
            r#""status":"active""#,
            r#""status":"succeeded""#,
            r#""status":"cancelled""#,
            r#""is_active":true"#,
            r#""has_more":false"#,
        ],
    },
    Story {
        page: "README.md",
        part: Part::Only("Production"),
        instead: &[("example.com/jwks\n", "example.com/jwks &\nuntil_ready 8080\n")],
        told: &[],
    },
    Story::of("docs/errors.md"),
    Story::of("docs/identity-provider.md"),
    Story::of("docs/move-from-stripe-or-lemon-squeezy.md"),
    Story {
        instead: &[(
            "sudo install -m 644 billing.nginx /etc/nginx/conf.d/billing.conf && sudo nginx -t && \
             sudo nginx -s reload\n",
            "nginx -p nginx -c here.conf -t\nnginx -p nginx -c here.conf &\nuntil_ready 8000\n",
        )],
        ..Story::of("docs/production.md")
    },
    Story::of("docs/users.md"),
];

fn main() {
    let skipped = std::env::var("SUBSCRIPTION_TEST_POSTGRES").is_ok_and(|how| how == "skip");
    let mut trials = pages::trials();
    for story in STORIES {
        let ignored = skipped && story.needs_postgres();
        trials.push(Trial::test(story.name(), || story.run()).with_ignored_flag(ignored));
    }
    let done = libtest_mimic::run(&Arguments::from_args(), trials);
    if skipped {
        eprintln!("PostgreSQL was NOT tested: SUBSCRIPTION_TEST_POSTGRES=skip");
    }
    for what in story::left_out() {
        eprintln!("{what}");
    }
    done.exit();
}

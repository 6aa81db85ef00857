//! The guides, executed: every block of code in them is run, compiled, or says why not.
//!
//! Shell blocks of a page are one script, run in order in an empty folder with the real program on the
//! path; blocks with a file's name in their first line are that file. What a guide says it is told
//! (`# says: …`) must be told, in that order. Rust is compiled and run by `cargo test --doc`, or is word
//! for word in a file that is.

#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod demo;
mod page;
mod pages;
mod programs;
mod script;
mod shared_cache;
mod story;
mod worked_table;

use libtest_mimic::Trial;
use test_support::cluster;
use test_support::needs::{self, Ignored};

use self::story::{Part, Story};

/// Commands that a reader runs in another terminal, or with root's nginx, are run here in one script.
const STORIES: &[Story] = &[
    Story {
        page: "README.md",
        part: Part::AllBut("Production"),
        instead: &[
            // A smaller business, in less time.
            (
                "cargo run -p subscription-http -- --database sqlite://demo.db demo --until",
                "subscription-http --database sqlite://demo.db demo --subscriptions 40 --until",
            ),
            (
                "cargo run -p subscription-http -- --database sqlite://demo.db --clock manual \
                 --clock-at 2025-06-30T00:00:00Z\n",
                "subscription-http --database sqlite://demo.db --clock manual \
                 --clock-at 2025-06-30T00:00:00Z --listen 127.0.0.1:8081 &\nuntil_ready 8081\n",
            ),
            (
                "cargo run -p subscription-http -- --clock manual\n",
                "subscription-http --clock manual --listen 127.0.0.1:8080 &\nuntil_ready 8080\n",
            ),
        ],
        told: &[
            r#""logged_in":true"#,
            r#""price":19.90"#,
            r#""status":"active""#,
            r#""status":"succeeded""#,
            r#"12 "kind":"renewal""#,
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
    Story::of("docs/billing.md"),
    Story::of("docs/collector.md"),
    Story {
        instead: &[(
            "sudo install -m 644 console.nginx /etc/nginx/conf.d/console.conf && sudo nginx -t && \
             sudo nginx -s reload\n",
            "nginx -p nginx -c here.conf -t\nnginx -p nginx -c here.conf &\nuntil_ready 8000\n",
        )],
        ..Story::of("docs/console.md")
    },
    Story::of("docs/discounts.md"),
    Story::of("docs/errors.md"),
    Story::of("docs/failover.md"),
    Story::of("docs/figures.md"),
    Story::of("docs/identity-provider.md"),
    Story::of("docs/javascript.md"),
    Story::of("docs/move-from-stripe-or-lemon-squeezy.md"),
    Story::of("docs/paywall.md"),
    Story::of("docs/plan-changes.md"),
    Story::of("docs/portal.md"),
    Story {
        instead: &[(
            "sudo install -m 644 billing.nginx /etc/nginx/conf.d/billing.conf && sudo nginx -t && \
             sudo nginx -s reload\n",
            "nginx -p nginx -c here.conf -t\nnginx -p nginx -c here.conf &\nuntil_ready 8000\n",
        )],
        ..Story::of("docs/production.md")
    },
    Story::of("docs/users.md"),
    Story::of("docs/webhooks.md"),
];

fn main() {
    let no_binaries = needs::postgres(cluster::missing_binaries());
    let (mut ignored, mut trials) = (Ignored::default(), pages::trials());
    trials.push(Trial::test("the_worked_table_of_plan_changes_is_computed", worked_table::run));
    for story in STORIES {
        let no_server = no_binaries.clone().filter(|_| story.needs_postgres());
        let reason = no_server.or_else(|| programs::missing(&story.programs()));
        let trial = Trial::test(story.name(), || story.run());
        trials.push(ignored.for_reason(reason.as_deref(), trial));
    }
    let reason = programs::missing(&["bash".to_owned(), "curl".to_owned()].into());
    let trial = Trial::test("the_lines_that_demo_prints_can_be_run", demo::run);
    trials.push(ignored.for_reason(reason.as_deref(), trial));
    let reason = programs::missing(&["nginx".to_owned()].into());
    let trial =
        Trial::test("a_shared_cache_gives_nobody_what_is_somebody_elses", shared_cache::run);
    trials.push(ignored.for_reason(reason.as_deref(), trial));
    // Scripts mostly wait.
    let done = libtest_mimic::run(&needs::arguments(3), trials);
    ignored.exit(&done)
}

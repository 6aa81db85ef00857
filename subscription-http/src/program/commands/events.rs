//! The command `events`: prints the feed of a running server as JSON lines.

use std::io::{ErrorKind, Write as _};
use std::time::Duration;

use clap::Args;
use http::Method;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::api_client::{ApiArgs, ApiClient, refusal};
use crate::program::Failure;
use crate::program::signals::Signals;

/// How many seconds a request waits for an event.
const WAIT: u64 = 25;
/// The pause before a failed request is repeated.
const RETRY: Duration = Duration::from_secs(1);

#[derive(Args)]
pub(crate) struct EventsCommand {
    /// Begin after the event with this sequence. [default: begin with the oldest event; with --follow after the newest]
    #[arg(long, value_name = "SEQUENCE")]
    after: Option<u64>,
    /// Only events of a type, such as `subscription.*` or `payment.status_changed.failed`; can be given
    /// several times.
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Only events of the record with this id.
    #[arg(long, value_name = "ID")]
    subject: Option<String>,
    /// Do not end after the last event: print each new event as soon as it is written, until the command is stopped.
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    api: ApiArgs,
}

/// A response of `GET /events`.
#[derive(Deserialize)]
struct Page {
    data: Vec<Box<RawValue>>,
    has_more: bool,
    next_after: u64,
    last: u64,
}

/// The reason why a request returned no page.
enum Refused {
    /// A temporary failure: another attempt may succeed.
    ForNow(String),
    ForEver(Failure),
}

/// Reads the feed of one server.
struct Reader {
    api: ApiClient,
    /// Parameters of every request.
    filter: Vec<(&'static str, String)>,
}

pub(crate) async fn run(command: EventsCommand) -> Result<(), Failure> {
    let mut signals = Signals::new()?;
    tokio::select! {
        done = print_events(command) => done,
        () = signals.recv() => Ok(()),
    }
}

async fn print_events(command: EventsCommand) -> Result<(), Failure> {
    let reader = Reader::new(&command)?;
    let mut after = command.after;
    if command.follow && after.is_none() {
        // This `after` is the highest sequence that the server accepts. So the page has no events, but its `last` is
        // the sequence of the newest event.
        after = Some(reader.page(Some(i64::MAX.unsigned_abs()), 0, true).await?.last);
    }
    loop {
        let wait = if command.follow { WAIT } else { 0 };
        let page = reader.page(after, wait, command.follow).await?;
        if !print_lines(&page.data)? || !(page.has_more || command.follow) {
            return Ok(());
        }
        after = Some(page.next_after);
    }
}

/// Prints each event as a line. Returns false if the reader of standard output has closed it.
fn print_lines(events: &[Box<RawValue>]) -> Result<bool, Failure> {
    let mut output = std::io::stdout().lock();
    let printed = events.iter().try_for_each(|event| writeln!(output, "{event}"));
    match printed.and_then(|()| output.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl Reader {
    fn new(command: &EventsCommand) -> Result<Self, Failure> {
        let types = command.types.iter().map(|one| ("type", one.clone()));
        let subject = command.subject.iter().map(|id| ("subject_id", id.clone()));
        let filter = types.chain(subject).collect();
        Ok(Self { api: ApiClient::new(&command.api, "events-command")?, filter })
    }

    /// Requests a page of events. If `follows` is true, a temporary failure is retried until the request succeeds.
    async fn page(&self, after: Option<u64>, wait: u64, follows: bool) -> Result<Page, Failure> {
        loop {
            match self.request(after, wait).await {
                Ok(page) => return Ok(page),
                Err(Refused::ForNow(reason)) if follows => {
                    tracing::warn!(reason, "the feed cannot be read; trying again");
                    tokio::time::sleep(RETRY).await;
                }
                Err(Refused::ForNow(reason)) => return Err(Failure::new(reason)),
                Err(Refused::ForEver(failure)) => return Err(failure),
            }
        }
    }

    async fn request(&self, after: Option<u64>, wait: u64) -> Result<Page, Refused> {
        let mut url = self.api.url(&["events"]);
        let after = after.map(|after| ("after", after.to_string()));
        url.query_pairs_mut()
            .extend_pairs(&self.filter)
            .append_pair("wait", &wait.to_string())
            .extend_pairs(after);
        let answer = self.api.call(Method::GET, &url, None).await;
        let (status, body) = answer.map_err(|failure| Refused::ForNow(failure.to_string()))?;
        if status == 200 {
            return serde_json::from_slice(&body).map_err(|_| {
                Refused::ForEver(Failure::new("the server at --api has no feed of events"))
            });
        }
        let shown = refusal(status, &body);
        Err(match status {
            408 | 429 | 500.. => Refused::ForNow(shown),
            _ => Refused::ForEver(Failure::new(shown)),
        })
    }
}

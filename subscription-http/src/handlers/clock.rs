//! `/clock`: reads the clock, and moves it forward. A server has these routes only in development mode, with the
//! setting `clock = "manual"`.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use subscription_core::input::{Fields, string};
use subscription_core::{BillingCycle, FaultCode, InputError, InvalidValue, Schedule, Timestamp};

use crate::api::routes::Needs::Nothing;
use crate::api::routes::{ApiPart, Area, get, of_part, post};
use crate::api::waiting::turned_clock::{PaymentReports, TurnedClock};
use crate::api::{ApiError, Call, Refusal, Reply};

pub(crate) static AREA: Area = Area::new(
    "/clock",
    &of_part(
        ApiPart::Clock,
        [get("/clock", Nothing, &show), post("/clock/advance", Nothing, &advance)],
    ),
);

#[derive(Serialize)]
struct Shown {
    now: Timestamp,
}

async fn show(call: Box<Call>) -> Result<Reply, ApiError> {
    Reply::ok(&Shown { now: clock(&call)?.now() })
}

async fn advance(call: Box<Call>) -> Result<Reply, ApiError> {
    let clock = clock(&call)?;
    let (to, payments) = call.input(|json| read(json, clock.now()))?;
    Reply::ok(&clock.advance(to, payments).await?)
}

fn clock(call: &Call) -> Result<&Arc<dyn TurnedClock>, ApiError> {
    call.state.turned_clock.as_ref().ok_or_else(|| Refusal::RouteUnknown.into())
}

/// Reads the body of `POST /clock/advance`: the time to which the clock moves, and how due payments are reported.
fn read(json: &[u8], now: Timestamp) -> Result<(Timestamp, PaymentReports), InputError> {
    let out_of_range = |message| InvalidValue::new(FaultCode::OutOfRange, message);
    let mut fields = Fields::parse(json)?;
    let has = ["to", "by"].map(|name| fields.has(name));
    let to = fields.optional("to", string::<Timestamp>);
    let by = fields.optional("by", string::<Span>);
    let payments = fields.optional("payments", string::<Payments>).unwrap_or_default();
    match has {
        [false, false] => {
            fields.note(
                InvalidValue::new(FaultCode::Required, "is required, unless `by` is sent").at("to"),
            );
        }
        [true, true] => {
            let message = "must not be sent together with the field `to`";
            fields.note(InvalidValue::new(FaultCode::NotAllowedValue, message).at("by"));
        }
        _ => {}
    }
    if to.is_some_and(|to| to < now) {
        fields.note(out_of_range("must not be before the time that the clock shows").at("to"));
    }
    let after = by.map(|by| by.after(now));
    if after == Some(None) {
        fields.note(out_of_range("must not lead beyond the year 9999").at("by"));
    }
    fields.finish(to.or(after.flatten()).map(|to| (to, payments.0)))
}

/// A span of time in ISO 8601, with one unit.
enum Span {
    /// Days, weeks, months or years of the calendar.
    Calendar(BillingCycle),
    Exact(Duration),
}

impl FromStr for Span {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let message = "must be an ISO 8601 duration of one unit, such as P1M, P14D or PT1H";
        let refused = || InvalidValue::new(FaultCode::BadFormat, message);
        if let Some(time) = text.strip_prefix("PT") {
            let unit = [("H", 3_600), ("M", 60), ("S", 1)]
                .into_iter()
                .find_map(|(letter, seconds)| Some((time.strip_suffix(letter)?, seconds)));
            let (digits, seconds) = unit.ok_or_else(refused)?;
            let count = digits.parse().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()));
            let count: u32 = count.filter(|count| *count > 0).ok_or_else(refused)?;
            return Ok(Self::Exact(Duration::from_secs(u64::from(count) * seconds)));
        }
        // A `BillingCycle` can also be parsed from a name, such as `monthly`. A name is not accepted here.
        if !text.starts_with('P') {
            return Err(refused());
        }
        let cycle = text.parse().map(Self::Calendar);
        cycle.map_err(
            |error: InvalidValue| {
                if error.code() == FaultCode::OutOfRange { error } else { refused() }
            },
        )
    }
}

impl Span {
    /// The moment that is this span after `now`. `None` if it is later than the year 9999.
    fn after(&self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Calendar(cycle) => Schedule::new(now, *cycle).start_of(1),
            Self::Exact(span) => {
                let micros = i64::try_from(span.as_micros()).ok()?;
                Timestamp::from_micros(now.micros().checked_add(micros)?).ok()
            }
        }
    }
}

#[derive(Default)]
struct Payments(PaymentReports);

impl FromStr for Payments {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        Ok(Self(match text {
            "leave" => PaymentReports::Leave,
            "succeed" => PaymentReports::Succeed,
            "fail" => PaymentReports::Fail,
            _ => {
                let message = "must be leave, succeed or fail";
                return Err(InvalidValue::new(FaultCode::NotAllowedValue, message));
            }
        }))
    }
}

//! The inputs of the calls that manage endpoints.

use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use url::Url;

use crate::events::TypePattern;
use crate::values::input::{boolean, string, text, whole_number};
use crate::values::text::checked;
use crate::values::{
    Bounded, Fault, FaultCode, Faults, Fields, InputError, InvalidValue, Timestamp,
};
use crate::webhooks::{AddressRules, Endpoint};

/// The maximum number of event types of an endpoint.
const TYPES_MAX: usize = 50;
/// The maximum number of characters of a description.
const DESCRIPTION_MAX: usize = 200;
/// The longest time, in hours, for which the previous secret may sign beside the new secret.
const OVERLAP_HOURS_MAX: u64 = 72;
/// How long the previous secret signs beside the new secret, if the caller does not say.
const OVERLAP_DEFAULT: Duration = Duration::from_hours(24);

/// Parses the sequence number of an event from JSON.
fn sequence(json: &str) -> Result<u64, InvalidValue> {
    whole_number::<{ i64::MAX.unsigned_abs() }>(json).map(Bounded::get)
}

/// The input that creates an endpoint. Its fields are those of [`Endpoint`](crate::webhooks::Endpoint).
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the endpoint")]
pub struct NewEndpoint {
    pub url: Url,
    pub types: Vec<TypePattern>,
    pub description: Box<str>,
    /// The first event that is sent to the endpoint.
    pub from: FirstEvent,
}

/// The first event that is sent to a new endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FirstEvent {
    /// The next event that is written.
    #[default]
    Now,
    /// The oldest event that is still stored.
    Start,
    /// The event after the one with this sequence number.
    After(u64),
}

impl NewEndpoint {
    /// An endpoint for all events of plans, subscriptions and payments that are written from now on.
    pub fn new(url: Url) -> Self {
        Self {
            url,
            types: vec![TypePattern::LEDGER],
            description: Box::default(),
            from: FirstEvent::Now,
        }
    }

    /// Parses a JSON object, and returns all its faults at once.
    pub fn from_json(json: &[u8], addresses: &AddressRules) -> Result<Self, InputError> {
        let mut fields = Fields::parse(json)?;
        let has_url = fields.has("url");
        let EndpointChanges { url, types, description, .. } =
            EndpointChanges::read(&mut fields, addresses);
        if !has_url {
            fields.note(InvalidValue::new(FaultCode::Required, "is required").at("url"));
        }
        let from = fields.optional("from", first_event).unwrap_or_default();
        let new = url.map(Self::new).map(|new| Self {
            types: types.unwrap_or_else(|| new.types.clone()),
            description: description.unwrap_or_default(),
            from,
            ..new
        });
        fields.finish(new)
    }

    pub(crate) fn check(&self, addresses: &AddressRules) -> Result<(), Faults> {
        check(addresses, Some(&self.url), Some(&self.types), Some(&self.description))
    }

    /// A hash of the input, with which a later request under the same idempotency key is compared.
    pub(crate) fn fingerprint(&self) -> [u8; 32] {
        let Self { url, types, description, from } = self;
        let fields = serde_json::to_vec(&(url.as_str(), types, description, from));
        Sha256::digest(fields.unwrap_or_default()).into()
    }
}

/// The input that changes an endpoint. A field that is `None` stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the endpoint")]
pub struct EndpointChanges {
    pub url: Option<Url>,
    pub types: Option<Vec<TypePattern>>,
    pub description: Option<Box<str>>,
    /// True enables the endpoint, false disables it.
    pub enabled: Option<bool>,
}

impl EndpointChanges {
    /// Parses a JSON object, and returns all its faults at once.
    pub fn from_json(json: &[u8], addresses: &AddressRules) -> Result<Self, InputError> {
        let mut fields = Fields::parse(json)?;
        let changes = Self::read(&mut fields, addresses);
        let enabled = fields.optional("enabled", boolean);
        fields.finish(Some(Self { enabled, ..changes }))
    }

    /// Reads the fields that both an `EndpointChanges` and a `NewEndpoint` have.
    fn read(fields: &mut Fields<'_>, addresses: &AddressRules) -> Self {
        let url = fields.optional("url", text).and_then(|text| {
            let read = addresses.read(&text);
            read.map_err(|refused| fields.note(InvalidValue::from(refused).at("url"))).ok()
        });
        let faults = fields.faults();
        let types = fields.list("types", TYPES_MAX).filter(|_| fields.faults() == faults);
        let types: Option<Vec<_>> =
            types.map(|types| types.into_iter().map(|Sent(it)| it).collect());
        let description = fields.optional("description", text).map(String::into_boxed_str);
        if let Err(faults) = check(addresses, None, types.as_deref(), description.as_deref()) {
            faults.iter().for_each(|fault| fields.note(fault.clone()));
        }
        Self { url, types, description, enabled: None }
    }

    pub(crate) fn check(&self, addresses: &AddressRules) -> Result<(), Faults> {
        let types = self.types.as_deref();
        let description = self.description.as_deref();
        check(addresses, self.url.as_ref(), types, description)
    }
}

impl Endpoint {
    /// Checks the fields that a caller sets.
    pub(super) fn check(&self, addresses: Option<&AddressRules>) -> Result<(), Faults> {
        let Some(addresses) = addresses else {
            return check(
                &AddressRules::default(),
                None,
                Some(&self.types),
                Some(&self.description),
            );
        };
        let url = addresses.read(&self.url).map_err(|refused| {
            let mut faults = Faults::default();
            faults.push(InvalidValue::from(refused).at("url"));
            faults
        })?;
        check(addresses, Some(&url), Some(&self.types), Some(&self.description))
    }
}

/// Checks the limits that the Rust types of the fields do not enforce.
fn check(
    addresses: &AddressRules,
    url: Option<&Url>,
    types: Option<&[TypePattern]>,
    description: Option<&str>,
) -> Result<(), Faults> {
    let mut faults = Faults::default();
    if let Some(Err(refused)) = url.map(|url| addresses.check(url)) {
        faults.push(InvalidValue::from(refused).at("url"));
    }
    types.into_iter().flat_map(check_types).for_each(|fault| faults.push(fault));
    if let Some(Err(refused)) = description.map(|text| checked(text, 0, DESCRIPTION_MAX, false)) {
        faults.push(refused.at("description"));
    }
    faults.into_result()
}

fn check_types(types: &[TypePattern]) -> Vec<Fault> {
    if types.is_empty() {
        return vec![
            InvalidValue::new(FaultCode::TooShort, "must have at least one type").at("types"),
        ];
    }
    if types.len() > TYPES_MAX {
        let message = format!("must have at most {TYPES_MAX} elements");
        return vec![InvalidValue::new(FaultCode::TooLong, message).at("types")];
    }
    let refused = types
        .iter()
        .enumerate()
        .filter_map(|(nth, pattern)| Some(check_type(*pattern).err()?.at(format!("types[{nth}]"))));
    refused.collect()
}

fn check_type(pattern: TypePattern) -> Result<TypePattern, InvalidValue> {
    let never = pattern.kind().filter(|kind| matches!(*kind, "session" | "client"));
    never.map_or(Ok(pattern), |kind| {
        let message =
            format!("must not be a type of {kind} events: they are never sent to endpoints");
        Err(InvalidValue::not_allowed(message))
    })
}

/// A pattern of event types that an endpoint can subscribe to.
struct Sent(TypePattern);

impl FromStr for Sent {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        text.parse().and_then(check_type).map(Self)
    }
}

fn first_event(json: &str) -> Result<FirstEvent, InvalidValue> {
    if !json.starts_with('"') {
        return sequence(json).map(FirstEvent::After);
    }
    match text(json)?.as_str() {
        "now" => Ok(FirstEvent::Now),
        "start" => Ok(FirstEvent::Start),
        _ => {
            let message = "must be now, start or the sequence number of an event";
            Err(InvalidValue::not_allowed(message))
        }
    }
}

/// The input that replaces the secret of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// How long the previous secret signs beside the new secret.
    pub overlap: Duration,
}

impl Rotation {
    /// Parses a JSON object or an empty body. The default overlap is 24 hours.
    pub fn from_json(json: &[u8]) -> Result<Self, InputError> {
        let mut fields = Fields::parse(if json.is_empty() { b"{}" } else { json })?;
        let hours = fields.optional("overlap_hours", whole_number::<OVERLAP_HOURS_MAX>);
        let overlap = hours.map_or(OVERLAP_DEFAULT, |hours| Duration::from_hours(hours.get()));
        fields.finish(Some(Self { overlap }))
    }
}

/// The place in the feed from which events are sent to an endpoint again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rewind {
    /// Send the events after the one with this sequence number.
    To(u64),
    /// Send from the first event that happened at this moment or later.
    Since(Timestamp),
}

impl Rewind {
    /// Parses a JSON object that has either `to` or `since`, and returns all its faults at once.
    pub fn from_json(json: &[u8]) -> Result<Self, InputError> {
        let mut fields = Fields::parse(json)?;
        expect_one_of(&mut fields, ["to", "since"]);
        let to = fields.optional("to", sequence);
        let since = fields.optional("since", string);
        fields.finish(to.map(Self::To).or(since.map(Self::Since)))
    }
}

/// The parked events that are sent again. An event is parked (stored, to be sent later) after a failed try, or to wait
/// for an earlier event of the same record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resend {
    /// The parked event with this sequence number.
    One(u64),
    /// All parked events.
    All,
}

impl Resend {
    /// Parses a JSON object that has either a `sequence`, or `all` with the value true. Returns all its faults at
    /// once.
    pub fn from_json(json: &[u8]) -> Result<Self, InputError> {
        let mut fields = Fields::parse(json)?;
        expect_one_of(&mut fields, ["sequence", "all"]);
        let one = fields.optional("sequence", sequence);
        let all = fields.optional("all", boolean);
        if all == Some(false) {
            fields.note(InvalidValue::not_allowed("must be true").at("all"));
        }
        fields.finish(one.map(Self::One).or(all.map(|_| Self::All)))
    }
}

/// Records a fault unless exactly one of two fields is there.
fn expect_one_of(fields: &mut Fields<'_>, [first, second]: [&'static str; 2]) {
    match [first, second].map(|name| fields.has(name)) {
        [false, false] => {
            let message = format!("is required if {second} is not sent");
            fields.note(InvalidValue::new(FaultCode::Required, message).at(first));
        }
        [true, true] => {
            let message = format!("must not be sent together with {first}");
            fields.note(InvalidValue::not_allowed(message).at(second));
        }
        [true, false] | [false, true] => {}
    }
}

//! The responses that a writer received.

use serde_json::{Map, Value};
use subscription_core::store::Operation;

use crate::http::{Answer, Request, text};

/// The kinds of records that are made under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Plan,
    Subscription,
    Payment,
}

impl Kind {
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Plan => "/subscription-plans",
            Self::Subscription => "/subscriptions",
            Self::Payment => "/subscription-payments",
        }
    }

    pub(crate) const fn operation(self) -> Operation {
        match self {
            Self::Plan => Operation::CreatePlan,
            Self::Subscription => Operation::CreateSubscription,
            Self::Payment => Operation::CreatePayment,
        }
    }

    /// The part of the path that names a record.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Plan => "slug",
            Self::Subscription | Self::Payment => "id",
        }
    }
}

/// The request that creates a record, to be sent again unchanged.
#[derive(Debug, Clone)]
pub(crate) struct Creation {
    pub(crate) kind: Kind,
    pub(crate) key: String,
    pub(crate) body: String,
}

impl Creation {
    pub(crate) fn request(&self) -> Request {
        Request::post(self.kind.path(), &self.body).key(&self.key)
    }
}

/// A record as it was last answered.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) creation: Creation,
    /// The answer to its creation.
    pub(crate) first: String,
    pub(crate) body: String,
    pub(crate) deleted: bool,
    /// Others refer to it.
    pub(crate) used: bool,
    /// Changed since it was last looked at.
    pub(crate) touched: bool,
}

impl Record {
    pub(crate) fn new(creation: Creation, answer: &Answer) -> Self {
        let body = answer.body.clone();
        let first = body.clone();
        Self { creation, first, body, deleted: false, used: false, touched: true }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub(crate) fn id(&self) -> String {
        text(&self.json(), "id")
    }

    pub(crate) fn version(&self) -> u64 {
        self.json()["version"].as_u64().unwrap()
    }

    pub(crate) fn path(&self) -> String {
        let kind = self.creation.kind;
        format!("{}/{}", kind.path(), text(&self.json(), kind.name()))
    }

    pub(crate) fn put(&mut self, answer: &Answer) {
        self.body.clone_from(&answer.body);
        self.touched = true;
    }
}

/// True if two bodies of a record say the same. Each of two releases may have fields of its own: then those count that
/// both have.
pub(crate) fn same(one: &str, other: &str, across_releases: bool) -> bool {
    if !across_releases {
        return one == other;
    }
    let fields = |body: &str| serde_json::from_str::<Map<String, Value>>(body).unwrap();
    let one = fields(one);
    let other = fields(other);
    one.iter().all(|(name, value)| other.get(name).is_none_or(|other| other == value))
}

/// A session as it was last answered.
#[derive(Debug, Clone)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) session: String,
    pub(crate) access: String,
    pub(crate) refresh: String,
    pub(crate) state: State,
    /// Subscriptions are the user's.
    pub(crate) used: bool,
    /// Changed since it was last looked at.
    pub(crate) touched: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Live,
    Revoked,
    /// The whole account is.
    Deleted,
}

impl Login {
    pub(crate) fn new(answer: &Answer) -> Self {
        let told = answer.json();
        Self {
            user: text(&told, "auth_id"),
            session: text(&told, "session_id"),
            access: text(&told, "access_token"),
            refresh: text(&told, "refresh_token"),
            state: State::Live,
            used: false,
            touched: true,
        }
    }

    pub(crate) fn refreshed(&mut self, answer: &Answer) {
        let told = answer.json();
        assert_eq!(text(&told, "session_id"), self.session);
        assert_ne!(text(&told, "refresh_token"), self.refresh);
        self.access = text(&told, "access_token");
        self.refresh = text(&told, "refresh_token");
        self.touched = true;
    }

    pub(crate) fn ended(&mut self, state: State) {
        self.state = state;
        self.touched = true;
    }
}

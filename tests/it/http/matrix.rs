//! Every route with every kind of caller, from one table.
//!
//! A new route needs a row in [`ROWS`], and a body in `sample_records.rs` if `{}` is not a good one.

use std::collections::BTreeSet;
use std::time::Duration;

use subscription_core::auth::{ClientKind, Scope};

use self::Needs::{AnyClient, Client, Nothing, Person, PersonEvenExpired};
use super::documented::operations;
use super::sample_records::SampleRecords;
use super::world::{Answer, WEB, text};

/// A route, the callers that it is for, and the status that they get.
pub(crate) type Row = (&'static str, Needs, u16);

/// The callers that a route is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Everybody, without a client.
    Nothing,
    /// A client, with whatever scopes.
    AnyClient,
    /// A client with this scope.
    Client(Scope),
    /// A client with the scope `auth` and a live session. With another person's id in the path it answers
    /// this status and code; a route without an id answers for the person who calls.
    Person(Option<Refusal>),
    /// The same, but the token may have expired and the session may have ended.
    PersonEvenExpired,
}

/// A status and a code of a problem.
type Refusal = (u16, &'static str);

/// Every route of the API.
pub(crate) const ROWS: &[Row] = &[
    ("POST /authentication/sign-in", Client(Scope::Auth), 200),
    ("POST /authentication/sign-up", Client(Scope::Auth), 201),
    ("POST /authentication/user-logged-in", Person(None), 200),
    ("POST /authentication/refresh-token", Client(Scope::Auth), 200),
    (
        "DELETE /authentication/delete-my-account/{auth_id}",
        Person(Some((403, "auth_id_mismatch"))),
        204,
    ),
    ("GET /authentication/tokens", Person(None), 200),
    ("POST /authentication/tokens/logout", PersonEvenExpired, 200),
    ("POST /authentication/tokens/revoke-all", Person(None), 200),
    ("POST /authentication/tokens/revoke-all-except-current", Person(None), 200),
    ("GET /subscription-plans", Client(Scope::PlansRead), 200),
    ("GET /subscription-plans/{slug}", Client(Scope::PlansRead), 200),
    ("POST /subscription-plans", Client(Scope::PlansWrite), 201),
    ("PUT /subscription-plans/{slug}", Client(Scope::PlansWrite), 200),
    ("DELETE /subscription-plans/{slug}", Client(Scope::PlansWrite), 204),
    ("GET /subscriptions", Client(Scope::SubscriptionsRead), 200),
    ("GET /subscriptions/{id}", Client(Scope::SubscriptionsRead), 200),
    ("GET /subscriptions/{id}/payments", Client(Scope::PaymentsRead), 200),
    ("GET /users/{user_id}/payments", Client(Scope::PaymentsRead), 200),
    ("POST /subscriptions", Client(Scope::SubscriptionsWrite), 201),
    ("PUT /subscriptions/{id}", Client(Scope::SubscriptionsWrite), 200),
    ("DELETE /subscriptions/{id}", Client(Scope::SubscriptionsWrite), 204),
    ("GET /subscription-payments/{payment_id}", Client(Scope::PaymentsRead), 200),
    ("POST /subscription-payments", Client(Scope::PaymentsWrite), 201),
    ("PUT /subscription-payments/{payment_id}", Client(Scope::PaymentsWrite), 200),
    ("DELETE /subscription-payments/{payment_id}", Client(Scope::PaymentsWrite), 204),
    ("POST /subscriptions/{id}/cancel", Client(Scope::SubscriptionsWrite), 200),
    ("POST /subscriptions/{id}/resume", Client(Scope::SubscriptionsWrite), 200),
    ("POST /subscriptions/{id}/pause", Client(Scope::SubscriptionsWrite), 200),
    ("POST /subscriptions/{id}/discount", Client(Scope::SubscriptionsWrite), 200),
    ("DELETE /subscriptions/{id}/discount", Client(Scope::SubscriptionsWrite), 204),
    ("POST /subscriptions/{id}/change-plan", Client(Scope::SubscriptionsWrite), 200),
    ("POST /subscriptions/{id}/change-plan/preview", Client(Scope::SubscriptionsRead), 200),
    ("DELETE /subscriptions/{id}/scheduled-change", Client(Scope::SubscriptionsWrite), 204),
    ("GET /subscriptions/{id}/timeline", Client(Scope::SubscriptionsRead), 200),
    ("GET /due-payments", Client(Scope::PaymentsRead), 200),
    ("POST /subscription-payments/{payment_id}/retry", Client(Scope::PaymentsWrite), 200),
    ("GET /users", Client(Scope::UsersRead), 200),
    ("GET /users/{user_id}", Client(Scope::UsersRead), 200),
    ("GET /users/{user_id}/sessions", Client(Scope::UsersRead), 200),
    ("POST /users/{user_id}/revoke-sessions", Client(Scope::UsersWrite), 200),
    ("POST /users/{user_id}/portal-links", Client(Scope::PortalWrite), 201),
    ("GET /users/{user_id}/entitlement", Client(Scope::SubscriptionsRead), 200),
    ("GET /subscription-plans/{slug}/checkout-link", Client(Scope::SubscriptionsRead), 200),
    ("GET /me/entitlement", Person(None), 200),
    ("GET /me/subscriptions", Person(None), 200),
    ("GET /me/payments", Person(None), 200),
    ("GET /me/checkout-link", Person(None), 200),
    ("POST /me/subscriptions/{id}/cancel", Person(Some((404, "not_found"))), 200),
    ("POST /me/subscriptions/{id}/resume", Person(Some((404, "not_found"))), 200),
    // The clock does not manage the subscription of the sample, so the change is refused after the credential.
    ("POST /me/subscriptions/{id}/change-plan", Person(Some((404, "not_found"))), 409),
    ("GET /events", Client(Scope::EventsRead), 200),
    ("POST /provider-webhooks/{source}", Nothing, 200),
    ("GET /providers", Client(Scope::ProvidersRead), 200),
    ("GET /provider-events", Client(Scope::ProvidersRead), 200),
    ("GET /provider-events/{event_id}", Client(Scope::ProvidersRead), 200),
    ("POST /provider-events/{event_id}/replay", Client(Scope::ProvidersWrite), 200),
    ("GET /provider-links", Client(Scope::ProvidersRead), 200),
    ("POST /provider-links", Client(Scope::ProvidersWrite), 201),
    ("POST /provider-syncs", Client(Scope::ProvidersWrite), 202),
    ("POST /webhook-endpoints", Client(Scope::WebhooksWrite), 201),
    ("GET /webhook-endpoints", Client(Scope::WebhooksRead), 200),
    ("GET /webhook-endpoints/{endpoint_id}", Client(Scope::WebhooksRead), 200),
    ("PUT /webhook-endpoints/{endpoint_id}", Client(Scope::WebhooksWrite), 200),
    ("DELETE /webhook-endpoints/{endpoint_id}", Client(Scope::WebhooksWrite), 204),
    ("POST /webhook-endpoints/{endpoint_id}/rotate-secret", Client(Scope::WebhooksWrite), 200),
    ("POST /webhook-endpoints/{endpoint_id}/ping", Client(Scope::WebhooksWrite), 200),
    ("POST /webhook-endpoints/{endpoint_id}/rewind", Client(Scope::WebhooksWrite), 200),
    ("POST /webhook-endpoints/{endpoint_id}/resend", Client(Scope::WebhooksWrite), 202),
    ("GET /webhook-endpoints/{endpoint_id}/parked", Client(Scope::WebhooksRead), 200),
    ("GET /stats/now", Client(Scope::SubscriptionsRead), 200),
    ("GET /stats/months", Client(Scope::PaymentsRead), 200),
    ("GET /stats/forecast", Client(Scope::SubscriptionsRead), 200),
    ("GET /clock", Nothing, 200),
    ("POST /clock/advance", Nothing, 200),
    ("GET /.well-known/jwks.json", Nothing, 200),
    ("GET /health/live", Nothing, 200),
    ("GET /health/ready", Nothing, 200),
    ("GET /metrics", Nothing, 200),
    ("GET /openapi.json", Nothing, 200),
    ("GET /docs", Nothing, 200),
    ("GET /console", Nothing, 308),
    ("GET /console/", Nothing, 200),
    ("GET /console/settings", Nothing, 200),
    ("GET /console/client", AnyClient, 200),
    ("GET /console/{file}", Nothing, 200),
];

/// The routes that make an endpoint send records, or show its secret, also with the body of this test.
const SENDING: [&str; 4] = [
    "POST /webhook-endpoints",
    "POST /webhook-endpoints/{endpoint_id}/rotate-secret",
    "POST /webhook-endpoints/{endpoint_id}/rewind",
    "POST /webhook-endpoints/{endpoint_id}/resend",
];

/// A kind of client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caller {
    /// Sends no `client-id`.
    NoClient,
    Unknown,
    Revoked,
    /// With every scope that a public client may have.
    Public,
    /// Confidential, as are the following ones.
    Only(Scope),
    AllBut(Scope),
    All,
}

impl Caller {
    fn all() -> impl Iterator<Item = Self> {
        let scopes = Scope::ALL.into_iter();
        [Self::NoClient, Self::Unknown, Self::Revoked, Self::Public, Self::All]
            .into_iter()
            .chain(scopes.flat_map(|scope| [Self::Only(scope), Self::AllBut(scope)]))
    }

    fn has(self, scope: Scope) -> bool {
        match self {
            Self::NoClient | Self::Unknown | Self::Revoked => false,
            Self::Public => scope.is_public(),
            Self::Only(one) => scope == one,
            Self::AllBut(one) => scope != one,
            Self::All => true,
        }
    }

    /// The refusal of a caller that the route is not for, before any token is looked at.
    fn refusal(self, needs: Needs) -> Option<Refusal> {
        let scope = match needs {
            Nothing => return None,
            AnyClient => None,
            Client(scope) => Some(scope),
            Person(_) | PersonEvenExpired => Some(Scope::Auth),
        };
        match self {
            Self::NoClient => Some((401, "client_id_missing")),
            Self::Unknown | Self::Revoked => Some((401, "client_unknown")),
            Self::Public | Self::Only(_) | Self::AllBut(_) | Self::All => {
                scope.filter(|scope| !self.has(*scope)).map(|_| (403, "scope_missing"))
            }
        }
    }
}

/// The `client-id` of a caller, made among the sample records.
async fn credential(caller: Caller, samples: &SampleRecords) -> Option<String> {
    let client = |id, may: fn(Caller, Scope) -> bool| {
        samples.world.client(id, ClientKind::Confidential, move |scope| may(caller, scope))
    };
    match caller {
        Caller::NoClient => None,
        Caller::Unknown => Some("nobody".into()),
        Caller::Public => Some(WEB.into()),
        Caller::Revoked => {
            let credential = client("revoked", |_, _| true).await;
            samples.world.auth.auth.revoke_client(&"revoked".parse().unwrap()).await.unwrap();
            Some(credential)
        }
        Caller::Only(_) | Caller::AllBut(_) | Caller::All => {
            Some(client("the-caller", Caller::has).await)
        }
    }
}

fn is_answered(answer: &Answer, expected: Result<u16, Refusal>, what: &str) {
    match expected {
        Ok(status) => assert_eq!(answer.status, status, "{what}: {answer:?}"),
        Err((status, code)) => assert_eq!(answer.problem(), (status, code.into()), "{what}"),
    }
}

#[test]
fn every_route_has_a_row_and_every_row_is_a_route() {
    let routes: BTreeSet<_> =
        operations().map(|(method, path, _)| format!("{method} {path}")).collect();
    let rows: Vec<_> = ROWS.iter().map(|(route, ..)| (*route).to_owned()).collect();

    let unique: BTreeSet<_> = rows.iter().cloned().collect();
    // The document leaves the console out.
    let of_api = unique.iter().filter(|route| !route.starts_with("GET /console")).cloned();
    assert_eq!(of_api.collect::<BTreeSet<_>>(), routes);
    assert_eq!(unique.len(), rows.len(), "a row is there twice");
}

#[tokio::test]
async fn a_client_that_a_route_is_not_for_is_refused_and_reads_and_writes_nothing() {
    let mut refused = 0;
    for caller in Caller::all() {
        let samples = SampleRecords::new().await;
        let credential = credential(caller, &samples).await;
        // Brings the client into the cache.
        samples.call("GET /users", credential.as_deref(), None).await;
        for (route, needs, _) in ROWS {
            let Some(expected) = caller.refusal(*needs) else { continue };
            let bearer = samples.ann.bearer.as_str();

            let answer = samples.call(route, credential.as_deref(), Some(bearer)).await;

            let what = format!("{route} by {caller:?}");
            is_answered(&answer, Err(expected), &what);
            if let (403, Client(scope)) = (expected.0, needs) {
                assert!(text(&answer.json()["detail"]).contains(scope.as_str()), "{what}");
            }
            // The look-up of a client that is not there cannot be cached.
            let (reads, commits) = samples.store.spy.take();
            let most = usize::from(caller == Caller::Unknown);
            assert!(reads <= most && commits == 0, "{what}: {reads} reads, {commits} commits");
            refused += 1;
        }
    }
    assert!(refused > 400, "{refused}");
}

#[tokio::test]
async fn a_client_that_a_route_is_for_gets_its_answer() {
    for caller in Caller::all() {
        // One client that lacks another scope stands for all of them.
        if matches!(caller, Caller::AllBut(scope) if scope != Scope::AssertIp) {
            continue;
        }
        let mut unchanged = None;
        for (route, needs, status) in ROWS {
            let is_of_person = matches!(needs, Person(_) | PersonEvenExpired);
            if is_of_person || caller.refusal(*needs).is_some() {
                continue;
            }
            let (samples, credential) = if let Some(unchanged) = unchanged.take() {
                unchanged
            } else {
                let samples = SampleRecords::new().await;
                let credential = credential(caller, &samples).await;
                (samples, credential)
            };

            let answer = samples.call(route, credential.as_deref(), None).await;

            // Such a route also needs the scopes that read what the endpoint gets.
            let lacks = caller == Caller::Only(Scope::WebhooksWrite) && SENDING.contains(route);
            let expected = if lacks { Err((403, "scope_missing")) } else { Ok(*status) };
            is_answered(&answer, expected, &format!("{route} by {caller:?}"));
            if route.starts_with("GET ") {
                unchanged = Some((samples, credential));
            }
        }
    }
}

/// A kind of access token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Missing,
    Broken,
    Expired,
    Revoked,
    OfAnotherClient,
    OfAnotherUser,
    Own,
}

impl Token {
    const ALL: [Self; 7] = [
        Self::Missing,
        Self::Broken,
        Self::Expired,
        Self::Revoked,
        Self::OfAnotherClient,
        Self::OfAnotherUser,
        Self::Own,
    ];

    fn expected(self, needs: Needs, status: u16) -> Result<u16, Refusal> {
        match (self, needs) {
            (Self::Missing, _) => Err((401, "token_missing")),
            (Self::Broken | Self::OfAnotherClient, _) => Err((401, "token_invalid")),
            (Self::Expired, Person(_)) => Err((401, "token_expired")),
            (Self::Revoked, Person(_)) => Err((401, "session_revoked")),
            (Self::OfAnotherUser, Person(Some(refusal))) => Err(refusal),
            _ => Ok(status),
        }
    }

    /// The header of a token of this kind, for a client with sessions.
    async fn bearer(self, samples: &SampleRecords, credential: &str) -> Option<String> {
        let own = samples.session(credential, "ann").await.unwrap().bearer;
        match self {
            Self::Missing => None,
            Self::Broken => Some(format!("{own}x")),
            Self::Expired => {
                samples.world.auth.clock.advance(Duration::from_mins(11));
                Some(own)
            }
            Self::Revoked => {
                let logout = "POST /authentication/tokens/logout";
                samples.call(logout, Some(credential), Some(&own)).await;
                Some(own)
            }
            Self::OfAnotherClient => {
                let other = samples.world.client("other", ClientKind::Confidential, |_| true).await;
                Some(samples.session(&other, "ann").await.unwrap().bearer)
            }
            Self::OfAnotherUser => Some(samples.session(credential, "ben").await.unwrap().bearer),
            Self::Own => Some(own),
        }
    }
}

#[tokio::test]
async fn every_kind_of_token_gets_the_answer_that_its_route_has_for_it() {
    for caller in [Caller::Public, Caller::Only(Scope::Auth), Caller::All] {
        for token in Token::ALL {
            let mut unchanged = None;
            for (route, needs, status) in ROWS {
                if !matches!(needs, Person(_) | PersonEvenExpired) {
                    continue;
                }
                let (samples, credential, bearer) = if let Some(unchanged) = unchanged.take() {
                    unchanged
                } else {
                    let samples = SampleRecords::new().await;
                    let credential = credential(caller, &samples).await.unwrap();
                    let bearer = token.bearer(&samples, &credential).await;
                    (samples, credential, bearer)
                };
                let expected = token.expected(*needs, *status);

                let answer = samples.call(route, Some(&credential), bearer.as_deref()).await;

                let what = format!("{route} by {caller:?} with a token {token:?}");
                is_answered(&answer, expected, &what);
                if expected.is_err() || route.starts_with("GET ") {
                    unchanged = Some((samples, credential, bearer));
                }
            }
        }
    }
}

/// A portal token opens `/me` and nothing else, with whatever client.
#[tokio::test]
async fn only_what_is_the_persons_own_takes_a_portal_token() {
    for (route, needs, status) in ROWS {
        let samples = SampleRecords::new().await;
        let link = samples.world.portal_link(&samples.ann.id).await;
        let (_, path) = route.split_once(' ').unwrap();

        let alone = samples.call(route, None, Some(&link)).await;
        let with_client = samples.call(route, Some(WEB), Some(&link)).await;

        match needs {
            Person(_) if path.starts_with("/me/") => {
                for answer in [alone, with_client] {
                    is_answered(&answer, Ok(*status), route);
                }
            }
            Person(_) | PersonEvenExpired => {
                is_answered(&alone, Err((401, "client_id_missing")), route);
                is_answered(&with_client, Err((401, "token_invalid")), route);
            }
            Nothing => {}
            AnyClient | Client(_) => {
                is_answered(&alone, Err((401, "client_id_missing")), route);
                // The client is taken for what it is, whatever token comes with it.
                let by_itself = Caller::Public.refusal(*needs).map_or(Ok(*status), Err);
                is_answered(&with_client, by_itself, route);
            }
        }
    }
}

#[tokio::test]
async fn another_persons_id_and_an_unknown_one_get_the_same_bytes_for_the_same_reads() {
    const UNKNOWN: &str = "01940000-0000-7000-8000-000000000000";
    let samples = SampleRecords::new().await;
    let ben = Some(samples.ben.bearer.as_str());
    // The first use of a token is noted in its session.
    samples.call("GET /authentication/tokens", Some(WEB), ben).await;
    let routes = ROWS.iter().filter(|(_, needs, _)| matches!(needs, Person(Some(_))));

    for (route, needs, status) in routes {
        let (_, pattern) = route.split_once(' ').unwrap();
        let foreign = samples.call(route, Some(WEB), ben).await;
        let foreign_calls = samples.store.spy.take();
        let path = samples.path(pattern);
        let own = path.split('/').find(|part| part.len() == UNKNOWN.len()).unwrap();
        let unknown_path = path.replace(own, UNKNOWN);
        let unknown = samples.call_at(route, &unknown_path, Some(WEB), ben).await;

        is_answered(&foreign, Token::OfAnotherUser.expected(*needs, *status), route);
        // A detail may repeat the id that was sent.
        assert_eq!(unknown.text().replace(UNKNOWN, own), foreign.text(), "{route}");
        assert_eq!(unknown.headers, foreign.headers, "{route}");
        assert_eq!(samples.store.spy.take(), foreign_calls, "{route}");
    }
}

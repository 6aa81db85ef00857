//! Decides whether a request may reach its handler: first by its head alone, then by its caller.

pub(crate) mod clients;
pub(crate) mod cors;
pub(crate) mod hosts;
pub(crate) mod rate;
pub(crate) mod request_head;
pub(crate) mod self_service;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use secrecy::SecretString;
use subscription_core::auth::{Client, Scope};
use subscription_core::{Error, Randomness, Unauthenticated};

use self::clients::Clients;
use self::cors::Page;
use super::input::query::Query;
use super::output::request_log::{REQUEST_ID, RequestLog, ResponseFacts};
use super::routes::{self, Found, Needs, Route};
use super::state::State;
use super::{Api, Surface};
use crate::api::{ApiError, Call, Refusal, Reply};

/// The maximum length of a caller's `x-request-id`, in bytes. A longer one is replaced by a new id.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// The outcome of the checks of a request's head.
pub(super) enum Admission {
    /// The request continues to a route.
    Call(&'static Route, Box<Call>, CallerAddress),
    /// The response to an `OPTIONS` request, which reaches no route.
    Answered(Reply),
}

/// The addresses that a request comes from.
#[derive(Clone, Copy)]
pub(super) struct CallerAddress {
    /// The address of the other end of the connection.
    peer: Option<IpAddr>,
    /// The address of the caller. Trusted proxies report it in `x-forwarded-for`.
    caller: Option<IpAddr>,
}

impl Api {
    /// Checks the head of a request and finds its route.
    pub(super) fn admit_head(
        &self,
        head: Parts,
        peer: Option<IpAddr>,
        log: &mut RequestLog,
    ) -> Result<Admission, ApiError> {
        let state = &self.state;
        log.request_id = request_id(&head.headers, state.service.randomness());
        let for_callers = self.surface != Surface::Operations;
        if for_callers {
            log.facts.page = Page::of(&head.method, &head.headers);
        }
        // The client is not known yet, so neither is its right to assert an address (scope `assert-ip`). So at this
        // point only trusted proxies can report an address.
        let caller = request_head::origin(&head.headers, peer, false, |ip| state.trusts(ip));
        log.facts.caller.ip = caller.filter(|_| state.logs_addresses);
        request_head::check(&head.uri, head.version, &head.headers)?;
        let segments = request_head::segments(head.uri.path())?;
        let served = state.served(self.surface);
        let found = routes::find(&head.method, &segments, served);
        // The host name of a request to a loopback route (a route only for callers on this machine) is checked below.
        // The operators' listener checks host names only in development, when the server accepts every client.
        let checks_host =
            if for_callers { !found.is_loopback_only() } else { state.hosts.loopback_only };
        if checks_host && !state.hosts.allow(&head.uri, &head.headers) {
            return Err(Refusal::HostUnknown.into());
        }
        if found.is_loopback_only() {
            log.facts.page = None;
            // A caller on this machine needs no credential. A web page in a browser on this machine must not
            // get this access by DNS rebinding.
            let is_rebound = for_callers && !hosts::are_loopback(&head.uri, &head.headers);
            if is_rebound && caller.is_some_and(|ip| ip.is_loopback()) {
                return Err(Refusal::HostUnknown.into());
            }
        } else if for_callers {
            // Requests that match no route are counted too, so that scans for paths are limited.
            state.limiters.address(caller)?;
        }
        let (route, variable) = match found {
            Found::Route(route, variable) => (route, variable),
            Found::OtherMethods(methods) => {
                return options_or_refuse(&head.method, &methods).map(Admission::Answered);
            }
            Found::Nothing => return Err(Refusal::RouteUnknown.into()),
        };
        log.route = Some(route);
        let call = Call {
            state: Arc::clone(state),
            surface: self.surface,
            service: state.service.clone(),
            pattern: route.pattern,
            variable,
            query: Query::parse(head.uri.query().unwrap_or_default())?,
            headers: head.headers,
            body: Bytes::new(),
            client: None,
            caller: None,
            person: None,
            token: None,
            ip: None,
        };
        Ok(Admission::Call(route, Box::new(call), CallerAddress { peer, caller }))
    }

    /// Checks that the caller has the credential that the route needs, and has not reached a rate limit.
    pub(super) async fn admit_caller(
        &self,
        route: &Route,
        call: &mut Call,
        address: CallerAddress,
        facts: &mut ResponseFacts,
    ) -> Result<(), ApiError> {
        let state = &self.state;
        let scope = match route.needs {
            Needs::Nothing => return Ok(()),
            Needs::Loopback => {
                // The address of the caller is checked, not that of the peer: the peer may be a proxy on this machine,
                // while the caller is elsewhere.
                let is_here = address.caller.is_some_and(|ip| ip.is_loopback())
                    && request_head::is_forwarded_here(&call.headers);
                let is_allowed = is_here || self.surface == Surface::Operations;
                return if is_allowed { Ok(()) } else { Err(Refusal::RouteUnknown.into()) };
            }
            Needs::Signature => {
                state.provider_source(call)?;
                facts.rate = state.limiters.route(route.limit, address.caller)?;
                return Ok(());
            }
            Needs::Client => None,
            Needs::Scope(scope) => Some(scope),
            Needs::Person if let Some(token) = request_head::portal_token(&call.headers) => {
                return self.admit_by_link(call, &token, facts).await;
            }
            Needs::Bearer | Needs::Person | Needs::BearerEvenExpired => Some(Scope::Auth),
        };
        let credential = request_head::client_id(&call.headers)?;
        let client = self.client(&credential, address.caller).await?;
        if let Some(page) = &mut facts.page {
            page.client = Some(Arc::clone(&client));
        }
        if let Clients::Known = state.clients {
            facts.caller.client = Some(Arc::clone(&client));
        }
        scope.map_or(Ok(()), |scope| client.require(scope))?;
        state.limiters.client(&client)?;
        state.requests.fetch_add(1, Ordering::Relaxed);
        let asserts = client.scopes.contains(&Scope::AssertIp);
        call.ip = if asserts {
            request_head::origin(&call.headers, address.peer, true, |ip| state.trusts(ip))
        } else {
            address.caller
        };
        facts.caller.ip = call.ip.filter(|_| state.logs_addresses);
        facts.rate = state.limiters.route(route.limit, call.ip)?;
        if route.takes_token() {
            self.admit_by_token(route, call, &client, facts).await?;
        }
        call.client = Some(client);
        Ok(())
    }

    /// Admits the user of an access token.
    async fn admit_by_token(
        &self,
        route: &Route,
        call: &mut Call,
        client: &Client,
        facts: &mut ResponseFacts,
    ) -> Result<(), ApiError> {
        let State { auth, limiters, .. } = &*self.state;
        let token = request_head::bearer(&call.headers).ok_or(Refusal::TokenMissing)?;
        if route.needs != Needs::BearerEvenExpired {
            let caller = auth.authenticate(&client.id, &token).await?;
            let person = caller.claims.sub;
            call.person = Some(person);
            facts.caller.user = Some(person);
            if route.needs == Needs::Person {
                limiters.person(person)?;
                auth.user(&caller).await?;
            }
            call.caller = Some(caller);
        }
        call.token = Some(token);
        Ok(())
    }

    /// Admits the user of a portal token, who needs no client.
    async fn admit_by_link(
        &self,
        call: &mut Call,
        token: &SecretString,
        facts: &mut ResponseFacts,
    ) -> Result<(), ApiError> {
        let State { auth, limiters, requests, .. } = &*self.state;
        let person = auth.portal_user(token)?;
        facts.caller.user = Some(person.id);
        limiters.person(person.id)?;
        requests.fetch_add(1, Ordering::Relaxed);
        auth.expect_portal_user(person).await?;
        call.person = Some(person.id);
        Ok(())
    }

    /// The client of a credential. An unknown credential counts against the limit of the caller's address. Known clients
    /// are not refused by this limit, or else anybody could shut out all clients behind the same address.
    async fn client(
        &self,
        credential: &SecretString,
        caller: Option<IpAddr>,
    ) -> Result<Arc<Client>, ApiError> {
        let state = &self.state;
        let found = state.clients.find(credential, &state.auth).await;
        if let Err(ApiError::Service(Error::Unauthenticated(Unauthenticated::ClientUnknown))) =
            found
        {
            state.limiters.failed_client(caller)?;
        }
        found
    }
}

/// Handles a request whose method has no route on this path; `methods` are the methods that have one. The response to
/// `OPTIONS` lists the methods of the path. Every other method is refused.
fn options_or_refuse(method: &Method, methods: &[&'static Method]) -> Result<Reply, ApiError> {
    let mut names: Vec<&str> = Vec::new();
    for method in methods {
        names.push(method.as_str());
        if **method == Method::GET {
            names.push("HEAD");
        }
    }
    names.push("OPTIONS");
    let allow = names.join(", ");
    if method != Method::OPTIONS {
        return Err(Refusal::MethodNotAllowed(allow).into());
    }
    let mut reply = Reply::empty(StatusCode::NO_CONTENT);
    reply.set(header::ALLOW, HeaderValue::from_str(&allow).map_err(ApiError::unforeseen)?);
    Ok(reply)
}

/// The caller's `x-request-id` if it is valid, else a new one.
fn request_id(headers: &HeaderMap, ids: &dyn Randomness) -> HeaderValue {
    let is_valid = |value: &&HeaderValue| {
        (1..=REQUEST_ID_BYTES_MAX).contains(&value.len())
            && value.as_bytes().iter().all(u8::is_ascii_graphic)
    };
    headers.get(REQUEST_ID).filter(is_valid).cloned().unwrap_or_else(|| {
        let mut bytes = [0; 16];
        // An id need not be hard to guess. If the source of randomness fails, all requests have the same id.
        ids.fill_id(&mut bytes).ok();
        let id = uuid::Builder::from_random_bytes(bytes).into_uuid();
        let id = HeaderValue::from_str(id.as_hyphenated().encode_lower(&mut [0; 36]));
        id.unwrap_or(HeaderValue::from_static("none"))
    })
}

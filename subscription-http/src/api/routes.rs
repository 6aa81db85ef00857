//! The route table, and the matcher that reads it.
//!
//! Routing, the checks of callers, metrics, logs and the OpenAPI document all read this table. Each area of the API has
//! a file in `handlers/` with its routes; [`AREAS`] is the whole table.

use std::borrow::Cow;
use std::pin::Pin;

use http::Method;
use subscription_core::auth::Scope;

use super::Surface;
use super::admission::rate::RouteLimit;
use super::admission::self_service::SelfService;
use super::call::Call;
use super::error::ApiError;
use super::input::bounds::BODY_BYTES_MAX;
use super::reply::Reply;
use crate::handlers::{
    authentication, billing, clock, documents, entitlement, events, me, operations, payments,
    plans, providers, stats, subscriptions, users, webhooks,
};

/// The route table, by area.
pub(crate) static AREAS: &[&Area] = &[
    &authentication::AREA,
    &plans::AREA,
    &subscriptions::AREA,
    &payments::AREA,
    &billing::AREA,
    &users::AREA,
    &entitlement::AREA,
    &me::AREA,
    &events::AREA,
    &providers::AREA,
    &webhooks::AREA,
    &stats::AREA,
    &clock::AREA,
    &operations::HEALTH,
    &operations::METRICS,
    &documents::AREA,
    #[cfg(feature = "console")]
    &crate::handlers::console::AREA,
];

/// Every route, in the order of the table.
pub(crate) fn all() -> impl Iterator<Item = &'static Route> {
    AREAS.iter().flat_map(|area| area.routes)
}

/// The routes of one area of the API. The flags are valid for all paths that begin with [`Area::path`], even if no
/// route has the path.
pub(crate) struct Area {
    /// The beginning of all paths of the area.
    pub(crate) path: &'static str,
    pub(crate) routes: &'static [Route],
    /// True if the `Host` of a request is not checked (except in development), because health probes call the server by
    /// its IP address.
    pub(crate) any_host: bool,
    /// True if the area is also served on the operators' listener.
    pub(crate) for_operators: bool,
}

impl Area {
    pub(crate) const fn new(path: &'static str, routes: &'static [Route]) -> Self {
        Self { path, routes, any_host: false, for_operators: false }
    }
}

/// The settings that decide which routes are served.
#[derive(Clone, Copy)]
pub(crate) struct Served<'a> {
    /// The changes that people may make to their own subscriptions.
    pub(crate) self_service: &'a [SelfService],
    /// The parts of the API that are served.
    pub(crate) parts: &'a [ApiPart],
    pub(crate) surface: Surface,
}

/// A part of the API that a server may leave out. Then its routes do not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ApiPart {
    /// The service bills the subscriptions with `managed_by` `clock`.
    Billing,
    /// In development, callers can move the clock of the server forward.
    Clock,
    /// The console, a web page for operators.
    Console,
    /// The OpenAPI document and its web page.
    Docs,
    /// Business figures, such as those by month.
    Figures,
    /// Links with which users manage their subscriptions.
    Portal,
    /// Subscriptions are copied from payment providers.
    Providers,
    /// Events are sent to webhook endpoints.
    Webhooks,
}

impl ApiPart {
    /// All parts.
    pub(crate) const ALL: [Self; 8] = [
        Self::Billing,
        Self::Clock,
        Self::Console,
        Self::Docs,
        Self::Figures,
        Self::Portal,
        Self::Providers,
        Self::Webhooks,
    ];

    /// True if the part exists for the console. If the console has a listener of its own, only that listener serves the
    /// part.
    const fn is_for_console(self) -> bool {
        matches!(self, Self::Console | Self::Figures)
    }
}

impl Served<'_> {
    /// The settings with which every route is served.
    pub(crate) const ALL: Self =
        Self { self_service: &SelfService::ALL, parts: &ApiPart::ALL, surface: Surface::Whole };

    /// True if the routes of this part are served.
    pub(crate) fn has(self, part: ApiPart) -> bool {
        let is_shown = self.surface == Surface::Whole || !part.is_for_console();
        is_shown && self.parts.contains(&part)
    }
}

/// True if the `Host` of a request for a path is not checked (except in development).
pub(crate) fn takes_any_host(path: &str) -> bool {
    AREAS.iter().any(|area| area.any_host && path.starts_with(area.path))
}

/// The credential that a route needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// No credential.
    Nothing,
    /// No credential, but the caller must be on the machine of the server.
    Loopback,
    /// The signature of a payment provider over the raw body.
    Signature,
    /// A client, which needs no scope.
    #[cfg_attr(not(feature = "console"), expect(dead_code, reason = "used by the console only"))]
    Client,
    /// A client with this scope.
    Scope(Scope),
    /// A client with [`Scope::Auth`], and the access token of a live session.
    Bearer,
    /// A portal token without a client, or the same as for [`Needs::Bearer`].
    Person,
    /// Like [`Needs::Bearer`], but the token may have expired, and the session may have ended.
    BearerEvenExpired,
}

pub(crate) const fn scope(scope: Scope) -> Needs {
    Needs::Scope(scope)
}

/// The future of a handler.
pub(crate) type Answer = Pin<Box<dyn Future<Output = Result<Reply, ApiError>> + Send>>;

/// The handler of a route: an `async fn` whose argument is the call.
pub(crate) type Handler = &'static dyn Handle;

pub(crate) trait Handle: Sync {
    fn handle(&self, call: Box<Call>) -> Answer;
}

impl<F, A> Handle for F
where
    F: Fn(Box<Call>) -> A + Sync,
    A: Future<Output = Result<Reply, ApiError>> + Send + 'static,
{
    fn handle(&self, call: Box<Call>) -> Answer {
        Box::pin(self(call))
    }
}

/// One route.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    /// A reference, because a `Method` has a destructor, and constant evaluation cannot run a destructor.
    pub(crate) method: &'static Method,
    pub(crate) pattern: &'static str,
    pub(crate) needs: Needs,
    /// True if the handler reads the query. All other routes refuse every query parameter.
    pub(crate) reads_query: bool,
    /// The largest body that the route reads, in bytes; `None` if the route reads no body.
    pub(crate) body_bytes_max: Option<usize>,
    /// True if the body may be left out.
    pub(crate) body_is_optional: bool,
    /// The route is served only if people may make this change themselves; `None` means always.
    pub(crate) self_service: Option<SelfService>,
    /// The route is served only if this part of the API is served; `None` means always.
    pub(crate) part: Option<ApiPart>,
    /// The rate limit of this route, which several routes can share; `None` if the route has no limit of its own.
    pub(crate) limit: Option<RouteLimit>,
    pub(crate) handler: Handler,
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.pattern)
    }
}

impl Route {
    /// The route name in logs and metrics for a request that matches no route.
    pub(crate) const NONE: &'static str = "none";

    const fn new(
        method: &'static Method,
        pattern: &'static str,
        needs: Needs,
        body_bytes_max: Option<usize>,
        handler: Handler,
    ) -> Self {
        Self {
            method,
            pattern,
            needs,
            reads_query: false,
            body_bytes_max,
            body_is_optional: false,
            self_service: None,
            part: None,
            limit: None,
            handler,
        }
    }

    /// True if this route is served with these settings.
    pub(crate) fn is_served(&self, with: Served<'_>) -> bool {
        self.self_service.is_none_or(|needed| with.self_service.contains(&needed))
            && self.part.is_none_or(|needed| with.has(needed))
    }

    /// True if requests to this route carry an access token.
    pub(crate) fn takes_token(&self) -> bool {
        matches!(self.needs, Needs::Bearer | Needs::Person | Needs::BearerEvenExpired)
    }
}

const GET: &Method = &Method::GET;
const POST: &Method = &Method::POST;
const PUT: &Method = &Method::PUT;
const DELETE: &Method = &Method::DELETE;

pub(crate) const fn get(pattern: &'static str, needs: Needs, handler: Handler) -> Route {
    Route::new(GET, pattern, needs, None, handler)
}

/// A `GET` with a query.
pub(crate) const fn list(pattern: &'static str, needs: Needs, handler: Handler) -> Route {
    Route { reads_query: true, ..get(pattern, needs, handler) }
}

/// A `POST` with a JSON body.
pub(crate) const fn post(pattern: &'static str, needs: Needs, handler: Handler) -> Route {
    Route::new(POST, pattern, needs, Some(BODY_BYTES_MAX), handler)
}

/// A `POST` without a body.
pub(crate) const fn post_empty(pattern: &'static str, needs: Needs, handler: Handler) -> Route {
    Route::new(POST, pattern, needs, None, handler)
}

/// A `POST` whose JSON body may be left out.
pub(crate) const fn post_optional(pattern: &'static str, needs: Needs, handler: Handler) -> Route {
    Route { body_is_optional: true, ..post(pattern, needs, handler) }
}

/// A `PUT` with a JSON body.
pub(crate) const fn put(pattern: &'static str, needs: Needs, handler: Handler) -> Route {
    Route::new(PUT, pattern, needs, Some(BODY_BYTES_MAX), handler)
}

pub(crate) const fn delete(pattern: &'static str, needs: Needs, handler: Handler) -> Route {
    Route::new(DELETE, pattern, needs, None, handler)
}

/// Assigns routes to a part of the API. They are served only if this part is served.
pub(crate) const fn of_part<const N: usize>(part: ApiPart, mut routes: [Route; N]) -> [Route; N] {
    let mut rest = routes.as_mut_slice();
    while let [route, others @ ..] = rest {
        route.part = Some(part);
        rest = others;
    }
    routes
}

/// The name and the value of the variable in a pattern; `None` if the pattern has no variable. No pattern has two.
pub(crate) type Variable = Option<(&'static str, String)>;

/// The outcome of a search for a route.
pub(crate) enum Found {
    Route(&'static Route, Variable),
    /// The path exists, but only with these methods.
    OtherMethods(Vec<&'static Method>),
    Nothing,
}

impl Found {
    pub(crate) fn is_loopback_only(&self) -> bool {
        matches!(self, Self::Route(Route { needs: Needs::Loopback, .. }, _))
    }
}

/// Finds the route for a method and the segments of a path.
pub(crate) fn find(method: &Method, segments: &[Cow<'_, str>], with: Served<'_>) -> Found {
    // HEAD returns the same as GET, without the body.
    let wanted = if method == Method::HEAD { &Method::GET } else { method };
    let shown = || {
        let is_shown = |area: &&&Area| with.surface != Surface::Operations || area.for_operators;
        let areas = AREAS.iter().filter(is_shown);
        areas.flat_map(|area| area.routes).filter(|route| route.is_served(with))
    };
    for route in shown().filter(|route| route.method == wanted) {
        if let Some(variable) = matches(route.pattern, segments) {
            return Found::Route(route, variable);
        }
    }
    let others = shown().filter(|route| matches(route.pattern, segments).is_some());
    let mut others: Vec<_> = others.map(|route| route.method).collect();
    // A path can match two patterns, one with fixed words and one with a variable, so a method can occur twice.
    others.dedup();
    if others.is_empty() { Found::Nothing } else { Found::OtherMethods(others) }
}

/// Returns the variable of the pattern if the segments match the pattern; otherwise `None`.
fn matches(pattern: &'static str, segments: &[Cow<'_, str>]) -> Option<Variable> {
    let mut found = None;
    let mut rest = pattern;
    for segment in segments {
        // If the previous segment matched only the beginning of its part of the pattern, `rest` does not begin with `/`
        // here, and the `?` returns `None`.
        rest = rest.strip_prefix('/')?;
        match rest.strip_prefix('{') {
            None => rest = rest.strip_prefix(segment.as_ref())?,
            Some(_) if segment.is_empty() => return None,
            Some(variable) => {
                let (name, after) = variable.split_once('}')?;
                found = Some((name, segment.to_string()));
                rest = after;
            }
        }
    }
    rest.is_empty().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(method: &Method, path: &str) -> Found {
        let segments: Vec<_> = path.split('/').skip(1).map(Cow::from).collect();
        super::find(method, &segments, Served::ALL)
    }

    #[test]
    fn every_route_is_found_by_its_own_pattern_and_no_other() {
        for route in all() {
            let path = route.pattern.replace(['{', '}'], "");

            let Found::Route(found, variable) = find(route.method, &path) else {
                panic!("{route:?} is not found");
            };

            assert_eq!(format!("{found:?}"), format!("{route:?}"));
            assert_eq!(
                usize::from(variable.is_some()),
                route.pattern.matches('{').count(),
                "{route:?}"
            );
        }
    }

    #[test]
    fn every_route_begins_with_the_path_of_its_area() {
        for area in AREAS {
            for route in area.routes {
                assert!(route.pattern.starts_with(area.path), "{route:?}");
            }
        }
    }

    #[test]
    fn other_methods_of_a_known_path_are_told() {
        let Found::OtherMethods(methods) = find(&Method::PATCH, "/subscriptions/x") else {
            panic!();
        };

        assert_eq!(methods, [&Method::GET, &Method::PUT, &Method::DELETE]);
        for path in ["/subscriptions/x/y", "/subscriptions/", "/"] {
            assert!(matches!(find(&Method::GET, path), Found::Nothing), "{path}");
        }
    }
}

//! The route table, and the matcher that reads it.
//!
//! The API is data: what is found, what is not, which methods are allowed, what a log line and a
//! metric call a request all come from this one table, and tests walk it.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;

use http::Method;
use subscription_core::auth::Scope;

use crate::api::call::Call;
use crate::api::error::ApiError;
use crate::api::reply::Reply;
use crate::handlers::{authentication, documents, operations, payments, plans, subscriptions};

/// What a handler gives back.
pub(crate) type Answer = Pin<Box<dyn Future<Output = Result<Reply, ApiError>> + Send>>;

/// What a caller must show to be let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing at all.
    Nothing,
    /// To come from this very machine.
    Loopback,
    /// A client with this scope.
    Scope(Scope),
    /// A client that may authenticate, and the access token of a live session.
    Bearer,
    /// The same, but the token may have expired and the session ended.
    BearerOnce,
}

/// One route.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) pattern: &'static str,
    pub(crate) needs: Needs,
    /// Its handler reads the query; all others take none.
    pub(crate) is_list: bool,
    pub(crate) handler: fn(Box<Call>) -> Answer,
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.pattern)
    }
}

impl Route {
    /// What a log line and a metric call a request that leads to no route.
    pub(crate) const NONE: &'static str = "none";

    /// True if a request brings a JSON body.
    pub(crate) fn takes_body(&self) -> bool {
        (self.method == Method::POST || self.method == Method::PUT) && !self.takes_token()
    }

    /// True if a request brings an access token.
    pub(crate) fn takes_token(&self) -> bool {
        matches!(self.needs, Bearer | BearerOnce)
    }

    /// True for what operators look at.
    pub(crate) fn is_operation(&self) -> bool {
        self.needs == Loopback || self.pattern.starts_with("/health/")
    }
}

const fn get(pattern: &'static str, needs: Needs, handler: fn(Box<Call>) -> Answer) -> Route {
    Route { method: Method::GET, pattern, needs, is_list: false, handler }
}

const fn list(pattern: &'static str, needs: Needs, handler: fn(Box<Call>) -> Answer) -> Route {
    Route { method: Method::GET, pattern, needs, is_list: true, handler }
}

const fn post(pattern: &'static str, needs: Needs, handler: fn(Box<Call>) -> Answer) -> Route {
    Route { method: Method::POST, pattern, needs, is_list: false, handler }
}

const fn put(pattern: &'static str, needs: Needs, handler: fn(Box<Call>) -> Answer) -> Route {
    Route { method: Method::PUT, pattern, needs, is_list: false, handler }
}

const fn delete(pattern: &'static str, needs: Needs, handler: fn(Box<Call>) -> Answer) -> Route {
    Route { method: Method::DELETE, pattern, needs, is_list: false, handler }
}

use Needs::{Bearer, BearerOnce, Loopback, Nothing};
use Scope::{
    Auth, PaymentsRead, PaymentsWrite, PlansRead, PlansWrite, SubscriptionsRead, SubscriptionsWrite,
};

const fn scope(scope: Scope) -> Needs {
    Needs::Scope(scope)
}

/// Every route there is.
pub(crate) static ROUTES: &[Route] = &[
    post("/authentication/sign-in", scope(Auth), |call| Box::pin(authentication::sign_in(call))),
    post("/authentication/sign-up", scope(Auth), |call| Box::pin(authentication::sign_up(call))),
    post("/authentication/user-logged-in", Bearer, |call| {
        Box::pin(authentication::user_logged_in(call))
    }),
    post("/authentication/refresh-token", scope(Auth), |call| {
        Box::pin(authentication::refresh_token(call))
    }),
    delete("/authentication/delete-my-account/{auth_id}", Bearer, |call| {
        Box::pin(authentication::delete_my_account(call))
    }),
    get("/authentication/tokens", Bearer, |call| Box::pin(authentication::tokens(call))),
    post("/authentication/tokens/logout", BearerOnce, |call| {
        Box::pin(authentication::logout(call))
    }),
    post("/authentication/tokens/revoke-all", Bearer, |call| {
        Box::pin(authentication::revoke_all(call))
    }),
    post("/authentication/tokens/revoke-all-except-current", Bearer, |call| {
        Box::pin(authentication::revoke_all_except_current(call))
    }),
    list("/subscription-plans", scope(PlansRead), |call| Box::pin(plans::list(call))),
    get("/subscription-plans/{slug}", scope(PlansRead), |call| Box::pin(plans::show(call))),
    post("/subscription-plans", scope(PlansWrite), |call| Box::pin(plans::create(call))),
    put("/subscription-plans/{slug}", scope(PlansWrite), |call| Box::pin(plans::update(call))),
    delete("/subscription-plans/{slug}", scope(PlansWrite), |call| Box::pin(plans::delete(call))),
    list("/subscriptions", scope(SubscriptionsRead), |call| Box::pin(subscriptions::list(call))),
    get("/subscriptions/{id}", scope(SubscriptionsRead), |call| {
        Box::pin(subscriptions::show(call))
    }),
    post("/subscriptions", scope(SubscriptionsWrite), |call| Box::pin(subscriptions::create(call))),
    put("/subscriptions/{id}", scope(SubscriptionsWrite), |call| {
        Box::pin(subscriptions::update(call))
    }),
    delete("/subscriptions/{id}", scope(SubscriptionsWrite), |call| {
        Box::pin(subscriptions::delete(call))
    }),
    get("/subscription-payments/{payment_id}", scope(PaymentsRead), |call| {
        Box::pin(payments::show(call))
    }),
    post("/subscription-payments", scope(PaymentsWrite), |call| Box::pin(payments::create(call))),
    put("/subscription-payments/{payment_id}", scope(PaymentsWrite), |call| {
        Box::pin(payments::update(call))
    }),
    delete("/subscription-payments/{payment_id}", scope(PaymentsWrite), |call| {
        Box::pin(payments::delete(call))
    }),
    get("/.well-known/jwks.json", Nothing, |call| Box::pin(authentication::public_keys(call))),
    get("/health/live", Nothing, |call| Box::pin(operations::live(call))),
    get("/health/ready", Nothing, |call| Box::pin(operations::ready(call))),
    get("/metrics", Loopback, |call| Box::pin(operations::metrics(call))),
    get("/openapi.json", Nothing, |call| Box::pin(documents::openapi(call))),
    get("/docs", Nothing, |call| Box::pin(documents::docs(call))),
];

/// The variable of a pattern with what stands for it, if it has one; none has two.
pub(crate) type Variable = Option<(&'static str, String)>;

/// Where a path leads.
#[derive(Debug)]
pub(crate) enum Found {
    /// To a route, with what stands for its variable.
    Route(&'static Route, Variable),
    /// To a path that is known, but not with this method.
    OtherMethods(Vec<&'static Method>),
    /// Nowhere.
    Nothing,
}

impl Found {
    /// True if only operators get there.
    pub(crate) fn is_operators(&self) -> bool {
        matches!(self, Self::Route(Route { needs: Loopback, .. }, _))
    }
}

/// Finds the route of a method and the segments of a path among those that are shown.
pub(crate) fn find(
    method: &Method,
    segments: &[Cow<'_, str>],
    is_shown: impl Fn(&Route) -> bool,
) -> Found {
    // What GET answers, HEAD answers without its body.
    let wanted = if method == Method::HEAD { &Method::GET } else { method };
    for route in ROUTES.iter().filter(|route| route.method == *wanted && is_shown(route)) {
        if let Some(variable) = matches(route.pattern, segments) {
            return Found::Route(route, variable);
        }
    }
    let others = ROUTES.iter().filter(|route| is_shown(route));
    let others = others.filter(|route| matches(route.pattern, segments).is_some());
    let others: Vec<_> = others.map(|route| &route.method).collect();
    if others.is_empty() { Found::Nothing } else { Found::OtherMethods(others) }
}

/// What stands for a pattern's variable, if the segments match it.
fn matches(pattern: &'static str, segments: &[Cow<'_, str>]) -> Option<Variable> {
    let mut found = None;
    let mut rest = pattern;
    for segment in segments {
        // Also that the segment before ended here, in the pattern as in the path.
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

    fn segments(path: &str) -> Vec<Cow<'_, str>> {
        path.split('/').skip(1).map(Cow::from).collect()
    }

    #[test]
    fn every_route_is_found_by_its_own_pattern_and_no_other() {
        for route in ROUTES {
            let path = route.pattern.replace(['{', '}'], "");
            let path = segments(&path);

            let Found::Route(found, variable) = find(&route.method, &path, |_| true) else {
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
    fn other_methods_of_a_known_path_are_told() {
        let find = |method: &Method, path: &str| find(method, &segments(path), |_| true);

        let Found::OtherMethods(methods) = find(&Method::PATCH, "/subscriptions/x") else {
            panic!();
        };

        assert_eq!(methods, [&Method::GET, &Method::PUT, &Method::DELETE]);
        for path in ["/subscriptions/x/y", "/subscriptions/", "/"] {
            assert!(matches!(find(&Method::GET, path), Found::Nothing), "{path}");
        }
    }

    /// The routes of the contract.
    fn given() -> impl Iterator<Item = &'static Route> {
        let beside = ["/.well-known", "/health", "/metrics", "/openapi", "/docs"];
        ROUTES.iter().filter(move |r| !beside.iter().any(|b| r.pattern.starts_with(b)))
    }

    #[test]
    fn the_contracts_23_endpoints_are_there() {
        assert_eq!(given().count(), 23);
    }

    fn page(name: &str) -> String {
        std::fs::read_to_string(format!("{}/../{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    }

    #[test]
    fn the_table_of_endpoints_has_every_route_and_what_it_needs() {
        let page = page("docs/endpoints.md");
        let rows = page.lines().filter(|line| line.starts_with("| `"));
        let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
        // Other tables of the page have no paths.
        let endpoints = cells.filter(|cells| cells[1].contains(" /"));
        let mut listed: Vec<_> = endpoints
            .map(|cells| format!("{}: {}", cells[1].trim_matches('`'), cells[2]))
            .collect();

        let needs = |needs| match needs {
            Nothing => "nothing".to_owned(),
            Loopback => "this machine, or `metrics_listen`".to_owned(),
            Needs::Scope(scope) => format!("client `{scope}`"),
            Bearer => "client `auth`, token".to_owned(),
            BearerOnce => "client `auth`, token, also expired".to_owned(),
        };
        let mut routes: Vec<_> =
            ROUTES.iter().map(|route| format!("{route:?}: {}", needs(route.needs))).collect();
        listed.sort();
        routes.sort();
        assert_eq!(listed, routes);
    }

    #[test]
    fn the_readme_lists_the_contracts_endpoints_and_is_short() {
        let readme = page("README.md");
        let (_, section) = readme.split_once("\n## Endpoints\n").unwrap();
        let section = section.split("\n## ").next().unwrap_or_default();
        let rows = section.lines().filter(|line| line.starts_with("| "));
        let mut listed: Vec<_> = rows.flat_map(|row| row.split('`').skip(1).step_by(2)).collect();

        let given: Vec<_> = given().map(|route| format!("{route:?}")).collect();
        let mut given: Vec<_> = given.iter().map(String::as_str).collect();
        listed.sort_unstable();
        given.sort_unstable();
        assert_eq!(listed, given);
        assert!(readme.lines().count() <= 170, "README.md is too long to be read");
    }
}

//! The whole server without a socket: a request in, an answer out.

use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use secrecy::{SecretSlice, SecretString};
use subscription_core::auth::{Authentication, Client, Scope};
use subscription_core::store::Page;
use subscription_core::{Clock, Error, Randomness, SubscriptionService, Unauthenticated};

use crate::body::RequestBody;
use crate::call::Call;
use crate::clients::Clients;
use crate::cors::{Origins, Page as WebPage};
use crate::error::{ApiError, Refusal};
use crate::gate;
use crate::hosts::{self, AllowedHost, Hosts};
use crate::metered::StoreMetrics;
use crate::metrics::Metrics;
use crate::query::{Cursors, Query};
use crate::rate::{Limiters, RateLimits, Standing};
use crate::readiness::Readiness;
use crate::rendered::{Shelves, Shown};
use crate::reply::Reply;
use crate::routes::{self, Found, Needs, Route};
use crate::within::within;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const NOSNIFF: HeaderName = HeaderName::from_static("x-content-type-options");

/// How long a request may take.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// Until its body is there.
    pub body: Duration,
    /// From then on until it is answered, and before that until its caller is known.
    pub handler: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { body: Duration::from_secs(15), handler: Duration::from_secs(30) }
    }
}

/// The service over HTTP, to be mounted wherever requests come from.
#[derive(Debug, Clone)]
pub struct Api(Arc<Shared>, Face);

/// How much of an [`Api`] is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Face {
    Whole,
    /// What operators look at.
    Operations,
}

#[derive(Debug)]
struct Shared {
    service: SubscriptionService,
    auth: Authentication,
    clients: Clients,
    cursor_key: SecretSlice<u8>,
    trusted_proxies: Vec<IpAddr>,
    timeouts: Timeouts,
    limiters: Limiters,
    hosts: Hosts,
    origins: Origins,
    metrics: Metrics,
    readiness: Readiness,
    rendered: Shelves,
}

/// Puts an [`Api`] together.
#[derive(Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct ApiBuilder(Shared);

impl ApiBuilder {
    /// Lets every client in, known or not, with every scope, and pages of this machine with it. For
    /// development only: it answers to names of this machine alone, to the address where its [`Server`]
    /// listens, and to those of [`allowed_hosts`](Self::allowed_hosts).
    ///
    /// [`Server`]: crate::Server
    pub fn believe_every_client(mut self) -> Self {
        self.0.clients = Clients::Anybody;
        self.0.hosts.loopback_only = true;
        self
    }

    /// Answers to these names alone, but for `/health/…`, which is asked by address; without any, to
    /// every name.
    pub fn allowed_hosts(mut self, hosts: Vec<AllowedHost>) -> Self {
        self.0.hosts.listed = hosts;
        self
    }

    /// Believes what these proxies say of where a request comes from, beside those on this machine.
    pub fn trust_proxies(mut self, proxies: Vec<IpAddr>) -> Self {
        self.0.trusted_proxies = proxies.into_iter().map(|ip| ip.to_canonical()).collect();
        self
    }

    /// Uses other time-outs.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.0.timeouts = timeouts;
        self
    }

    /// Limits how often one may ask; without this, one may as often as one likes.
    pub fn rate_limits(mut self, limits: &RateLimits) -> Self {
        self.0.limiters = Limiters::new(limits);
        self
    }

    /// The same, by a clock that can be turned.
    pub fn rate_limits_by(mut self, limits: &RateLimits, clock: impl Clock + 'static) -> Self {
        self.0.limiters = Limiters::by(limits, clock);
        self
    }

    /// Shows at `/metrics` what a [`MeteredStore`](crate::MeteredStore) counts.
    pub fn store_metrics(mut self, metrics: &StoreMetrics) -> Self {
        self.0.metrics = self.0.metrics.with_store(metrics);
        self
    }

    /// Shows at `/metrics` how many lines of the log were lost, as their writer counts them.
    pub fn lost_log_lines(mut self, lost: Arc<AtomicU64>) -> Self {
        self.0.metrics = self.0.metrics.with_lost_log_lines(lost);
        self
    }

    /// Ready for use.
    pub fn build(self) -> Api {
        Api(Arc::new(self.0), Face::Whole)
    }
}

/// A request, as the log and the metrics tell it once it is over.
struct Told {
    api: Api,
    begun: Instant,
    method: Method,
    route: Option<&'static Route>,
    request_id: HeaderValue,
    noted: Noted,
    /// None until it is answered.
    status: Option<StatusCode>,
}

/// Facts learned while a request is handled that its response depends on.
#[derive(Default)]
struct Noted {
    /// Where the caller stands with the limit of the route, if it has one.
    standing: Option<Standing>,
    /// The page that asks, if one does.
    page: Option<Box<WebPage>>,
    /// The page may read the answer.
    is_granted: bool,
    /// HTTP/1: nothing is answered after it, for its body was not read to its end.
    is_last: bool,
}

/// The status of a request whose caller was gone before it was answered, or that a stop cut off.
const UNANSWERED: u16 = 499;

impl Told {
    /// Makes a reply an answer, with the headers that all answers have.
    fn dress(
        mut self,
        reply: Result<Reply, ApiError>,
        is_head: bool,
        is_private: bool,
    ) -> Response<Full<Bytes>> {
        if let Err(ApiError::Request(Refusal::RateLimited(standing))) = &reply {
            self.api.metrics().limited(standing.policy);
        }
        let request_id = self.request_id.to_str().unwrap_or_default();
        let asks_for_token = self.route.is_some_and(Route::takes_token);
        let reply = reply.unwrap_or_else(|error| error.into_reply(request_id, asks_for_token));
        let mut response = reply.into_response();
        let status = response.status();
        let headers = response.headers_mut();
        headers.insert(NOSNIFF, HeaderValue::from_static("nosniff"));
        if is_private {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        for (name, value) in self.noted.standing.iter().flat_map(Standing::headers) {
            // A refusal by a narrower limit has told of that one.
            headers.entry(name).or_insert(value);
        }
        if let Some(page) = &self.noted.page {
            page.dress(self.noted.is_granted, status, headers);
        }
        if self.noted.is_last {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        headers.insert(REQUEST_ID, self.request_id.clone());
        // A 304 would have to tell the length of the answer that it stands for.
        if is_head && response.status() != StatusCode::NOT_MODIFIED {
            let length = hyper::body::Body::size_hint(response.body()).exact().unwrap_or_default();
            response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
            *response.body_mut() = Full::default();
        }
        self.status = Some(response.status());
        response
    }
}

impl Drop for Told {
    /// Tells of those too that are dropped before they are answered, as hyper does when callers go.
    fn drop(&mut self) {
        let took = self.begun.elapsed();
        let status = self.status.map_or(UNANSWERED, |status| status.as_u16());
        self.api.metrics().answered(&self.method, self.route, status, took);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let request_id = self.request_id.to_str().unwrap_or_default();
        let route = self.route.map_or(Route::NONE, |route| route.pattern);
        let method = self.method.as_str();
        if self.status.is_some() {
            tracing::info!(method, route, status, micros, request_id, "answered");
        } else {
            tracing::info!(method, route, status, micros, request_id, "left unanswered");
        }
    }
}

impl Api {
    /// The service and its authentication over HTTP. The key protects the cursors of lists; instances
    /// behind one address share it.
    pub fn builder(
        service: SubscriptionService,
        auth: Authentication,
        cursor_key: SecretSlice<u8>,
    ) -> ApiBuilder {
        ApiBuilder(Shared {
            service,
            auth,
            clients: Clients::Known,
            cursor_key,
            trusted_proxies: Vec::new(),
            timeouts: Timeouts::default(),
            limiters: Limiters::new(&RateLimits::NONE),
            hosts: Hosts::default(),
            origins: Origins::default(),
            metrics: Metrics::new(),
            readiness: Readiness::default(),
            rendered: Shelves::default(),
        })
    }

    /// The same, but for `/health/live`, `/health/ready` and `/metrics` alone, and these for whoever
    /// comes: to be put where only operators get to.
    #[must_use]
    pub fn operations(&self) -> Self {
        Self(Arc::clone(&self.0), Face::Operations)
    }

    /// Notes where it is listened for requests.
    pub(crate) fn listens_at(&self, ip: IpAddr) {
        self.0.hosts.listen(ip);
    }

    fn shows(&self, route: &Route) -> bool {
        self.1 == Face::Whole || route.is_operation()
    }

    pub(crate) fn service(&self) -> &SubscriptionService {
        &self.0.service
    }

    pub(crate) fn auth(&self) -> &Authentication {
        &self.0.auth
    }

    pub(crate) fn limiters(&self) -> &Limiters {
        &self.0.limiters
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    pub(crate) fn readiness(&self) -> &Readiness {
        &self.0.readiness
    }

    /// Answers a request that came from `peer`. It never fails: what goes wrong is an answer too.
    pub fn answer<B>(
        &self,
        request: Request<B>,
        peer: Option<IpAddr>,
    ) -> impl Future<Output = Response<Full<Bytes>>> + Send + use<B>
    where
        B: hyper::body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        // What needs no waiting is done first, so that what waits is small and need not be copied about.
        let (head, body) = request.into_parts();
        let body = RequestBody::new(&head, body);
        let is_head = head.method == Method::HEAD;
        // By its path, not its route: refusals on the way to a route are private too.
        let is_private = head.uri.path().starts_with("/authentication");
        let mut told = Told {
            api: self.clone(),
            begun: Instant::now(),
            method: head.method.clone(),
            route: None,
            request_id: HeaderValue::from_static("none"),
            noted: Noted::default(),
            status: None,
        };
        let entered = catch_unwind(AssertUnwindSafe(|| self.enter(head, peer, &mut told)));
        let entered = entered.unwrap_or_else(|_| Err(ApiError::unforeseen("the gate panicked")));
        async move {
            let mut body = pin!(body);
            let reply = match entered {
                Err(refused) => Err(refused),
                Ok(Entered::Answered(reply)) => Ok(reply),
                Ok(Entered::Called(route, call, asks_from)) => {
                    let from = [peer, asks_from];
                    // A panic is an answer too, and ends nothing else.
                    let (body, noted) = (body.as_mut(), &mut told.noted);
                    AssertUnwindSafe(reply(&told.api, route, call, body, from, noted))
                        .catch_unwind()
                        .await
                        .unwrap_or_else(|_| Err(ApiError::unforeseen("a handler panicked")))
                }
            };
            // Most requests have no body that is left, and are of no page: they should not be as large
            // as what is done for those that are.
            if body.is_in_the_way() {
                Box::pin(body.as_mut().pass_by()).await;
                told.noted.is_last = body.is_in_the_way();
            }
            if let Some(page) = &told.noted.page {
                let granted = AssertUnwindSafe(told.api.grants(page)).catch_unwind();
                told.noted.is_granted = Box::pin(granted).await.unwrap_or(false);
            }
            told.dress(reply, is_head, is_private)
        }
    }

    async fn grants(&self, page: &WebPage) -> bool {
        let Shared { service, auth, clients, origins, .. } = &*self.0;
        origins.grant(page, clients, auth, service.now()).await
    }

    /// Lets a request in as far as its head tells.
    fn enter(
        &self,
        head: Parts,
        peer: Option<IpAddr>,
        told: &mut Told,
    ) -> Result<Entered, ApiError> {
        told.request_id = request_id(&head.headers, self.0.service.ids());
        let is_whole = self.1 == Face::Whole;
        if is_whole {
            told.noted.page = WebPage::of(&head.method, &head.headers);
        }
        gate::check(&head.uri, head.version, &head.headers)?;
        let segments = gate::segments(head.uri.path())?;
        let found = routes::find(&head.method, &segments, |route| self.shows(route));
        // A route for this machine asks for this machine's names below; a listener for operators alone
        // asks for none, unless everybody is believed.
        let hosts = &self.0.hosts;
        let checks_name = if is_whole { !found.is_operators() } else { hosts.loopback_only };
        if checks_name && !hosts.allow(&head.uri, &head.headers) {
            return Err(Refusal::HostUnknown.into());
        }
        // Whom a client asserts to speak for is not known before the client is.
        let asks_from = gate::origin(&head.headers, peer, false, |ip| self.trusts(ip));
        if found.is_operators() {
            told.noted.page = None;
            // A caller on this machine needs no credential, so a web page that rebinds its name must not pass for one.
            let is_lured = is_whole && !hosts::are_loopback(&head.uri, &head.headers);
            if is_lured && asks_from.is_some_and(|ip| ip.is_loopback()) {
                return Err(Refusal::HostUnknown.into());
            }
        } else if is_whole {
            // Those who look for what there is are counted too.
            self.0.limiters.address(asks_from)?;
        }
        let (route, variable) = match found {
            Found::Route(route, variable) => (route, variable),
            Found::OtherMethods(methods) => {
                return options_or_refuse(&head.method, &methods).map(Entered::Answered);
            }
            Found::Nothing => return Err(Refusal::RouteUnknown.into()),
        };
        told.route = Some(route);
        let call = Call {
            api: self.clone(),
            pattern: route.pattern,
            variable,
            query: Query::parse(head.uri.query().unwrap_or_default())?,
            headers: head.headers,
            body: Bytes::new(),
            client: None,
            caller: None,
            token: None,
            ip: None,
        };
        Ok(Entered::Called(route, Box::new(call), asks_from))
    }

    /// Sees to it that the caller has what the route needs.
    async fn admit(
        &self,
        route: &Route,
        call: &mut Call,
        [peer, asks_from]: [Option<IpAddr>; 2],
        noted: &mut Noted,
    ) -> Result<(), ApiError> {
        let scope = match route.needs {
            Needs::Nothing => return Ok(()),
            Needs::Loopback => {
                // A proxy on this machine is here, but those whom it speaks for are not.
                let here =
                    asks_from.is_some_and(|ip| ip.is_loopback()) || self.1 == Face::Operations;
                return if here { Ok(()) } else { Err(Refusal::RouteUnknown.into()) };
            }
            Needs::Scope(scope) => scope,
            Needs::Bearer | Needs::BearerOnce => Scope::Auth,
        };
        let credential = gate::client_id(&call.headers)?;
        let client = self.client(&credential, asks_from).await?;
        if let Some(page) = &mut noted.page {
            page.client = Some(Arc::clone(&client));
        }
        client.require(scope)?;
        self.0.limiters.client(&client)?;
        let asserts = client.scopes.contains(&Scope::AssertIp);
        call.ip = if asserts {
            gate::origin(&call.headers, peer, true, |ip| self.trusts(ip))
        } else {
            asks_from
        };
        noted.standing = self.0.limiters.route(route.pattern, call.ip)?;
        if route.takes_token() {
            let token = gate::bearer(&call.headers).ok_or(Refusal::TokenMissing)?;
            if route.needs == Needs::Bearer {
                call.caller = Some(self.0.auth.authenticate(&client.id, &token).await?);
            }
            call.token = Some(token);
        }
        call.client = Some(client);
        Ok(())
    }

    /// The client of a credential, unless too many that came from there were none.
    async fn client(
        &self,
        credential: &SecretString,
        asks_from: Option<IpAddr>,
    ) -> Result<Arc<Client>, ApiError> {
        // Before anything is looked up: guessing must cost us nothing.
        self.0.limiters.peer(asks_from)?;
        let found = self.0.clients.find(credential, &self.0.auth).await;
        if let Err(ApiError::Service(Error::Unauthenticated(Unauthenticated::ClientUnknown))) =
            found
        {
            self.0.limiters.failed_client(asks_from);
        }
        found
    }

    fn trusts(&self, ip: IpAddr) -> bool {
        ip.is_loopback() || self.0.trusted_proxies.contains(&ip)
    }
}

/// A request that was let in as far as its head tells.
enum Entered {
    /// To a route, and from where.
    Called(&'static Route, Box<Call>, Option<IpAddr>),
    /// It asked for no more than the head of a path.
    Answered(Reply),
}

/// What comes of a request to a route.
async fn reply<B>(
    api: &Api,
    route: &'static Route,
    mut call: Box<Call>,
    body: Pin<&mut RequestBody<B>>,
    from: [Option<IpAddr>; 2],
    noted: &mut Noted,
) -> Result<Reply, ApiError>
where
    B: hyper::body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let timeouts = api.0.timeouts;
    // Who calls is looked up in the store, which may hang as it may in a handler.
    within(timeouts.handler, api.admit(route, &mut call, from, noted))
        .await
        .unwrap_or_else(|| Err(Refusal::Overloaded.into()))?;
    if !route.is_list {
        call.query.expect(&[], &[])?;
    }
    if route.takes_body() {
        // Most requests have none, and should not be as large as the reading of one.
        call.body = Box::pin(body.read(timeouts.body, &call.headers)).await?;
    }
    let answer = within(timeouts.handler, (route.handler)(call)).await;
    answer.unwrap_or_else(|| Err(Refusal::Overloaded.into()))
}

impl Call {
    /// The cursors of the list that is asked for.
    pub(crate) fn cursors(&self) -> Result<Cursors<'_>, ApiError> {
        let client = self.client()?.id.as_str();
        Ok(Cursors { key: &self.api.0.cursor_key, list: self.pattern, client })
    }

    /// A record, or only that it is still the one that the caller has.
    pub(crate) fn record<T: Shown>(&self, record: &Arc<T>) -> Result<Reply, ApiError> {
        let version = record.version();
        if self.has(version)? {
            return Ok(Reply::empty(StatusCode::NOT_MODIFIED).version(version));
        }
        self.whole_record(StatusCode::OK, record)
    }

    /// The JSON of a record.
    pub(crate) fn written<T: Shown>(&self, record: &Arc<T>) -> Result<Bytes, ApiError> {
        T::shelf(&self.api.0.rendered).json(record)
    }

    /// A record, whatever the caller has.
    pub(crate) fn whole_record<T: Shown>(
        &self,
        status: StatusCode,
        record: &Arc<T>,
    ) -> Result<Reply, ApiError> {
        Ok(Reply::written(status, self.written(record)?).version(record.version()))
    }

    /// A page of records.
    pub(crate) fn page<T: Shown>(&self, page: &Page<Arc<T>>) -> Result<Reply, ApiError> {
        let next = page.next.as_ref();
        let next = next.map(|position| self.cursors()?.write(position, &self.query)).transpose()?;
        let body = T::shelf(&self.api.0.rendered).page(&page.items, next)?;
        Ok(Reply::written(StatusCode::OK, body))
    }
}

/// Tells which methods a path takes, if that is the question, or that it does not take this one.
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

/// The caller's id for the request if it is a sound one, else a new one.
fn request_id(headers: &HeaderMap, ids: &dyn Randomness) -> HeaderValue {
    let sound = |value: &&HeaderValue| {
        (1..=128).contains(&value.len()) && value.as_bytes().iter().all(u8::is_ascii_graphic)
    };
    headers.get(REQUEST_ID).filter(sound).cloned().unwrap_or_else(|| {
        let mut bytes = [0; 16];
        // Told apart, not guessed: without randomness they are all alike, and requests go on.
        // In halves, as names are short and secrets are not.
        bytes.chunks_mut(8).try_for_each(|half| ids.fill(half)).ok();
        let id = uuid::Builder::from_random_bytes(bytes).into_uuid();
        let id = HeaderValue::from_str(id.as_hyphenated().encode_lower(&mut [0; 36]));
        id.unwrap_or(HeaderValue::from_static("none"))
    })
}

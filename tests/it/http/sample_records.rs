//! Two people and their records, for calls of every route.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use subscription_core::auth::AuthSettings;
use subscription_core::store::CachedStore;
use subscription_http::Timeouts;
use test_support::spy_store::{CallCounts, SpyStore};

use super::providers::{SUBSCRIPTION, event, signature};
use super::world::{Answer, HttpWorld, Person, WEB, path_of, payment_body, plan_body, text};
use crate::auth::world::AuthWorld;

/// A world with Ann, who has a subscription with a payment, and Ben, who has none.
pub(super) struct SampleRecords {
    pub(super) world: HttpWorld,
    pub(super) store: Arc<SpyStore<CallCounts>>,
    pub(super) ann: Person,
    pub(super) ben: Person,
    subscription: String,
    payment: String,
    /// A subscription of Cat that the clock manages, with a scheduled pause, and its payment, which failed.
    on_clock: String,
    failed: String,
    /// A subscription of Eve that the clock manages, with no scheduled change.
    unscheduled: String,
    plan: String,
    /// An event of a payment provider.
    event: String,
    /// An endpoint that events are sent to.
    endpoint: String,
}

impl SampleRecords {
    pub(super) async fn new() -> Self {
        let store = SpyStore::new(CallCounts::default());
        let cached = Arc::new(CachedStore::new(Arc::clone(&store), Duration::from_hours(1)));
        let auth = AuthWorld::over(cached, AuthSettings::default());
        let world = HttpWorld::with(auth, Timeouts::default()).await;
        let payment = world.payment("ann", &json!({})).await;
        let (ann, ben) = (world.sign_in("ann").await, world.sign_up("ben").await);
        let plan = text(&world.plan("pro").await["id"]);
        let subscription = text(&payment["subscription_id"]);
        let on_clock = world.on_clock("cat", &json!({})).await;
        world.server("POST", &format!("{}/pause", path_of(&on_clock)), &[], "").await;
        let failed = text(&world.report(&on_clock, "failed").await["id"]);
        let (on_clock, payment) = (text(&on_clock["id"]), text(&payment["id"]));
        let unscheduled = text(&world.on_clock("eve", &json!({})).await["id"]);
        world.webhook(&event("evt_1", SUBSCRIPTION)).await;
        let events = world.server("GET", "/provider-events", &[], "").await.json();
        let event = text(&events["data"][0]["id"]);
        let endpoint = text(&world.endpoint().await["id"]);
        Self {
            world,
            store,
            ann,
            ben,
            subscription,
            payment,
            on_clock,
            failed,
            unscheduled,
            plan,
            event,
            endpoint,
        }
    }

    /// The path of a pattern, with the ids of Ann's records, or of Cat's or Eve's where the clock must manage them,
    /// and the parameters that it must have.
    pub(super) fn path(&self, pattern: &str) -> String {
        let by_clock = ["/timeline", "/scheduled-change", "/retry"];
        let (subscription, payment) = if pattern.starts_with("/me/") {
            (&self.subscription, &self.payment)
        } else if pattern.contains("/change-plan") || pattern.ends_with("/discount") {
            (&self.unscheduled, &self.payment)
        } else if by_clock.iter().any(|end| pattern.ends_with(end)) {
            (&self.on_clock, &self.failed)
        } else {
            (&self.subscription, &self.payment)
        };
        let ids = [
            ("{auth_id}", &self.ann.id),
            ("{user_id}", &self.ann.id),
            ("{id}", subscription),
            ("{payment_id}", payment),
            ("{event_id}", &self.event),
            ("{endpoint_id}", &self.endpoint),
        ];
        let path = ids.iter().fold(pattern.to_owned(), |path, (name, id)| path.replace(name, id));
        path.replace("{slug}", "pro").replace("{source}", "stripe").replace("{file}", "index.html")
            + &self.query(pattern)
    }

    /// The query that a route cannot do without.
    fn query(&self, pattern: &str) -> String {
        match pattern {
            "/me/checkout-link" => "?plan=pro".into(),
            "/subscription-plans/{slug}/checkout-link" => format!("?user_id={}", self.ann.id),
            _ => String::new(),
        }
    }

    /// A body that a route takes.
    async fn body(&self, route: &str, credential: Option<&str>) -> String {
        let subscription = json!({ "id": self.subscription });
        match route {
            "POST /authentication/sign-in" => self.world.proof("ann", |_| {}),
            "POST /authentication/sign-up" => self.world.proof("dan", |_| {}),
            "POST /authentication/refresh-token" => {
                let own = self.session(credential.unwrap_or(WEB), "ann").await;
                let token = own.map_or_else(|| self.ann.refresh_token.clone(), |t| t.refresh_token);
                json!({ "refresh_token": token }).to_string()
            }
            "POST /subscription-plans" => plan_body("new").to_string(),
            "POST /subscriptions" => {
                json!({ "user_id": self.ann.id, "subscription_plan_id": self.plan }).to_string()
            }
            "POST /subscriptions/{id}/discount" => {
                json!({ "percent": 50, "periods": 3 }).to_string()
            }
            "DELETE /subscriptions/{id}/discount" => {
                // It may have one already.
                let path = format!("/subscriptions/{}/discount", self.unscheduled);
                self.world.server("POST", &path, &[], r#"{"percent":50,"periods":3}"#).await;
                String::new()
            }
            "POST /me/subscriptions/{id}/change-plan" => {
                json!({ "subscription_plan_id": self.plan }).to_string()
            }
            "POST /subscriptions/{id}/change-plan"
            | "POST /subscriptions/{id}/change-plan/preview" => {
                json!({ "quantity": 2, "effective": "period_end" }).to_string()
            }
            "POST /subscription-payments" => payment_body(&subscription).to_string(),
            "POST /provider-webhooks/{source}" => event("evt_2", SUBSCRIPTION),
            "POST /provider-links" => {
                json!({ "source": "stripe", "customer": "cus_9", "user_id": self.ann.id })
                    .to_string()
            }
            "POST /provider-syncs" => json!({ "source": "stripe" }).to_string(),
            "POST /webhook-endpoints" => json!({ "url": "https://a.example" }).to_string(),
            "POST /webhook-endpoints/{endpoint_id}/rewind" => json!({ "to": 0 }).to_string(),
            "POST /webhook-endpoints/{endpoint_id}/resend" => json!({ "all": true }).to_string(),
            "POST /clock/advance" => json!({ "by": "PT1S" }).to_string(),
            _ => "{}".into(),
        }
    }

    /// A new session of somebody with a client; `None` if the client may not open one.
    pub(super) async fn session(&self, credential: &str, name: &str) -> Option<Person> {
        let (headers, body) = ([("client-id", credential)], self.world.proof(name, |_| {}));
        let made = self.world.call("POST", "/authentication/sign-in", &headers, body).await;
        (made.status == 200).then(|| Person::from(&made.json()))
    }

    pub(super) async fn call(
        &self,
        route: &str,
        credential: Option<&str>,
        bearer: Option<&str>,
    ) -> Answer {
        let (_, pattern) = route.split_once(' ').unwrap();
        self.call_at(route, &self.path(pattern), credential, bearer).await
    }

    pub(super) async fn call_at(
        &self,
        route: &str,
        path: &str,
        credential: Option<&str>,
        bearer: Option<&str>,
    ) -> Answer {
        let (method, _) = route.split_once(' ').unwrap();
        let body = if method == "GET" { String::new() } else { self.body(route, credential).await };
        let client = credential.map(|credential| ("client-id", credential));
        let token = bearer.map(|bearer| ("authorization", bearer));
        let signed = route.contains("webhooks").then(|| signature(&body));
        let signed = signed.as_deref().map(|signature| ("stripe-signature", signature));
        let sent = client.into_iter().chain(token).chain(signed);
        let headers: Vec<_> = sent.chain([("x-request-id", "same")]).collect();
        // Counts this call alone: the body may have taken others.
        self.store.spy.take();
        self.world.call(method, path, &headers, body).await
    }
}

//! The service with all that production has, and a client that may do everything.

use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::json;
use subscription_core::auth::{
    Authentication, ClientKind, DevelopmentIdentities, KeyRing, NewClient, Origin, Scope,
    ServerKeys, SignIn, SigningKey,
};
use subscription_core::billing::{Billing, Policy};
use subscription_core::figures::Figures;
use subscription_core::store::TimedStore;
use subscription_core::store::{CacheInvalidator, CachedStore};
use subscription_core::{
    MemoryStore, NewPlan, NewSubscription, PlanId, Store, SubscriptionService, UserId,
};
use subscription_http::{Api, Quota, RateLimits, StoreMetrics};

/// The service, and what its callers need.
pub(crate) struct ApiWorld {
    pub(crate) api: Api,
    /// The value of `client-id`.
    pub(crate) client: SecretString,
    /// The access token of a signed-in user.
    pub(crate) token: SecretString,
    pub(crate) user: UserId,
    pub(crate) plan: PlanId,
}

impl ApiWorld {
    /// A service over memory with one plan and `subscriptions` subscriptions, of which the signed-in user has one. With
    /// `is_cached`, it has the cache that is used in front of a database.
    pub(crate) async fn with(subscriptions: usize, is_cached: bool) -> Self {
        Self::over(MemoryStore::default(), subscriptions, is_cached).await
    }

    /// The same service over another store.
    pub(crate) async fn over(
        store: impl Store + 'static,
        subscriptions: usize,
        is_cached: bool,
    ) -> Self {
        let metrics = StoreMetrics::default();
        let timed = TimedStore::new(store, metrics.clone());
        let (store, metrics): (Arc<dyn Store>, _) = if is_cached {
            let cached = CachedStore::new(timed, CacheInvalidator::LAG);
            let metrics = metrics.cached(cached.cache());
            (Arc::new(cached), metrics)
        } else {
            (Arc::new(timed), metrics)
        };
        let service = SubscriptionService::builder(store).check_users().build();
        let keys = KeyRing::new(SigningKey::ed25519(&vec![1; 32].into()).unwrap());
        let server_keys = ServerKeys::new(1, vec![2; 32].into()).unwrap();
        let verifier = Arc::new(DevelopmentIdentities);
        let auth = Authentication::builder(service.clone(), verifier, keys, server_keys).build();
        let new = NewClient {
            id: "shop".parse().unwrap(),
            name: "Shop".parse().unwrap(),
            kind: ClientKind::Confidential,
            scopes: Scope::ALL.into(),
            origins: [].into(),
        };
        let made = auth.create_client(new).await.unwrap();
        let body = br#"{"name":"Pro","slug":"pro","price":19.90,"billing_cycle":"monthly"}"#;
        let plan = NewPlan::from_json(body).unwrap();
        let plan = service.create_plan(plan).await.unwrap();
        let sign_up = async |email: &str| {
            let (client_id, origin) = (made.client.id.clone(), Origin::default());
            let (access_token, email) = ("any".into(), email.parse().unwrap());
            auth.sign_up(SignIn { client_id, access_token, email, origin }).await.unwrap()
        };
        let signed_in = sign_up("ada@example.com").await;
        let (user, other) = (signed_in.user.id, sign_up("grace@example.com").await.user.id);
        for nth in 0..subscriptions {
            let user = if nth == 0 { user } else { other };
            service.create_subscription(NewSubscription::new(user, plan.id)).await.unwrap();
        }
        // Limits that count and never refuse.
        let much = Quota::new(u32::MAX, Duration::from_secs(1));
        let limits = RateLimits::NONE.with_client(much).with_address(much);
        let api = Api::builder(service.clone(), auth, vec![3; 32].into())
            .billing(Billing::new(service.clone(), Policy::default()))
            .figures(Figures::new(service))
            .rate_limits(&limits)
            .store_metrics(&metrics)
            .build();
        let (client, token) = (made.credential, signed_in.access_token);
        Self { api, client, token, user, plan: plan.id }
    }

    /// The body of a request that creates a subscription.
    pub(crate) fn new_subscription(&self) -> String {
        json!({ "user_id": self.user, "subscription_plan_id": self.plan }).to_string()
    }
}

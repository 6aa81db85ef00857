//! The cost of authentication: sign-in, access tokens, refresh.
//!
//! Run with `cargo bench --bench auth`; about half a minute. Sessions are in memory, tokens are signed with Ed25519,
//! the default, and with HS256. No public function only signs a token. A repeated refresh comes nearest: it reads the
//! session once, and computes two MACs and one signature.

#![expect(clippy::unwrap_used, reason = "a bench that fails panics")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion};
use secrecy::SecretString;
use subscription_core::auth::{
    DevelopmentIdentities, KeyRing, Origin, ServerKeys, SignIn, SignedIn, SigningKey,
};
use subscription_core::{Authentication, MemoryStore, Slug, SubscriptionService};
use tokio::runtime::{Builder, Runtime};

/// A signed-in user, and the authentication that issued the tokens.
struct Ada {
    runtime: Runtime,
    auth: Authentication,
    client: Slug,
    signed_in: SignedIn,
}

impl Ada {
    fn new(key: SigningKey) -> Self {
        let runtime = Builder::new_current_thread().build().unwrap();
        let service = SubscriptionService::new(MemoryStore::default());
        let server_keys = ServerKeys::new(1, vec![2; 32].into()).unwrap();
        let verifier = Arc::new(DevelopmentIdentities);
        let auth =
            Authentication::builder(service, verifier, KeyRing::new(key), server_keys).build();
        let client: Slug = "shop".parse().unwrap();
        let sign_up = auth.sign_up(SignIn {
            client_id: client.clone(),
            access_token: "any".into(),
            email: "ada@example.com".parse().unwrap(),
            origin: Origin::default(),
        });
        let signed_in = runtime.block_on(sign_up).unwrap();
        Self { runtime, auth, client, signed_in }
    }

    fn refresh(&self, token: &SecretString) -> SignedIn {
        self.runtime.block_on(self.auth.refresh(&self.client, token)).unwrap()
    }

    /// The time of `times` authentications in one call of the runtime, because entering the runtime takes as long as
    /// several.
    fn authenticate(&self, token: &SecretString, times: u64) -> Duration {
        self.runtime.block_on(async {
            let begun = Instant::now();
            for _ in 0..times {
                let caller = self.auth.authenticate(&self.client, black_box(token));
                black_box(caller.await.unwrap());
            }
            begun.elapsed()
        })
    }
}

fn of(c: &mut Criterion, name: &str, key: SigningKey) {
    let ada = Ada::new(key);
    let mut group = c.benchmark_group(name);
    let unchanged = &ada.signed_in.access_token;
    ada.authenticate(unchanged, 1);
    group.bench_function("authenticate, an unchanged token", |b| {
        b.iter_custom(|times| ada.authenticate(unchanged, times));
    });
    // The first refresh token is replaced. If it is used again within the window, the same replacement is returned.
    let replaced = &ada.signed_in.refresh_token;
    let mut current = ada.refresh(replaced);
    let again = || ada.refresh(replaced).access_token;
    group.bench_function("authenticate, a token's first use", |b| {
        b.iter_batched(again, |token| ada.authenticate(&token, 1), BatchSize::SmallInput);
    });
    group.bench_function("refresh, repeated within the window", |b| b.iter(again));
    group.bench_function("refresh", |b| {
        b.iter(|| current = ada.refresh(&current.refresh_token));
    });
    group.finish();
}

fn main() {
    // `cargo test --benches` and `cargo bench --no-run` only check that it builds.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    of(&mut criterion, "Ed25519", SigningKey::ed25519(&vec![1; 32].into()).unwrap());
    of(&mut criterion, "HS256", SigningKey::hs256(&vec![1; 32].into()).unwrap());
    criterion.final_summary();
}

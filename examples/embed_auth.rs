//! A host service that signs its users in: sign-up, checks of requests, refresh, revocation.
//!
//!     cargo run --example embed_auth
//!
//! The host's own login signs a short-lived token with a secret that it shares with this service (HS256). The service
//! makes a session of it, with an access token of ten minutes and a refresh token that changes with each use.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::{EncodingKey, Header, encode};
use secrecy::{SecretSlice, SecretString};
use subscription_core::auth::{
    KeyRing, Origin, ServerKeys, SharedSecretIdentities, SignIn, SigningKey, Trust,
};
use subscription_core::{
    Authentication, ManualClock, MemoryStore, Randomness as _, Slug, SubscriptionService,
    SystemRandomness,
};

/// 32 bytes that nobody else has; a real host keeps them in its vault.
fn new_secret() -> Result<SecretSlice<u8>, Box<dyn std::error::Error>> {
    let mut bytes = vec![0; 32];
    SystemRandomness.fill(&mut bytes)?;
    Ok(bytes.into())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = ManualClock::at("2025-01-31T09:00:00Z".parse()?);
    let store = Arc::new(MemoryStore::default());
    let service = SubscriptionService::builder(store).clock(clock.clone()).check_users().build();

    let shared = b"what the host's login and we both know";
    let trust = Trust { issuer: "https://login.host".into(), audience: "billing".into() };
    let identities = SharedSecretIdentities::new(trust, &shared.to_vec().into())?;
    let keys = KeyRing::new(SigningKey::ed25519(&new_secret()?)?);
    let server_keys = ServerKeys::new(1, new_secret()?)?;
    let auth = Authentication::builder(service, Arc::new(identities), keys, server_keys).build();

    // The host's login vouches for Ada.
    let now = 1_738_314_000;
    let claims = serde_json::json!({
        "iss": "https://login.host", "aud": "billing", "sub": "user-4711", "iat": now,
        "exp": now + 60, "email": "ada@example.com", "email_verified": true,
    });
    let access_token =
        encode(&Header::default(), &claims, &EncodingKey::from_secret(shared))?.into();
    let (web, email): (Slug, _) = ("web".parse()?, "ada@example.com".parse()?);
    let origin = Origin { ip: Some("192.0.2.7".parse()?), user_agent: None };
    let ada = auth.sign_up(SignIn { client_id: web.clone(), access_token, email, origin }).await?;
    println!("signed up {} with session {}", ada.user.id, ada.session.id);

    // Every later request of Ada's is checked like this. The session is read each time, so a revocation takes effect at once.
    let caller = auth.authenticate(&web, &ada.access_token).await?;
    println!("her token is good until {}", caller.claims.exp);

    clock.advance(Duration::from_mins(11));
    let expired = auth.authenticate(&web, &ada.access_token).await;
    println!("11 minutes later: {}", expired.map_or_else(|e| e.code(), |_| "still good"));

    let fresh = auth.refresh(&web, &ada.refresh_token).await?;
    let caller = auth.authenticate(&web, &fresh.access_token).await?;
    println!("refreshed: generation {}", fresh.session.generation);

    println!("ended {} session(s)", auth.revoke_all(&caller).await?);
    let tokens: [(&str, &SecretString); 2] =
        [("access", &fresh.access_token), ("refresh", &fresh.refresh_token)];
    for (kind, token) in tokens {
        let answer = match kind {
            "access" => auth.authenticate(&web, token).await.map(drop),
            _ => auth.refresh(&web, token).await.map(drop),
        };
        println!("her {kind} token now: {}", answer.map_or_else(|e| e.code(), |()| "good"));
    }
    Ok(())
}

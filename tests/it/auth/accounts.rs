//! Accounts: signing up, signing in, leaving.

use std::time::Duration;
use subscription_core::accounts::Session;
use subscription_core::accounts::User;
use subscription_core::store::{SessionQuery, StoreExt as _};

use secrecy::ExposeSecret as _;
use serde_json::json;
use subscription_core::auth::{RevocationReason, SignIn, SignedIn};
use subscription_core::{
    BillingCycle, Error, ErrorKind, NewPayment, NewPlan, NewSubscription, SubscriptionStatus,
    Timestamp,
};
use test_support::service_world::{of, wrong};

use super::world::{AuthWorld, web};

#[tokio::test]
async fn an_account_is_made_once_and_signed_into_again() {
    let world = AuthWorld::new();

    let nobody = world.auth.sign_in(world.person("ada")).await;
    let first = world.sign_up("ada").await;
    let again = world.auth.sign_up(world.person("ada")).await;
    let second = world.sign_in("ada").await;

    assert_eq!(wrong(nobody), (ErrorKind::NotFound, "account_not_found"));
    assert_eq!(wrong(again), (ErrorKind::Conflict, "account_exists"));
    assert_eq!(first.user.id, second.user.id);
    assert_ne!(first.session.id, second.session.id);
    assert_eq!(first.expires_in, Duration::from_mins(10));
    assert_eq!(first.refresh_expires_in, Duration::from_hours(14 * 24));
    let caller = world.check(&second).await.unwrap();
    assert_eq!(caller.claims.sub, first.user.id);
    assert_eq!(world.auth.user(&caller).await.unwrap().email.as_str(), "ada@example.com");
}

#[tokio::test]
async fn an_address_belongs_to_one_account_whatever_its_case() {
    let world = AuthWorld::new();
    world.sign_up("ada").await;
    let token = world.identity_token("eve", |claims| claims["email"] = json!("ADA@Example.com"));

    let eve = SignIn { access_token: token, email: of("ADA@Example.com"), ..world.person("eve") };
    let refused = world.auth.sign_up(eve).await;

    assert_eq!(wrong(refused), (ErrorKind::Conflict, "email_in_use"));
}

#[tokio::test]
async fn an_account_is_found_by_identity_and_never_by_address() {
    let world = AuthWorld::new();
    world.sign_up("ada").await;
    let token = world.identity_token("eve", |claims| claims["email"] = json!("ada@example.com"));

    let eve = SignIn { access_token: token, email: of("ada@example.com"), ..world.person("eve") };
    let refused = world.auth.sign_in(eve).await;

    assert_eq!(wrong(refused).1, "account_not_found");
}

#[tokio::test]
async fn the_address_must_be_the_identitys_and_verified() {
    let world = AuthWorld::new();
    for existing in [false, true] {
        if existing {
            world.sign_up("ada").await;
        }
        for (email, verified, expected) in [
            ("ada@example.com", json!(false), Some("email_not_verified")),
            ("ada@example.com", json!(null), Some("email_not_verified")),
            ("ada@example.com", json!("false"), Some("email_not_verified")),
            ("eve@example.com", json!(true), Some("email_mismatch")),
            ("eve@example.com", json!(false), Some("email_mismatch")),
            ("Ada@Example.com", json!(true), None),
            ("ada@example.com", json!("true"), None),
        ] {
            let access_token =
                world.identity_token("ada", |claims| claims["email_verified"] = verified.clone());
            let person = SignIn { access_token, email: of(email), ..world.person("ada") };

            let result = world.auth.sign_in(person).await;

            let expected = match (expected, existing) {
                (Some(code), _) => (ErrorKind::Forbidden, code),
                (None, false) => (ErrorKind::NotFound, "account_not_found"),
                (None, true) => {
                    assert!(result.is_ok(), "{email} {verified}");
                    continue;
                }
            };
            assert_eq!(wrong(result), expected, "{email} {verified}");
        }
    }
    let without = world.identity_token("ada", |claims| claims["email"] = json!(null));
    let person = SignIn { access_token: without, ..world.person("ada") };
    assert_eq!(wrong(world.auth.sign_in(person).await).1, "email_mismatch");
}

/// Signs in as somebody to whom the provider has given another address.
async fn sign_in_as(world: &AuthWorld, name: &str, email: &str) -> Result<SignedIn, Error> {
    let access_token = world.identity_token(name, |claims| claims["email"] = json!(email));
    world.auth.sign_in(SignIn { access_token, email: of(email), ..world.person(name) }).await
}

#[tokio::test]
async fn an_account_follows_the_address_that_the_provider_has_verified() {
    let world = AuthWorld::new();
    let ada = world.sign_up("ada").await;

    let moved = sign_in_as(&world, "ada", "lovelace@example.com").await.unwrap();

    assert_eq!(moved.user.email.as_str(), "lovelace@example.com");
    let stored = world.store.get_as::<User>(&ada.user.id).await.unwrap().unwrap();
    assert_eq!(stored, moved.user);
    let new = world.identity_token("eve", |claims| claims["email"] = json!("lovelace@example.com"));
    let eve =
        SignIn { access_token: new, email: of("lovelace@example.com"), ..world.person("eve") };
    assert_eq!(wrong(world.auth.sign_up(eve).await).1, "email_in_use");
    let old = world.identity_token("eve", |claims| claims["email"] = json!("ada@example.com"));
    let eve = SignIn { access_token: old, email: of("ada@example.com"), ..world.person("eve") };
    assert!(world.auth.sign_up(eve).await.is_ok(), "the old address is free");
}

#[tokio::test]
async fn an_address_that_another_account_has_is_refused_and_opens_no_session() {
    let world = AuthWorld::new();
    let ada = world.sign_up("ada").await;
    world.sign_up("eve").await;

    let refused = sign_in_as(&world, "ada", "EVE@example.com").await;

    assert_eq!(wrong(refused), (ErrorKind::Conflict, "email_in_use"));
    let stored = world.store.get_as::<User>(&ada.user.id).await.unwrap().unwrap();
    assert_eq!(stored.email.as_str(), "ada@example.com");
    assert_eq!(
        world
            .store
            .list_as::<Session>(SessionQuery::LiveOf { user: ada.user.id, now: Timestamp::MIN })
            .await
            .unwrap()
            .items
            .len(),
        1
    );
}

#[tokio::test]
async fn another_spelling_of_the_address_changes_nothing() {
    let world = AuthWorld::new();
    world.sign_up("ada").await;

    let again = sign_in_as(&world, "ada", "ADA@Example.com").await.unwrap();

    assert_eq!(again.user.email.as_str(), "ada@example.com");
}

/// Some spellings of a domain are equal for this service, and name another domain or none for a mail program.
#[tokio::test]
async fn the_address_of_an_account_is_spelled_as_the_provider_does_with_its_domain_in_ascii() {
    let cases = [
        ("Eve@gmail.com", format!("eve@gmail{}.com", "\u{E0100}".repeat(60)), "Eve@gmail.com"),
        ("eve@gmail.com", "EVE@ｇｍａｉｌ.com".to_owned(), "eve@gmail.com"),
        ("eve@gmail.com", "eve@g\u{ad}mail.com".to_owned(), "eve@gmail.com"),
        ("Eve@Straße.Example", "eve@straße.example".to_owned(), "Eve@xn--strae-oqa.example"),
        ("eve@βόλος.com", "eve@xn--nxasmm1c.com".to_owned(), "eve@xn--nxasmm1c.com"),
    ];
    for (of_provider, of_caller, expected) in cases {
        let world = AuthWorld::new();
        let token = || world.identity_token("eve", |claims| claims["email"] = json!(of_provider));
        let eve = || SignIn { access_token: token(), email: of(&of_caller), ..world.person("eve") };

        let new = world.auth.sign_up(eve()).await.unwrap();
        assert_eq!(new.user.email.as_str(), expected, "{of_caller}");
        let again = world.auth.sign_in(eve()).await.unwrap();
        assert_eq!(again.user.email.as_str(), expected, "{of_caller}");
        world.sign_in("eve").await;
        let back = world.auth.sign_in(eve()).await.unwrap();
        assert_eq!(back.user.email.as_str(), expected, "{of_caller}");
    }
}

#[tokio::test]
async fn a_deleted_account_leaves_nothing_of_the_person() {
    let world = AuthWorld::new();
    let (first, second) = (world.sign_up("ada").await, world.sign_in("ada").await);
    let user = first.user.id;
    let plan = NewPlan::new(of("Pro"), of("pro"), of("5"), BillingCycle::MONTHLY);
    let plan = world.service.create_plan(plan).await.unwrap();
    let new = NewSubscription::new(user, plan.id);
    let subscription = world.service.create_subscription(new).await.unwrap();
    let new = NewPayment::new(subscription.id, of("5"), of("EUR"));
    let payment = world.service.create_payment(new).await.unwrap();
    let caller = world.check(&first).await.unwrap();

    world.auth.delete_account(&caller, &user.to_string()).await.unwrap();

    assert_eq!(wrong(world.check(&second).await).1, "session_revoked");
    assert_eq!(wrong(world.refresh(&second).await).1, "refresh_token_invalid");
    assert_eq!(wrong(world.auth.sign_in(world.person("ada")).await).1, "account_not_found");
    assert_eq!(world.store.get_as::<User>(&user).await.unwrap(), None);
    assert_eq!(
        world
            .store
            .list_as::<Session>(SessionQuery::LiveOf { user, now: Timestamp::MIN })
            .await
            .unwrap()
            .items,
        []
    );
    let expired = world.service.subscription(subscription.id).await.unwrap();
    assert_eq!((expired.status, expired.user_id), (SubscriptionStatus::Expired, user));
    assert_eq!(world.service.payment(payment.id).await.unwrap(), payment);
    assert!(!world.service.entitlement(user).await.unwrap().has_access());

    let heir = world.sign_up("ada").await;
    assert_ne!(heir.user.id, user);
}

#[tokio::test]
async fn nobody_deletes_the_account_of_another() {
    let world = AuthWorld::new();
    let (ada, eve) = (world.sign_up("ada").await, world.sign_up("eve").await);
    let caller = world.check(&eve).await.unwrap();

    let existing = world.auth.delete_account(&caller, &ada.user.id.to_string()).await;
    let unknown = world.auth.delete_account(&caller, "01933b6e-7a5c-7cc0-8f3e-2d9c5b1a4e77").await;
    let garbage = world.auth.delete_account(&caller, "'; drop table users").await;

    let refusals = [existing, unknown, garbage].map(|result| {
        let error = result.unwrap_err();
        (error.kind(), error.code(), error.to_string())
    });
    assert_eq!(refusals[0].1, "auth_id_mismatch");
    assert_eq!(refusals[0], refusals[1]);
    assert_eq!(refusals[0], refusals[2]);
    assert!(world.check(&ada).await.is_ok());
}

#[tokio::test]
async fn one_identity_token_opens_five_sessions_and_the_oldest_goes() {
    let world = AuthWorld::new();
    let person = world.person("ada");
    let mut sessions = vec![world.auth.sign_up(person.clone()).await.unwrap()];
    for _ in 0..5 {
        world.clock.advance(Duration::from_secs(1));
        sessions.push(world.auth.sign_in(person.clone()).await.unwrap());
    }

    let mut live = Vec::new();
    for session in &sessions {
        live.push(world.check(session).await.is_ok());
    }

    assert_eq!(live, [false, true, true, true, true, true]);
    let ended = world.store.get_as::<Session>(&sessions[0].session.id).await.unwrap().unwrap();
    assert_eq!(ended.revoked.unwrap().reason, RevocationReason::SessionLimit);
}

#[tokio::test]
async fn the_session_cap_is_per_client() {
    let world = AuthWorld::new();
    let first = world.sign_up("ada").await;
    for _ in 0..19 {
        world.clock.advance(Duration::from_secs(1));
        world.sign_in("ada").await;
    }
    let mobile = SignIn { client_id: of("mobile"), ..world.person("ada") };
    world.auth.sign_in(mobile).await.unwrap();

    assert!(world.check(&first).await.is_ok());
    world.clock.advance(Duration::from_secs(1));
    world.sign_in("ada").await;
    assert_eq!(wrong(world.check(&first).await).1, "session_revoked");
}

#[tokio::test]
async fn tokens_are_bound_to_their_client() {
    let world = AuthWorld::new();
    let session = world.sign_up("ada").await;
    let other = of("mobile");

    let access = world.auth.authenticate(&other, &session.access_token).await;
    let refresh = world.auth.refresh(&other, &session.refresh_token).await;
    let logout = world.auth.logout(&other, &session.access_token).await;
    let garbage = world.auth.refresh(&web(), &"srt_garbage".into()).await;

    assert_eq!(wrong(access).1, "token_invalid");
    assert_eq!(wrong(logout).1, "token_invalid");
    assert_eq!(refresh.unwrap_err().to_string(), garbage.unwrap_err().to_string());
    assert!(world.check(&session).await.is_ok());
    assert!(session.refresh_token.expose_secret().starts_with("srt_"));
}

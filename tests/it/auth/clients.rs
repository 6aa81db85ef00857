//! Clients: what each may do, and how it is known.

use std::sync::Arc;
use subscription_core::store::StoreExt as _;

use secrecy::{ExposeSecret as _, SecretString};
use subscription_core::auth::{
    Authentication, Client, ClientKey, ClientKind, ClientSource, DevelopmentIdentities, KeyRing,
    NewClient, Scope, ServerKeys, SigningKey,
};
use subscription_core::store::{ChangeSet, Record};
use subscription_core::{Error, ErrorKind};
use test_support::service_world::{faults, of, wrong};

use super::world::{AuthWorld, SERVER_KEY, SIGNING_SEED, secret};

fn client(id: &str, kind: ClientKind, scopes: &[Scope]) -> NewClient {
    let scopes = scopes.iter().copied().collect();
    NewClient { id: of(id), name: of("A client"), kind, scopes, origins: [].into() }
}

/// A confidential client and its key.
async fn server(world: &AuthWorld, id: &str) -> SecretString {
    let new = client(id, ClientKind::Confidential, &Scope::ALL);
    world.auth.create_client(new).await.unwrap().credential
}

/// True if the key is good for the client of this id.
async fn opens(auth: &Authentication, id: &str, credential: &SecretString) -> bool {
    match auth.authenticate_client(credential).await {
        Ok(client) => client.id.as_str() == id,
        Err(error) => {
            assert_eq!(error.code(), "client_unknown");
            false
        }
    }
}

/// The same store behind other server keys.
fn with_server_keys(world: &AuthWorld, keys: ServerKeys) -> Authentication {
    let ring = KeyRing::new(SigningKey::ed25519(&secret(&SIGNING_SEED)).unwrap());
    let verifier = Arc::new(DevelopmentIdentities);
    Authentication::builder(world.service.clone(), verifier, ring, keys).build()
}

#[tokio::test]
async fn a_public_client_calls_with_its_id_and_may_do_little() {
    let world = AuthWorld::new();
    let scopes = [Scope::Auth, Scope::PlansRead];
    let made = world.auth.create_client(client("web", ClientKind::Public, &scopes)).await.unwrap();

    assert_eq!(made.credential.expose_secret(), "web");
    assert_eq!(made.client.keys, []);
    let found = world.auth.authenticate_client(&"web".into()).await.unwrap();
    assert_eq!(found, made.client);
    for scope in Scope::ALL {
        let allowed = found.require(scope);
        if scopes.contains(&scope) {
            assert!(allowed.is_ok(), "{scope}");
        } else {
            assert_eq!(wrong(allowed), (ErrorKind::Forbidden, "scope_missing"), "{scope}");
        }
    }
    let no_key = world.auth.rotate_client_key(&of("web")).await;
    assert_eq!(wrong(no_key).0, ErrorKind::Conflict);
}

#[tokio::test]
async fn a_public_client_is_told_of_every_scope_that_it_cannot_have() {
    let world = AuthWorld::new();

    let refused = world.auth.create_client(client("web", ClientKind::Public, &Scope::ALL)).await;

    let Err(Error::Invalid(found)) = &refused else { panic!("{refused:?}") };
    let text = found.iter().map(|fault| fault.message.to_string()).collect::<Vec<_>>().join("\n");
    for scope in Scope::ALL {
        assert_eq!(text.contains(scope.as_str()), !scope.is_public(), "{scope} in {text}");
    }
    assert_eq!(faults(refused), ["scopes not_allowed_value"; 14]);
    assert_eq!(world.auth.clients().await.unwrap(), []);
    for scope in Scope::ALL.into_iter().filter(|scope| !scope.is_public()) {
        let refused = world.auth.create_client(client("web", ClientKind::Public, &[scope])).await;
        assert_eq!(faults(refused), ["scopes not_allowed_value"], "{scope}");
    }
}

#[tokio::test]
async fn a_key_is_shown_once_and_kept_as_a_hash() {
    let world = AuthWorld::new();
    let key = server(&world, "billing").await;
    let text = key.expose_secret();
    let random = text.strip_prefix("sck_billing_").unwrap();

    assert_eq!(random.len(), 43);
    assert!(opens(&world.auth, "billing", &key).await);
    let kept = world.store.get_as::<Client>(&of("billing")).await.unwrap().unwrap();
    let decoded = {
        use base64::Engine as _;
        base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(random).unwrap()
    };
    assert_eq!(kept.keys.len(), 1);
    assert_ne!(kept.keys[0].hash.as_slice(), decoded);
    let events = world.service.events(0, subscription_core::store::PageLimit::MAX).await.unwrap();
    let shown = format!("{kept:?} {events:?} {:?} {:?}", world.auth, key);
    assert!(!shown.contains(random) && !shown.contains(&format!("{decoded:?}")), "{shown}");
    assert!(!shown.contains(&format!("{:?}", kept.keys[0].hash)), "{shown}");
}

#[tokio::test]
async fn a_second_client_of_one_id_does_not_take_its_place() {
    let world = AuthWorld::new();
    let key = server(&world, "billing").await;

    let again = client("billing", ClientKind::Public, &[Scope::Auth]);
    let refused = world.auth.create_client(again).await;

    assert_eq!(wrong(refused).0, ErrorKind::Conflict);
    assert!(opens(&world.auth, "billing", &key).await);
    assert!(!opens(&world.auth, "billing", &"billing".into()).await);
}

#[tokio::test]
async fn two_keys_live_while_they_are_rotated() {
    let world = AuthWorld::new();
    let first = server(&world, "billing").await;
    let second = world.auth.rotate_client_key(&of("billing")).await.unwrap().credential;
    assert!(opens(&world.auth, "billing", &first).await);
    assert!(opens(&world.auth, "billing", &second).await);

    let third = world.auth.rotate_client_key(&of("billing")).await.unwrap();

    assert!(!opens(&world.auth, "billing", &first).await);
    assert!(opens(&world.auth, "billing", &second).await);
    assert!(opens(&world.auth, "billing", &third.credential).await);
    assert_eq!(third.client.keys.len(), 2);
}

#[tokio::test]
async fn a_revoked_client_stays_out() {
    let world = AuthWorld::new();
    let key = server(&world, "billing").await;
    let public = client("web", ClientKind::Public, &[Scope::Auth]);
    world.auth.create_client(public).await.unwrap();

    for id in ["billing", "web"] {
        let revoked = world.auth.revoke_client(&of(id)).await.unwrap();
        assert_eq!(revoked.keys, []);
        assert_eq!(world.auth.revoke_client(&of(id)).await.unwrap(), revoked);
    }

    assert!(!opens(&world.auth, "billing", &key).await);
    assert!(!opens(&world.auth, "web", &"web".into()).await);
    let another_key = world.auth.rotate_client_key(&of("billing")).await;
    assert_eq!(wrong(another_key), (ErrorKind::Conflict, "client_revoked"));
}

#[tokio::test]
async fn a_revocation_is_lifted_by_nobody_but_who_asks_for_it() {
    let world = AuthWorld::new();
    let key = server(&world, "billing").await;
    let web = client("web", ClientKind::Public, &[Scope::Auth]);
    world.auth.configure_client(web.clone()).await.unwrap();
    for id in ["billing", "web"] {
        world.auth.revoke_client(&of(id)).await.unwrap();
    }

    let configured = world.auth.configure_client(web).await.unwrap();

    assert!(configured.revoked_at.is_some());
    assert!(!opens(&world.auth, "web", &"web".into()).await);
    world.auth.restore_client(&of("web")).await.unwrap();
    assert!(opens(&world.auth, "web", &"web".into()).await);
    let restored = world.auth.restore_client(&of("billing")).await.unwrap();
    assert_eq!((restored.revoked_at, restored.keys.len()), (None, 0));
    assert!(!opens(&world.auth, "billing", &key).await, "its keys are gone for good");
    let new = world.auth.rotate_client_key(&of("billing")).await.unwrap();
    assert!(opens(&world.auth, "billing", &new.credential).await);
    assert_eq!(world.auth.restore_client(&of("billing")).await.unwrap(), new.client);
}

#[tokio::test]
async fn a_client_is_refused_from_when_its_file_names_it_no_longer_until_it_does_again() {
    let world = AuthWorld::new();
    let of_file = |id: &str| client(id, ClientKind::Public, &[Scope::Auth]);
    for id in ["app", "web"] {
        world.auth.configure_client(of_file(id)).await.unwrap();
    }
    world.auth.create_client(of_file("by-hand")).await.unwrap();
    let key = server(&world, "billing").await;

    let refused = world.auth.refuse_unconfigured(&[of("app")]).await.unwrap();

    assert_eq!(refused.iter().map(|client| client.id.as_str()).collect::<Vec<_>>(), ["web"]);
    assert!(refused[0].left_at.is_some());
    for (id, credential, is_good) in [
        ("web", "web".into(), false),
        ("app", "app".into(), true),
        ("by-hand", "by-hand".into(), true),
        ("billing", key, true),
    ] {
        assert_eq!(opens(&world.auth, id, &credential).await, is_good, "{id}");
    }
    let again = world.auth.refuse_unconfigured(&[of("app")]).await.unwrap();
    assert_eq!(again, [], "it is gone already");

    world.auth.configure_client(of_file("web")).await.unwrap();
    assert!(opens(&world.auth, "web", &"web".into()).await);
    world.auth.revoke_client(&of("web")).await.unwrap();
    world.auth.refuse_unconfigured(&[of("app")]).await.unwrap();
    let back = world.auth.configure_client(of_file("web")).await.unwrap();
    assert_eq!(back.left_at, None);
    assert!(!opens(&world.auth, "web", &"web".into()).await, "it was revoked meanwhile");
}

#[tokio::test]
async fn a_file_takes_over_a_public_client_and_no_other() {
    let world = AuthWorld::new();
    let web = client("web", ClientKind::Public, &[Scope::Auth]);
    world.auth.create_client(web.clone()).await.unwrap();
    server(&world, "billing").await;

    let taken = world.auth.configure_client(web.clone()).await.unwrap();
    let other = client("billing", ClientKind::Public, &[Scope::Auth]);
    let refused = world.auth.configure_client(other).await;

    assert_eq!(taken.source, ClientSource::File);
    assert_eq!(wrong(refused), (ErrorKind::Conflict, "client_exists"));
    let unchanged = world.auth.configure_client(web).await.unwrap();
    assert_eq!(unchanged.version, taken.version, "nothing was written");
}

#[tokio::test]
async fn pages_call_as_a_public_client_alone() {
    let world = AuthWorld::new();
    let mut new = client("billing", ClientKind::Confidential, &[Scope::Auth]);
    new.origins = [of("https://shop.example")].into();

    let refused = world.auth.create_client(new.clone()).await;

    assert_eq!(faults(refused), ["origins not_allowed_value"]);
    new.kind = ClientKind::Public;
    let made = world.auth.create_client(new.clone()).await.unwrap();
    assert_eq!(made.client.origins, new.origins);
    new.origins = [].into();
    let configured = world.auth.configure_client(new).await.unwrap();
    assert_eq!(configured.origins, [].into());
}

#[tokio::test]
async fn one_answer_for_every_credential_that_is_not_good() {
    let world = AuthWorld::new();
    let (billing, other) = (server(&world, "billing").await, server(&world, "other").await);
    let scopes = [Scope::Auth];
    world.auth.create_client(client("web", ClientKind::Public, &scopes)).await.unwrap();
    let random = |key: &SecretString| key.expose_secret().rsplit_once('_').unwrap().1.to_owned();
    let (ours, theirs) = (random(&billing), random(&other));
    let flipped = |at: usize| {
        let mut text = ours.clone().into_bytes();
        text[at] = if text[at] == b'A' { b'B' } else { b'A' };
        format!("sck_billing_{}", String::from_utf8(text).unwrap())
    };
    let mut told = Vec::new();
    for credential in [
        "unknown".into(),
        "billing".into(),
        format!("sck_billing_{theirs}"),
        format!("sck_unknown_{ours}"),
        format!("sck_web_{ours}"),
        format!("sck_Billing_{ours}"),
        format!("SCK_billing_{ours}"),
        format!("sck_billing_{ours}="),
        format!("sck_billing_{ours}A"),
        format!("sck_billing_{ours} "),
        format!("sck_billing_{}", &ours[..42]),
        format!("sck__{ours}"),
        "sck_billing_".into(),
        "sck_billing".into(),
        "sck_".into(),
        ours.clone(),
        flipped(0),
        flipped(41),
        String::new(),
        " ".into(),
        "web\0".into(),
        "wéb".into(),
        "' or 1=1 --".into(),
        "x".repeat(1_000_000),
        format!("sck_billing_{}", "A".repeat(1_000_000)),
    ] {
        let refused = world.auth.authenticate_client(&credential.clone().into()).await;
        let error = refused.expect_err(&credential);
        told.push((error.kind(), error.code(), error.to_string(), format!("{error:?}")));
    }
    assert_eq!((told[0].0, told[0].1), (ErrorKind::Unauthenticated, "client_unknown"));
    for refusal in &told {
        assert_eq!(refusal, &told[0]);
    }
}

#[tokio::test]
async fn client_keys_live_as_long_as_the_server_key_that_they_were_made_with() {
    let world = AuthWorld::new();
    let old = server(&world, "billing").await;
    let new_key = || secret(b"the server's second key, as secret as the first");
    let rotated = ServerKeys::new(2, new_key()).unwrap();

    let both = with_server_keys(&world, rotated.clone().and_checks(1, secret(SERVER_KEY)).unwrap());
    assert!(opens(&both, "billing", &old).await);
    let new = both.rotate_client_key(&of("billing")).await.unwrap();
    assert_eq!(new.client.keys.iter().map(|key| key.key_id).collect::<Vec<_>>(), [2, 1]);
    assert!(opens(&both, "billing", &new.credential).await);

    let dropped = with_server_keys(&world, rotated);
    assert!(!opens(&dropped, "billing", &old).await);
    assert!(opens(&dropped, "billing", &new.credential).await);
    let wrong_bytes = with_server_keys(&world, ServerKeys::new(1, new_key()).unwrap());
    assert!(!opens(&wrong_bytes, "billing", &old).await);
}

/// A row that names a key which the server does not have must not be matched by anything.
#[tokio::test]
async fn a_hash_under_a_key_that_is_not_in_the_ring_matches_nothing() {
    let world = AuthWorld::new();
    let key = server(&world, "billing").await;
    let client = world.auth.client(&of("billing")).await.unwrap();
    let forged = ClientKey { key_id: 99, hash: [0; 32], created_at: client.created_at };
    let version = client.version.next();
    let client = Client { keys: vec![forged], version, ..Client::clone(&client) };
    let changes = ChangeSet { writes: vec![Record::from(client)], ..ChangeSet::default() };
    world.store.commit(changes).await.unwrap();

    let any = format!("sck_billing_{}", "A".repeat(43));

    assert!(!opens(&world.auth, "billing", &key).await);
    assert!(!opens(&world.auth, "billing", &any.into()).await);
}

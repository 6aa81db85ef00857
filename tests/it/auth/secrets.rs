//! Secrecy: no secret and no person appears in a log, an error, an event or a `Debug` text.

use std::error::Error as _;
use std::fmt::Debug;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use secrecy::ExposeSecret as _;
use serde_json::json;
use subscription_core::auth::{
    Client, ClientKind, Identity, IdentityKey, KeyRing, NewClient, Origin, Scope,
    SharedSecretIdentities, SignIn, SignedIn, SigningKey, Trust,
};
use subscription_core::store::{ChangeSet, PageLimit, Record};
use subscription_core::{Error, FaultCode, Text};
use test_support::logs;
use test_support::service_world::of;
use tracing_subscriber::fmt::MakeWriter;

use super::world::{
    AUDIENCE, AuthWorld, PROVIDER, PROVIDER_SECRET, SERVER_KEY, SIGNING_SEED, secret, server_key,
    web,
};

const ADDRESS: &str = "203.0.113.77";
const USER_AGENT: &str = "Peculiar/1.0";

/// All that was said, to be searched.
#[derive(Debug, Clone, Default)]
struct Said(Arc<Mutex<Vec<u8>>>);

impl Said {
    /// Notes how a value shows itself.
    fn shown(&self, value: &impl Debug) {
        self.text(&format!("{value:?}\n{value:#?}\n"));
    }

    /// Notes an error and all that is behind it.
    fn error<T: Debug>(&self, result: Result<T, Error>) {
        let error = result.unwrap_err();
        self.shown(&error);
        self.text(&error.to_string());
        let mut source = error.source();
        while let Some(behind) = source {
            self.text(&behind.to_string());
            source = behind.source();
        }
    }

    fn text(&self, text: &str) {
        self.0.lock().unwrap().extend(text.as_bytes());
    }

    fn all(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Said {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Said {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

/// Secrets that must never appear, each with its name.
#[derive(Default)]
pub(crate) struct Secrets(Vec<(&'static str, String)>);

impl Secrets {
    fn text(&mut self, name: &'static str, text: &str) {
        self.0.push((name, text.to_owned()));
    }

    /// A token is given away by its claims and by its signature.
    pub(crate) fn token(&mut self, name: &'static str, token: &str) {
        token.split('.').skip(1).for_each(|part| self.text(name, part));
        self.text(name, token);
    }

    /// A key is given away in any spelling.
    pub(crate) fn bytes(&mut self, name: &'static str, bytes: &[u8]) {
        let hex = hex(bytes);
        self.text(name, &hex.to_uppercase());
        self.text(name, &hex);
        self.text(name, &STANDARD_NO_PAD.encode(bytes));
        self.text(name, &URL_SAFE_NO_PAD.encode(bytes));
        self.text(name, format!("{bytes:?}").trim_matches(['[', ']']));
        if let Ok(text) = str::from_utf8(bytes) {
            self.text(name, text);
        }
    }

    fn pair(&mut self, pair: &SignedIn) {
        self.token("access token", pair.access_token.expose_secret());
        let refresh = pair.refresh_token.expose_secret();
        self.text("refresh token", refresh.strip_prefix("srt_").unwrap());
        self.bytes("salt", &pair.session.salt);
        self.bytes("hash of the identity token", &pair.session.opened_with);
    }

    /// The names of all that can be found in a text.
    pub(crate) fn found_in(&self, said: &str) -> Vec<&'static str> {
        self.0.iter().filter(|(_, text)| said.contains(text)).map(|(name, _)| *name).collect()
    }
}

/// Ada, with all that is known of where she comes from.
fn ada(world: &AuthWorld) -> SignIn {
    let origin = Origin { ip: Some(ADDRESS.parse().unwrap()), user_agent: Some(of(USER_AGENT)) };
    SignIn { origin, ..world.person("ada") }
}

/// The secrets in the sources of the tests.
pub(crate) fn known() -> Secrets {
    let mut secrets = Secrets::default();
    secrets.bytes("provider's secret", PROVIDER_SECRET);
    secrets.bytes("server key", SERVER_KEY);
    secrets.bytes("signing seed", &SIGNING_SEED);
    secrets.text("address", "ada@example.com");
    secrets.text("address", "eve@example.com");
    secrets.text("subject", "sub-of-ada");
    secrets.text("ip", ADDRESS);
    secrets.text("user agent", USER_AGENT);
    secrets
}

/// A client with two keys, known by them, and turned away with a third.
async fn live_as_a_client(world: &AuthWorld, said: &Said, secrets: &mut Secrets) -> Arc<Client> {
    let new = NewClient {
        id: of("server"),
        name: of("Server"),
        kind: ClientKind::Confidential,
        scopes: [Scope::PlansRead].into(),
        origins: [].into(),
    };
    said.shown(&new);
    let created = world.auth.create_client(new.clone()).await.unwrap();
    let rotated = world.auth.rotate_client_key(&new.id).await.unwrap();
    for client in [&created, &rotated] {
        said.shown(client);
        let key = client.credential.expose_secret();
        secrets.text("client key", key.strip_prefix("sck_server_").unwrap());
        said.shown(&world.auth.authenticate_client(&client.credential).await.unwrap());
    }
    said.error(world.auth.create_client(new.clone()).await);
    let wrong = created.credential.expose_secret().replace("sck_server", "sck_other");
    said.error(world.auth.authenticate_client(&wrong.as_str().into()).await);
    said.error(rotated.client.require(Scope::AssertIp));
    for key in &rotated.client.keys {
        secrets.bytes("hash of a client key", &key.hash);
    }
    world.auth.revoke_client(&new.id).await.unwrap();
    said.error(world.auth.authenticate_client(&rotated.credential).await);
    rotated.client
}

/// Signs up, in, out, refreshes, is robbed, and makes every mistake.
async fn live_as_a_person(world: &AuthWorld, said: &Said, secrets: &mut Secrets) -> SignedIn {
    let person = ada(world);
    said.shown(&person);
    secrets.token("identity token", person.access_token.expose_secret());
    said.error(world.auth.sign_in(person.clone()).await);
    let first = world.auth.sign_up(person.clone()).await.unwrap();
    said.error(world.auth.sign_up(person.clone()).await);
    let stranger = world.identity_token("eve", |claims| claims["email"] = json!("ada@example.com"));
    secrets.token("identity token", stranger.expose_secret());
    said.error(world.auth.sign_up(SignIn { access_token: stranger, ..person.clone() }).await);
    said.error(world.auth.sign_in(SignIn { email: of("eve@example.com"), ..person.clone() }).await);
    let unverified = world.identity_token("ada", |claims| claims["email_verified"] = json!(false));
    secrets.token("identity token", unverified.expose_secret());
    said.error(world.auth.sign_in(SignIn { access_token: unverified, ..person.clone() }).await);
    let garbage = SignIn { access_token: first.access_token.clone(), ..person.clone() };
    said.error(world.auth.sign_in(garbage).await);

    let second = world.refresh(&first).await.unwrap();
    let third = world.refresh(&second).await.unwrap();
    let other = world.auth.sign_in(person).await.unwrap();
    said.shown(&world.check(&third).await.unwrap());
    said.error(world.auth.refresh(&of("mobile"), &third.refresh_token).await);
    said.error(world.refresh(&first).await);
    said.error(world.refresh(&third).await);
    said.error(world.check(&third).await);
    let caller = world.check(&other).await.unwrap();
    said.shown(&world.auth.sessions(&caller).await.unwrap());
    said.error(world.auth.delete_account(&caller, "ada@example.com").await);
    for pair in [&first, &second, &third, &other] {
        said.shown(pair);
        secrets.pair(pair);
    }
    other
}

#[tokio::test]
async fn no_secret_and_no_person_is_said_anywhere() {
    let (said, mut secrets) = (Said::default(), known());
    let world = AuthWorld::new();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(said.clone())
        .finish();
    let _listening = logs::of_this_thread(subscriber);

    let client = live_as_a_client(&world, &said, &mut secrets).await;
    let last = live_as_a_person(&world, &said, &mut secrets).await;
    let writes = vec![
        Record::from((*last.user).clone()),
        Record::from((*last.session).clone()),
        Record::from((*client).clone()),
    ];
    said.shown(&ChangeSet { writes, ..ChangeSet::default() });
    // With all of its parts: the service, the store and the cache.
    said.shown(&world.auth);
    said.shown(&world.store);
    let events = world.service.events(0, PageLimit::MAX).await.unwrap();
    said.shown(&events);
    for recorded in &events {
        said.text(&serde_json::to_string(&recorded.event).unwrap());
    }
    said.text(&world.auth.public_keys().to_string());
    world.auth.logout(&web(), &last.access_token).await.unwrap();
    world.clock.advance(Duration::from_hours(24));
    said.error(world.check(&last).await);
    said.error(world.refresh(&last).await);

    let all = said.all();
    assert!(all.contains("a refresh token was used twice"), "the log was listened to");
    assert!(all.contains(&last.session.id.to_string()), "sessions can be told apart");
    assert_eq!(secrets.found_in(&all), [""; 0]);
}

#[test]
fn keys_and_identities_show_nothing_of_themselves() {
    let said = Said::default();
    let trust = Trust { issuer: PROVIDER.into(), audience: AUDIENCE.into() };
    let signing = SigningKey::ed25519(&secret(&SIGNING_SEED)).unwrap();
    let key = IdentityKey { issuer: of(PROVIDER), subject: of("sub-of-ada") };

    said.shown(&signing);
    said.shown(&KeyRing::new(signing));
    said.shown(&SigningKey::hs256(&secret(SERVER_KEY)).unwrap());
    said.shown(&server_key(1, SERVER_KEY));
    said.shown(&SharedSecretIdentities::new(trust, &secret(PROVIDER_SECRET)).unwrap());
    said.shown(&Identity { key, email: Some(of("ada@example.com")), email_verified: true });

    assert_eq!(known().found_in(&said.all()), [""; 0]);
}

#[test]
fn the_search_finds_a_secret_in_each_spelling() {
    let spellings = [
        String::from_utf8(SERVER_KEY.to_vec()).unwrap(),
        format!("key={SERVER_KEY:?}"),
        format!("key={}", URL_SAFE_NO_PAD.encode(SERVER_KEY)),
        format!("key={}", hex(SERVER_KEY)),
    ];
    for said in spellings {
        assert!(known().found_in(&said).contains(&"server key"), "{said}");
    }
}

#[test]
fn what_would_write_on_a_terminal_is_no_user_agent() {
    for text in ["a\u{1b}[31mred", "two\nlines", "nul\0"] {
        let refused = text.parse::<Text<1, 512>>().unwrap_err();
        assert_eq!(refused.code(), FaultCode::ControlCharacter, "{text:?}");
    }
}

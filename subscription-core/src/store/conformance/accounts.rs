//! Users, their sessions, and clients.

use std::sync::Arc;

use super::records::{account, at, at_version, client, parsed, session, user};
use super::steps::{assert_stored, assert_taken, found, limit, listed, put, remove, writing};
use crate::accounts::{
    Client, ClientKey, ClientKind, ClientSource, IdentityKey, Origin, Revocation, RevocationReason,
    Scope, Session, User,
};
use crate::store::{
    ClientQuery, PageLimit, Record, SessionQuery, Store, Unique, UniqueValue, UserQuery,
};
use crate::values::{SessionId, Timestamp};

/// No field of the session has its default value.
pub async fn every_field_of_a_session_reads_back(store: Arc<dyn Store>) {
    let reasons = [
        RevocationReason::Logout,
        RevocationReason::RevokeAll,
        RevocationReason::RefreshReuse,
        RevocationReason::SessionLimit,
    ];
    let addresses = ["127.0.0.1", "2001:db8::1", "::ffff:10.0.0.1", "255.255.255.255"];
    for ((n, reason), ip) in (1..).zip(reasons).zip(addresses) {
        let full = Session {
            opened_with: std::array::from_fn(|n| u8::try_from(n * 8).unwrap()),
            key_id: u8::MAX,
            salt: std::array::from_fn(|n| u8::try_from(255 - n).unwrap()),
            generation: u32::MAX,
            successor_used: true,
            expires_at: Timestamp::MAX,
            revoked: Some(Revocation { at: at(5), reason }),
            origin: Origin { ip: Some(ip.parse().unwrap()), user_agent: Some(parsed("Tür/1.0")) },
            ..session(n)
        };
        put(&store, [full.clone()]).await;

        assert_stored(&store, [full]).await;
    }
}

/// Clients of both kinds and both sources, with every scope and with none, with two keys and with none, with origins
/// and with none.
pub async fn every_field_of_a_client_reads_back(store: Arc<dyn Store>) {
    let key = |n: u8| ClientKey { key_id: n, hash: [n; 32], created_at: at(n.into()) };
    let full = Client {
        scopes: Scope::ALL.into(),
        keys: vec![key(9), key(0)],
        revoked_at: Some(at(7)),
        ..client(1)
    };
    let bare = Client {
        kind: ClientKind::Public,
        scopes: [].into(),
        keys: Vec::new(),
        origins: [parsed("https://shop.example"), parsed("http://localhost:5173")].into(),
        source: ClientSource::File,
        left_at: Some(at(8)),
        ..client(2)
    };

    put(&store, [full.clone(), bare.clone()]).await;

    assert_stored(&store, [full, bare]).await;
}

/// An address reads back with its capital letters, though it is compared without.
pub async fn an_address_reads_back_as_it_was_written(store: Arc<dyn Store>) {
    let email = parsed("Ada@B\u{fc}cher.Example");
    let written = User { email, closing: true, ..account(1) };

    put(&store, [written.clone()]).await;

    assert_stored(&store, [written.clone()]).await;
    let Some(Record::User(read)) = found(&store, UniqueValue::UserEmail(&written.email)).await
    else {
        panic!("nobody has {}", written.email.as_str())
    };
    assert_eq!(read.email.as_str(), "Ada@xn--bcher-kva.example");
}

/// Addresses are compared in lower case, with the domain in its ASCII form.
pub async fn an_address_is_taken_in_every_spelling(store: Arc<dyn Store>) {
    put(&store, [User { email: parsed("ada@b\u{fc}cher.example"), ..account(1) }]).await;

    for spelling in ["ADA@B\u{fc}cher.example", "ada@XN--BCHER-KVA.example"] {
        let second = User { email: parsed(spelling), ..account(2) };
        assert_taken(&store.commit(writing([second])).await, Unique::UserEmail);
    }
}

/// A user is found by issuer and subject together, byte by byte.
pub async fn a_user_is_found_by_the_whole_identity_alone(store: Arc<dyn Store>) {
    let identity = |issuer: &str, subject: &str| IdentityKey {
        issuer: parsed(issuer),
        subject: parsed(subject),
    };
    let identities = [
        account(1).identity,
        identity("https://other", "subject 1"),
        identity("https://id.example.com", "SUBJECT 1"),
    ];
    let users =
        identities.into_iter().zip(1..).map(|(identity, n)| User { identity, ..account(n) });
    put(&store, users.clone()).await;

    for user in users {
        let found = found(&store, UniqueValue::UserIdentity(&user.identity)).await;
        assert_eq!(found, Some(user.into()));
    }
    let nobody = identity("https://id.example.com", "nobody");
    assert_eq!(found(&store, UniqueValue::UserIdentity(&nobody)).await, None);
}

/// The users whose accounts are being closed are listed by id, at most the requested number. Other users are not
/// listed.
pub async fn users_whose_account_is_closing_are_listed(store: Arc<dyn Store>) {
    let closing = |n| User { closing: true, ..account(n) };
    put(&store, [account(1), closing(4)]).await;
    put(&store, [closing(2), account(3)]).await;
    let users = async |limit| listed::<User>(&store, UserQuery::Closing { limit }).await;

    assert_eq!(users(PageLimit::MAX).await, [closing(2), closing(4)].map(Arc::new));
    assert_eq!(users(limit(1)).await, [closing(2)].map(Arc::new));

    put(&store, [at_version(account(2), 2)]).await;
    remove(&store, [closing(4)]).await;
    assert_eq!(users(PageLimit::MAX).await, []);
}

/// A session of user 0 that expires at `end`.
fn ending(n: u64, end: u64) -> Session {
    Session { expires_at: at(end), idle_expires_at: at(end), ..session(n) }
}

/// A session of user 0 that was revoked at `end`.
fn revoked(n: u64, end: u64, reason: RevocationReason) -> Session {
    Session { revoked: Some(Revocation { at: at(end), reason }), ..session(n) }
}

/// Sessions of user 0 that end at 30, 40, 20 (revoked) and 30 seconds, and one of user 9.
async fn with_sessions(store: &Arc<dyn Store>) {
    let revoked =
        Session { revoked: revoked(2, 20, RevocationReason::Logout).revoked, ..ending(2, 100) };
    let others = Session { user_id: user(9), ..ending(3, 100) };
    put(store, [ending(5, 30), ending(1, 40), revoked, others, ending(4, 30)]).await;
}

async fn session_ids(store: &Arc<dyn Store>, query: SessionQuery) -> Vec<SessionId> {
    listed::<Session>(store, query).await.iter().map(|session| session.id).collect()
}

/// The list has no sessions that were revoked or have expired, and none of other users.
pub async fn the_live_sessions_of_a_user_are_listed_newest_first(store: Arc<dyn Store>) {
    with_sessions(&store).await;
    let ids = async |n, now| {
        session_ids(&store, SessionQuery::LiveOf { user: user(n), now: at(now) }).await
    };

    assert_eq!(ids(0, 19).await, [5, 4, 2, 1].map(|n| session(n).id));
    assert_eq!(ids(0, 20).await, [5, 4, 1].map(|n| session(n).id));
    assert_eq!(ids(0, 30).await, [session(1).id]);
    assert_eq!(ids(0, 40).await, []);
    assert_eq!(ids(9, 40).await, [session(3).id]);
    assert_eq!(ids(5, 0).await, []);

    remove(&store, [ending(5, 30)]).await;
    assert_eq!(ids(0, 20).await, [4, 1].map(|n| session(n).id));
}

/// The list skips the requested number of sessions at its start, has at most as many as its limit, and none of other
/// users.
pub async fn the_ended_sessions_of_a_user_are_listed_latest_first(store: Arc<dyn Store>) {
    with_sessions(&store).await;
    let ids = async |now, skip, limit| {
        let query = SessionQuery::EndedOf { user: user(0), now: at(now), skip, limit };
        session_ids(&store, query).await
    };

    assert_eq!(ids(40, 0, PageLimit::MAX).await, [1, 5, 4, 2].map(|n| session(n).id));
    assert_eq!(ids(39, 0, PageLimit::MAX).await, [5, 4, 2].map(|n| session(n).id));
    assert_eq!(ids(40, 1, limit(2)).await, [5, 4].map(|n| session(n).id));
    assert_eq!(ids(40, 3, limit(2)).await, [session(2).id]);
    assert_eq!(ids(40, 4, limit(2)).await, []);
    assert_eq!(ids(19, 0, limit(2)).await, []);
}

async fn ended(store: &Arc<dyn Store>, by: u64, limit: PageLimit) -> Vec<SessionId> {
    session_ids(store, SessionQuery::Ended { by: at(by), limit }).await
}

/// A session ends by expiry or by revocation, whichever comes first.
pub async fn ended_sessions_are_listed_by_their_end(store: Arc<dyn Store>) {
    let revoked = |n, end| revoked(n, end, RevocationReason::RevokeAll);
    let idle = Session { expires_at: at(1_000), idle_expires_at: at(30), ..session(3) };
    let old = Session { expires_at: at(40), idle_expires_at: at(1_000), ..session(4) };
    put(&store, [revoked(100, 10), revoked(20, 1_000), idle, old, session(50)]).await;

    let order = [100, 20, 3, 4, 50].map(|n| session(n).id);
    let cases = [(9, 0), (10, 1), (29, 2), (30, 3), (40, 4), (49, 4), (50, 5)];
    for (by, count) in cases {
        let expected: Vec<_> = order.iter().take(count).copied().collect();
        assert_eq!(ended(&store, by, PageLimit::MAX).await, expected, "{by}");
    }
    assert_eq!(ended(&store, 50, limit(2)).await, [100, 20].map(|n| session(n).id));
}

/// The session is listed by its new end alone.
pub async fn a_session_that_goes_on_ends_later(store: Arc<dyn Store>) {
    put(&store, [session(1)]).await;

    let refreshed = Session { expires_at: at(100), idle_expires_at: at(9), ..session(1) };
    put(&store, [at_version(refreshed, 2)]).await;

    assert_eq!(ended(&store, 8, PageLimit::MAX).await, []);
    assert_eq!(ended(&store, 9, PageLimit::MAX).await, [session(1).id]);
}

/// Revoked clients are listed too.
pub async fn clients_are_listed_by_id(store: Arc<dyn Store>) {
    let revoked = Client { revoked_at: Some(at(1)), ..client(2) };
    for record in [client(3), revoked.clone(), client(1)] {
        put(&store, [record]).await;
    }
    remove(&store, [client(3)]).await;

    let clients = listed::<Client>(&store, ClientQuery::All).await;

    assert_eq!(clients, [client(1), revoked].map(Arc::new));
}

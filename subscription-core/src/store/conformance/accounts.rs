//! Users, their sessions, and clients.

use crate::store::{ClientQuery, SessionQuery, StoreExt as _, UniqueValue, UserQuery};
use std::sync::Arc;

use super::records::{account, at, at_version, client, parsed, session, user};
use super::steps::{assert_taken, deleting, limit, stored, writing};
use crate::accounts::{
    Client, ClientKey, ClientKind, ClientSource, IdentityKey, Origin, Revocation, RevocationReason,
    Scope, Session, User,
};
use crate::store::{PageLimit, Record, Store, Unique};
use crate::values::clock::Timestamp;
use crate::values::id::SessionId;

/// All fields away from their defaults.
pub async fn every_field_of_a_session_reads_back(store: Arc<dyn Store>) {
    let reasons = [
        RevocationReason::Logout,
        RevocationReason::RevokeAll,
        RevocationReason::RefreshReuse,
        RevocationReason::SessionLimit,
    ];
    let addresses = ["127.0.0.1", "2001:db8::1", "::ffff:10.0.0.1", "255.255.255.255"];
    for ((n, reason), ip) in (1..).zip(reasons).zip(addresses) {
        let full = Record::from(Session {
            opened_with: std::array::from_fn(|n| u8::try_from(n * 8).unwrap()),
            key_id: u8::MAX,
            salt: std::array::from_fn(|n| u8::try_from(255 - n).unwrap()),
            generation: u32::MAX,
            successor_used: true,
            expires_at: Timestamp::MAX,
            revoked: Some(Revocation { at: at(5), reason }),
            origin: Origin { ip: Some(ip.parse().unwrap()), user_agent: Some(parsed("Tür/1.0")) },
            ..session(n)
        });

        store.commit(writing([full.clone()])).await.unwrap();

        assert_eq!(stored(&store, &full.key()).await, Some(full));
    }
}

/// Both kinds and both sources, with every scope and with none, with two keys and with none, with origins
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

    for record in [full, bare].map(Record::from) {
        store.commit(writing([record.clone()])).await.unwrap();

        assert_eq!(stored(&store, &record.key()).await, Some(record));
    }
}

/// As it was sent, though it is compared otherwise.
pub async fn an_address_reads_back_as_it_was_written(store: Arc<dyn Store>) {
    let email = parsed("Ada@B\u{fc}cher.Example");
    let written = User { email, closing: true, ..account(1) };

    store.commit(writing([Record::from(written.clone())])).await.unwrap();

    let read = store.get_as::<User>(&written.id).await.unwrap().unwrap();
    assert_eq!(*read, written);
    assert_eq!(read.email.as_str(), "Ada@B\u{fc}cher.Example");
}

/// Without case, the domain in its ASCII form.
pub async fn an_address_is_taken_in_every_spelling(store: Arc<dyn Store>) {
    let first = User { email: parsed("ada@b\u{fc}cher.example"), ..account(1) };
    store.commit(writing([Record::from(first)])).await.unwrap();

    for spelling in ["ADA@B\u{fc}cher.example", "ada@XN--BCHER-KVA.example"] {
        let second = User { email: parsed(spelling), ..account(2) };
        assert_taken(&store.commit(writing([Record::from(second)])).await, Unique::UserEmail);
    }
}

/// Issuer and subject together, byte by byte.
pub async fn a_user_is_found_by_the_whole_identity_alone(store: Arc<dyn Store>) {
    let other_issuer = User {
        identity: IdentityKey { issuer: parsed("https://other"), ..account(1).identity },
        ..account(2)
    };
    let other_case = User {
        identity: IdentityKey { subject: parsed("SUBJECT 1"), ..account(1).identity },
        ..account(3)
    };
    let users = [account(1), other_issuer, other_case];
    store.commit(writing(users.clone().map(Record::from))).await.unwrap();

    for user in users {
        let found = store.find_as::<User>(UniqueValue::UserIdentity(&user.identity)).await.unwrap();
        assert_eq!(found.as_deref(), Some(&user));
    }
    let nobody = IdentityKey { subject: parsed("nobody"), ..account(1).identity };
    assert_eq!(store.find_as::<User>(UniqueValue::UserIdentity(&nobody)).await.unwrap(), None);
}

/// By id, as many as asked for; one that reopens is not listed any more.
pub async fn users_whose_account_is_closing_are_listed(store: Arc<dyn Store>) {
    let closing = |n| Record::from(User { closing: true, ..account(n) });
    store.commit(writing([Record::from(account(1)), closing(4)])).await.unwrap();
    store.commit(writing([closing(2), Record::from(account(3))])).await.unwrap();
    let ids = async |limit| -> Vec<_> {
        store
            .list_as::<User>(UserQuery::Closing { limit })
            .await
            .unwrap()
            .items
            .iter()
            .map(|user| user.id)
            .collect()
    };

    assert_eq!(ids(PageLimit::MAX).await, [account(2).id, account(4).id]);
    assert_eq!(ids(limit(1)).await, [account(2).id]);

    store.commit(writing([at_version(Record::from(account(2)), 2)])).await.unwrap();
    store.commit(deleting([closing(4)])).await.unwrap();
    assert_eq!(ids(PageLimit::MAX).await, []);
}

/// A session of user 0 that ends by itself at `end`.
fn ending(n: u64, end: u64) -> Session {
    Session { expires_at: at(end), idle_expires_at: at(end), ..session(n) }
}

/// Neither those that were ended, nor those that ended by themselves, nor anybody else's.
pub async fn the_live_sessions_of_a_user_are_listed_newest_first(store: Arc<dyn Store>) {
    let revoked = Session {
        revoked: Some(Revocation { at: at(20), reason: RevocationReason::Logout }),
        ..ending(2, 100)
    };
    let others = Session { user_id: user(9), ..ending(3, 100) };
    let sessions = [ending(5, 30), ending(1, 40), revoked, others].map(Record::from);
    store.commit(writing(sessions)).await.unwrap();
    let ids = async |n, now| -> Vec<_> {
        let live = store
            .list_as::<Session>(SessionQuery::LiveOf { user: user(n), now: at(now) })
            .await
            .unwrap()
            .items;
        live.iter().map(|session| session.id).collect()
    };

    assert_eq!(ids(0, 19).await, [5, 2, 1].map(|n| session(n).id));
    assert_eq!(ids(0, 20).await, [5, 1].map(|n| session(n).id));
    assert_eq!(ids(0, 30).await, [session(1).id]);
    assert_eq!(ids(0, 40).await, []);
    assert_eq!(ids(9, 40).await, [session(3).id]);
    assert_eq!(ids(5, 0).await, []);

    store.commit(deleting([Record::from(ending(5, 30))])).await.unwrap();
    assert_eq!(ids(0, 20).await, [session(1).id]);
}

/// From a place on, and as many as asked for; nobody else's.
pub async fn the_ended_sessions_of_a_user_are_listed_latest_first(store: Arc<dyn Store>) {
    let revoked = Session {
        revoked: Some(Revocation { at: at(20), reason: RevocationReason::Logout }),
        ..ending(2, 100)
    };
    let others = Session { user_id: user(9), ..ending(3, 10) };
    let sessions = [ending(5, 30), ending(1, 40), revoked, others, ending(4, 30)];
    store.commit(writing(sessions.map(Record::from))).await.unwrap();
    let ids = async |now, skip, limit| -> Vec<_> {
        let ended = store
            .list_as::<Session>(SessionQuery::EndedOf { user: user(0), now: at(now), skip, limit })
            .await
            .unwrap()
            .items;
        ended.iter().map(|session| session.id).collect()
    };

    assert_eq!(ids(40, 0, PageLimit::MAX).await, [1, 5, 4, 2].map(|n| session(n).id));
    assert_eq!(ids(39, 0, PageLimit::MAX).await, [5, 4, 2].map(|n| session(n).id));
    assert_eq!(ids(40, 1, limit(2)).await, [5, 4].map(|n| session(n).id));
    assert_eq!(ids(40, 3, limit(2)).await, [session(2).id]);
    assert_eq!(ids(40, 4, limit(2)).await, []);
    assert_eq!(ids(19, 0, limit(2)).await, []);
}

async fn ended(store: &Arc<dyn Store>, before: Timestamp, limit: PageLimit) -> Vec<SessionId> {
    let ended =
        store.list_as::<Session>(SessionQuery::Ended { by: before, limit }).await.unwrap().items;
    ended.iter().map(|session| session.id).collect()
}

/// By themselves or by revocation, whichever came first.
pub async fn ended_sessions_are_listed_by_their_end(store: Arc<dyn Store>) {
    let revoked = |n, end| Session {
        revoked: Some(Revocation { at: at(end), reason: RevocationReason::RevokeAll }),
        ..session(n)
    };
    let idle = Session { expires_at: at(1_000), idle_expires_at: at(30), ..session(3) };
    let old = Session { expires_at: at(40), idle_expires_at: at(1_000), ..session(4) };
    let sessions = [revoked(100, 10), revoked(20, 1_000), idle, old, session(50)];
    store.commit(writing(sessions.map(Record::from))).await.unwrap();

    let order = [100, 20, 3, 4, 50].map(|n| session(n).id);
    let cases = [(9, 0), (10, 1), (29, 2), (30, 3), (40, 4), (49, 4), (50, 5)];
    for (before, count) in cases {
        let expected: Vec<_> = order.iter().take(count).copied().collect();
        assert_eq!(ended(&store, at(before), PageLimit::MAX).await, expected, "{before}");
    }
    assert_eq!(ended(&store, at(50), limit(2)).await, [100, 20].map(|n| session(n).id));
}

/// Under its new end alone.
pub async fn a_session_that_goes_on_ends_later(store: Arc<dyn Store>) {
    store.commit(writing([Record::from(session(1))])).await.unwrap();

    let refreshed = Session { expires_at: at(100), idle_expires_at: at(9), ..session(1) };
    store.commit(writing([at_version(Record::from(refreshed), 2)])).await.unwrap();

    assert_eq!(ended(&store, at(8), PageLimit::MAX).await, []);
    assert_eq!(ended(&store, at(9), PageLimit::MAX).await, [session(1).id]);
}

/// Shut-out ones too.
pub async fn clients_are_listed_by_id(store: Arc<dyn Store>) {
    let shut_out = Client { revoked_at: Some(at(1)), ..client(2) };
    for record in [client(3), shut_out, client(1)] {
        store.commit(writing([Record::from(record)])).await.unwrap();
    }
    store.commit(deleting([Record::from(client(3))])).await.unwrap();

    let listed = store.list_as::<Client>(ClientQuery::All).await.unwrap().items;

    let ids: Vec<_> = listed.iter().map(|client| client.id.clone()).collect();
    assert_eq!(ids, [client(1).id, client(2).id]);
}

//! Invariants of accounts and sessions, which hold after every step, whatever was requested and whatever failed.
//!
//! | invariant | says |
//! | --- | --- |
//! | [`every_session_has_its_user`] | the user of every session exists |
//! | [`identities_and_addresses_are_unique`] | two users never share an identity or an address; an identity finds its user |
//! | [`live_sessions_keep_to_the_cap`] | live sessions per client and per identity token are limited |
//! | [`versions_rise_by_one`] | along the events of a user, client or subscription: 1 at first, one more each time, none after its deletion |
//! | [`every_change_has_one_event`] | a user, client or subscription has the version of its last event, and exists unless that event deleted it |
//! | [`every_revocation_has_one_event`] | a session is revoked if and only if its last event says so, and for that reason |
//! | [`nothing_is_half_made`] | a session exists from its creation event, which follows an event of its user, to its deletion event |
//! | [`generations_never_fall`] | the generation and the version of a session never fall |
//! | [`ended_sessions_stay_ended`] | no token authenticates or refreshes once a logout, revocation or deletion was confirmed |
//! | [`deleted_users_leave_nothing`] | a deletion, confirmed or not, leaves no user, session or running subscription |
//! | [`nobody_subscribes_who_is_gone`] | no subscription is created for a deleted user |
//! | [`the_model_agrees_with_the_store`] | the accounts are those of the model |
//!
//! Further invariants are checked when a result is received: `answers_agree_with_the_model`, `changes_are_whole`,
//! `failures_of_the_store_are_told` and `honest_actors_stay_logged_in`.

use std::collections::{BTreeMap, BTreeSet};

use subscription_core::events::{Change, Event, Subject};
use subscription_core::{SubscriptionStatus, Timestamp, UserId, Version};

use super::model::{Account, Model};
use super::snapshot::Snapshot;
use super::world::{PER_CLIENT, PER_IDENTITY_TOKEN};
use crate::simulation::feed::{Feed, Told};
use crate::simulation::invariants::Broken;

/// The data that invariants check.
#[derive(Debug)]
pub struct View<'a> {
    pub now: Timestamp,
    /// The store before this step.
    pub before: &'a Snapshot,
    /// The store after this step.
    pub store: &'a Snapshot,
    /// The feed.
    pub feed: &'a Feed,
    /// The events that this step wrote.
    pub fresh: &'a [Told],
    pub model: &'a Model,
    /// Descriptions of tokens that were accepted although their session had surely ended before.
    pub wrongly_taken: &'a [String],
    /// The users for whom a subscription was created.
    pub subscribed: &'a [UserId],
}

type Invariant = fn(&View<'_>) -> Result<(), String>;

const ALL: [(&str, Invariant); 12] = [
    ("every_session_has_its_user", every_session_has_its_user),
    ("identities_and_addresses_are_unique", identities_and_addresses_are_unique),
    ("live_sessions_keep_to_the_cap", live_sessions_keep_to_the_cap),
    ("versions_rise_by_one", versions_rise_by_one),
    ("every_change_has_one_event", every_change_has_one_event),
    ("every_revocation_has_one_event", every_revocation_has_one_event),
    ("nothing_is_half_made", nothing_is_half_made),
    ("generations_never_fall", generations_never_fall),
    ("ended_sessions_stay_ended", ended_sessions_stay_ended),
    ("deleted_users_leave_nothing", deleted_users_leave_nothing),
    ("nobody_subscribes_who_is_gone", nobody_subscribes_who_is_gone),
    ("the_model_agrees_with_the_store", the_model_agrees_with_the_store),
];

/// Checks all invariants. The error names the first that does not hold.
pub fn check_all(view: &View<'_>) -> Result<(), Broken> {
    ALL.iter().try_for_each(|(name, holds)| holds(view).map_err(|detail| Broken::new(name, detail)))
}

/// Returns the error `wrong` unless `holds` is true.
fn ensure(holds: bool, wrong: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(wrong()) }
}

/// The last event of each record that the snapshot has read.
fn last_events<'a>(view: &View<'a>) -> impl Iterator<Item = (&'a Subject, &'a Event)> {
    let (store, feed) = (view.store, view.feed);
    store.names.iter().filter_map(|name| Some((name, feed.latest.get(name)?)))
}

fn every_session_has_its_user(view: &View<'_>) -> Result<(), String> {
    view.store.sessions.values().try_for_each(|session| {
        let exists = view.store.users.contains_key(&session.user_id);
        ensure(exists, || format!("nobody has {session:?}"))
    })
}

fn identities_and_addresses_are_unique(view: &View<'_>) -> Result<(), String> {
    let (mut identities, mut addresses) = (BTreeSet::new(), BTreeSet::new());
    for (id, user) in &view.store.users {
        ensure(identities.insert(&user.identity), || format!("the identity of {user:?} twice"))?;
        ensure(addresses.insert(user.email.key()), || format!("the address of {user:?} twice"))?;
        let found = view.store.by_identity.get(id).copied().flatten();
        ensure(found == Some(*id), || format!("the identity of {id} leads to {found:?}"))?;
    }
    Ok(())
}

fn live_sessions_keep_to_the_cap(view: &View<'_>) -> Result<(), String> {
    let (mut by_client, mut by_token) = (BTreeMap::new(), BTreeMap::new());
    let live = view.store.sessions.values().filter(|session| session.is_live(view.now));
    for session in live {
        let of_client = by_client.entry((session.user_id, &session.client_id)).or_insert(0);
        *of_client += 1;
        ensure(*of_client <= PER_CLIENT, || format!("one too many: {session:?}"))?;
        let of_token = by_token.entry((session.user_id, session.opened_with)).or_insert(0);
        *of_token += 1;
        ensure(*of_token <= PER_IDENTITY_TOKEN, || format!("one too many a token: {session:?}"))?;
    }
    Ok(())
}

fn versions_rise_by_one(view: &View<'_>) -> Result<(), String> {
    for Told { event, before } in view.fresh {
        // A session gets a new version without an event when it is refreshed or seen.
        let gaps = matches!(event.subject, Subject::Session(_));
        let follows = match before {
            None => event.version == Version::FIRST && event.change == Change::Created,
            Some(before) => {
                let next = before.version.next();
                let rises = event.version == next || gaps && event.version > next;
                rises && event.change != Change::Created && before.change != Change::Deleted
            }
        };
        ensure(follows, || format!("{event:?}\n  after {before:?}"))?;
    }
    Ok(())
}

fn every_change_has_one_event(view: &View<'_>) -> Result<(), String> {
    let mut versions = BTreeMap::new();
    let store = view.store;
    versions.extend(store.users.iter().map(|(id, user)| (Subject::User(*id), user.version)));
    versions.extend(
        store.clients.iter().map(|(id, client)| (Subject::Client(id.clone()), client.version)),
    );
    versions.extend(
        store.subscriptions.iter().map(|(id, held)| (Subject::Subscription(*id), held.version)),
    );
    for (name, version) in &versions {
        let last = view.feed.latest.get(name);
        let told = last.is_some_and(|event| event.version == *version);
        ensure(told, || format!("{name} at {version:?}\n  but its last event is {last:?}"))?;
    }
    for (name, last) in last_events(view) {
        let elsewhere = matches!(name, Subject::Session(_) | Subject::Plan(_));
        let exists = versions.contains_key(name);
        ensure(elsewhere || exists == (last.change != Change::Deleted), || {
            format!("exists: {exists}, but the last event is {last:?}")
        })?;
    }
    Ok(())
}

fn every_revocation_has_one_event(view: &View<'_>) -> Result<(), String> {
    for (id, session) in &view.store.sessions {
        let last = view.feed.latest.get(&Subject::Session(*id));
        let told = match (session.revoked, last.map(|event| &event.change)) {
            (Some(revocation), Some(Change::Revoked { reason })) => {
                let at = last.map(|event| (event.at, event.version));
                revocation.reason == *reason && at == Some((revocation.at, session.version))
            }
            (None, Some(Change::Created)) => true,
            _ => false,
        };
        ensure(told, || format!("{session:?}\n  but its last event is {last:?}"))?;
    }
    let is_revoked = |event: &Event| matches!(event.change, Change::Revoked { .. });
    view.fresh.iter().filter(|told| is_revoked(&told.event)).try_for_each(|told| {
        let again = told.before.as_ref().is_some_and(is_revoked);
        ensure(!again, || format!("once more: {:?}", told.event))
    })
}

fn nothing_is_half_made(view: &View<'_>) -> Result<(), String> {
    for (name, last) in last_events(view) {
        let Subject::Session(id) = name else { continue };
        let exists = view.store.sessions.contains_key(id);
        ensure(exists == (last.change != Change::Deleted), || {
            format!("{name} exists: {exists}, but the last event is {last:?}")
        })?;
    }
    let mut opened_by = None;
    for Told { event, .. } in view.fresh {
        if let (Subject::Session(id), Change::Created) = (&event.subject, &event.change) {
            let user = opened_by.filter(|(_, at)| *at == event.at).map(|(user, _)| user);
            let owner = view.store.sessions.get(id).map(|session| session.user_id);
            let fits = user.is_some() && (owner.is_none() || owner == user);
            ensure(fits, || format!("{event:?}\n  of {owner:?} follows no write of its user"))?;
        }
        opened_by = match (&event.subject, &event.change) {
            (Subject::User(id), Change::Created | Change::Updated { .. }) => Some((*id, event.at)),
            _ => None,
        };
    }
    Ok(())
}

fn generations_never_fall(view: &View<'_>) -> Result<(), String> {
    for (id, session) in &view.store.sessions {
        let Some(was) = view.before.sessions.get(id) else { continue };
        let rises = session.generation >= was.generation && session.version >= was.version;
        ensure(rises, || format!("{session:?}\n  was {was:?}"))?;
    }
    Ok(())
}

fn ended_sessions_stay_ended(view: &View<'_>) -> Result<(), String> {
    ensure(view.wrongly_taken.is_empty(), || view.wrongly_taken.join("\n  "))
}

fn deleted_users_leave_nothing(view: &View<'_>) -> Result<(), String> {
    let is_gone = |user: &UserId| view.model.gone.contains(user);
    let user = view.store.users.keys().find(|user| is_gone(user));
    ensure(user.is_none(), || format!("{user:?} is there"))?;
    let session = view.store.sessions.values().find(|session| is_gone(&session.user_id));
    ensure(session.is_none(), || format!("who is gone has {session:?}"))?;
    let mut held = view.store.subscriptions.values().filter(|held| is_gone(&held.user_id));
    let going_on = held.find(|held| held.status != SubscriptionStatus::Expired);
    ensure(going_on.is_none(), || format!("who is gone has {going_on:?}"))
}

fn nobody_subscribes_who_is_gone(view: &View<'_>) -> Result<(), String> {
    view.subscribed.iter().try_for_each(|user| {
        let was_there = view.before.users.contains_key(user);
        ensure(was_there, || format!("{user} was gone and got a subscription"))
    })
}

fn the_model_agrees_with_the_store(view: &View<'_>) -> Result<(), String> {
    let found: BTreeMap<_, _> = view
        .store
        .users
        .iter()
        .map(|(id, user)| {
            let subject = user.identity.subject.to_string();
            (*id, Account { subject, email: user.email.as_str().to_owned() })
        })
        .collect();
    ensure(found == view.model.accounts, || {
        format!("expected {:?}\n  found {found:?}", view.model.accounts)
    })
}

//! All that is stored, against all that was answered, once nobody writes.
//!
//! The writers have settled what was lost, so the records that are there are exactly those that they
//! know. Every version of a record has its event, and every event its record.

use std::collections::{BTreeMap, BTreeSet};
use subscription_core::accounts::Session;
use subscription_core::accounts::User;
use subscription_core::payments::Payment;
use subscription_core::plans::Plan;
use subscription_core::store::{EventQuery, IdempotencyRecord, StoreExt as _};
use subscription_core::subscriptions::Subscription;

use subscription_core::events::{Change, Event, Subject};
use subscription_core::store::{
    IdempotencyKey, IdempotencyResult, PageLimit, PaymentQuery, PlanQuery, SubscriptionQuery,
};
use subscription_core::{Store, Version};

use crate::database::Database;
use crate::http::CLIENT;
use crate::ledger::{Kind, Login, Record, State, same};
use crate::writer::Writer;

/// Panics at the first thing that is missing, half there, or too much.
pub(crate) fn audit(database: &Database, writers: &[Writer]) {
    database.look(async |store| {
        let events = Events::read(store).await;
        let records: Vec<_> = writers.iter().flat_map(|writer| &writer.records).collect();
        assert!(!records.is_empty());
        let across = writers.iter().any(|writer| writer.across_releases);
        let mut known = BTreeSet::new();
        for record in &records {
            let stored = stored(store, record).await;
            let expected = (!record.deleted).then(|| record.body.clone());
            let is_same = match (&stored, &expected) {
                (Some(stored), Some(expected)) => same(stored, expected, across),
                (stored, expected) => stored == expected,
            };
            assert!(is_same, "{stored:?} for {record:?}");
            let kept = kept_answer(store, record).await;
            assert!(same(&kept, &record.first, across), "{kept} for {record:?}");
            events.check_record(record);
            known.insert(subject(record));
        }
        for login in writers.iter().flat_map(|writer| &writer.logins) {
            events.check_login(store, login).await;
        }
        let there = records_there(store, &known).await;
        let expected = records.iter().filter(|record| !record.deleted);
        assert_eq!(there, expected.map(|record| subject(record)).collect());
        let told = events.0.keys().filter(|subject| is_record(subject)).cloned().collect();
        assert_eq!(known, told, "records and events");
    });
    database.check_file();
}

const fn is_record(subject: &Subject) -> bool {
    matches!(subject, Subject::Plan(_) | Subject::Subscription(_) | Subject::Payment(_))
}

fn subject(record: &Record) -> Subject {
    let id = record.id();
    match record.creation.kind {
        Kind::Plan => Subject::Plan(id.parse().unwrap()),
        Kind::Subscription => Subject::Subscription(id.parse().unwrap()),
        Kind::Payment => Subject::Payment(id.parse().unwrap()),
    }
}

fn body<T: serde::Serialize>(record: Option<&T>) -> Option<String> {
    record.map(|record| serde_json::to_string(record).unwrap())
}

async fn stored(store: &dyn Store, record: &Record) -> Option<String> {
    match subject(record) {
        Subject::Plan(id) => body(store.get_as::<Plan>(&id).await.unwrap().as_deref()),
        Subject::Subscription(id) => {
            body(store.get_as::<Subscription>(&id).await.unwrap().as_deref())
        }
        Subject::Payment(id) => body(store.get_as::<Payment>(&id).await.unwrap().as_deref()),
        Subject::User(_) | Subject::Session(_) | Subject::Client(_) => None,
    }
}

/// The answer that is kept under the record's key.
async fn kept_answer(store: &dyn Store, record: &Record) -> String {
    let (operation, key) = (record.creation.kind.operation(), record.creation.key.parse().unwrap());
    let key = IdempotencyKey { operation, client: CLIENT.to_owned(), key };
    let kept = store.get_as::<IdempotencyRecord>(&key).await.unwrap();
    let kept = kept.unwrap_or_else(|| panic!("no answer is kept for {record:?}"));
    match &kept.result {
        IdempotencyResult::Plan(plan) => body(Some(plan)),
        IdempotencyResult::Subscription(subscription) => body(Some(subscription)),
        IdempotencyResult::Payment(payment) => body(Some(payment)),
    }
    .unwrap()
}

/// Every record that is stored. Payments are found by their subscriptions, deleted ones too.
async fn records_there(store: &dyn Store, known: &BTreeSet<Subject>) -> BTreeSet<Subject> {
    let mut there = BTreeSet::new();
    let mut query = PlanQuery::default().with_limit(PageLimit::MAX);
    loop {
        let page = store.list_as::<Plan>(query.clone()).await.unwrap();
        there.extend(page.items.iter().map(|plan| Subject::Plan(plan.id)));
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    let mut query = SubscriptionQuery::default().with_limit(PageLimit::MAX);
    loop {
        let page = store.list_as::<Subscription>(query.clone()).await.unwrap();
        there.extend(page.items.iter().map(|found| Subject::Subscription(found.id)));
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    for subject in known {
        let Subject::Subscription(id) = subject else { continue };
        let mut query = PaymentQuery::of(*id);
        loop {
            let page = store.list_as::<Payment>(query.clone()).await.unwrap();
            there.extend(page.items.iter().map(|payment| Subject::Payment(payment.id)));
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
    }
    there
}

/// The whole feed, by what it tells of.
struct Events(BTreeMap<Subject, Vec<Event>>);

impl Events {
    async fn read(store: &dyn Store) -> Self {
        let (mut by_subject, mut after) = (BTreeMap::<_, Vec<_>>::new(), 0);
        loop {
            let page = store.events(&EventQuery::after(after, PageLimit::MAX)).await.unwrap().items;
            let Some(last) = page.last() else { return Self(by_subject) };
            after = last.sequence;
            for recorded in page {
                let of = by_subject.entry(recorded.event.subject.clone()).or_default();
                of.push(recorded.event);
            }
        }
    }

    fn of(&self, subject: &Subject) -> &[Event] {
        self.0.get(subject).map_or(&[], Vec::as_slice)
    }

    /// One event for each version, in order.
    fn check_record(&self, record: &Record) {
        let told = self.of(&subject(record));
        let last = record.version() + u64::from(record.deleted);
        let versions: Vec<_> = told.iter().map(|event| event.version).collect();
        let expected: Vec<_> = (1..=last).map(Version::from).collect();
        assert_eq!(versions, expected, "{told:?} of {record:?}");
        for (at, event) in told.iter().enumerate() {
            let is_last = at + 1 == told.len();
            assert_eq!(event.change == Change::Created, at == 0, "{told:?} of {record:?}");
            let deleted = event.change == Change::Deleted;
            assert_eq!(deleted, is_last && record.deleted, "{told:?} of {record:?}");
        }
    }

    /// An account has its events, and its session is as it was answered.
    async fn check_login(&self, store: &dyn Store, login: &Login) {
        let (user, session) = (login.user.parse().unwrap(), login.session.parse().unwrap());
        let told = [self.of(&Subject::User(user)), self.of(&Subject::Session(session))];
        for told in told {
            let created = told.iter().filter(|event| event.change == Change::Created).count();
            assert_eq!(created, 1, "{told:?} of {login:?}");
            let deleted = told.iter().filter(|event| event.change == Change::Deleted).count();
            let expected = usize::from(login.state == State::Deleted);
            assert_eq!(deleted, expected, "{told:?} of {login:?}");
        }
        let revoked =
            told[1].iter().filter(|event| matches!(event.change, Change::Revoked { .. })).count();
        assert_eq!(revoked, usize::from(login.state == State::Revoked), "{told:?} of {login:?}");
        let user = store.get_as::<User>(&user).await.unwrap();
        let session = store.get_as::<Session>(&session).await.unwrap();
        assert_eq!(user.is_none(), login.state == State::Deleted, "{login:?}");
        assert_eq!(session.is_none(), login.state == State::Deleted, "{login:?}");
        let is_revoked = session.is_some_and(|session| session.revoked.is_some());
        assert_eq!(is_revoked, login.state == State::Revoked, "{login:?}");
    }
}

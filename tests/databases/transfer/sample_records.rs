//! Records of every kind, with everything in them that could break on the way, and all as the service
//! might have written them.

use std::net::IpAddr;
use std::str::FromStr;

use subscription_core::auth::{
    Client, ClientKey, ClientKind, ClientSource, IdentityKey, Origin, Revocation, RevocationReason,
    Scope, Session, User,
};
use subscription_core::events::{Actor, Change, Event, Subject};
use subscription_core::payments::{Basis, Line, LineKind, PaymentKind, RequestedPayment};
use subscription_core::plans::Reduction;
use subscription_core::store::conformance::at_version;
use subscription_core::store::{
    ChangeSet, Collection, Document, DocumentKey, IdempotencyKey, IdempotencyRecord,
    IdempotencyResult, Operation, Record,
};
use subscription_core::subscriptions::{
    BillingState, Discount, ManagedBy, Quantity, ScheduledChange, Terms,
};
use subscription_core::{
    Amount, BillingCycle, EventId, Metadata, Payment, PaymentId, PaymentStatus, Plan, PlanId,
    Randomness as _, SeededRandomness, SessionId, Store, Subscription, SubscriptionId,
    SubscriptionStatus, Timestamp, UserId, Version,
};

const PRICES: [&str; 8] =
    ["0", "0.00", "0.000000", "0.1", "0.10", "19.90", "100", "999999999999999.999999"];
/// More than nothing, and no more digits than the currency has.
const AMOUNTS: [(&str, &str); 8] = [
    ("0.1", "EUR"),
    ("0.10", "EUR"),
    ("19.90", "USD"),
    ("999999999999999.99", "EUR"),
    ("100", "JPY"),
    ("999999999999999", "JPY"),
    ("0.125", "KWD"),
    ("7", "KWD"),
];
const TEXTS: [&str; 7] =
    ["a", "Größe", r#"a "quote" and a \ "#, "日本 語", "🏠 moving", "\u{2028}x", r"\u0041 {} </b>"];

/// Makes records by chance. The seed repeats them.
pub(crate) struct SampleRecords {
    random: SeededRandomness,
    made: u64,
}

impl SampleRecords {
    /// Of the seed to repeat, or one that nobody has tried yet.
    pub(crate) fn new() -> Self {
        Self { random: SeededRandomness::new(test_support::seed::seed()), made: 0 }
    }

    /// Another that fills the same store: what must be unique is its alone.
    pub(super) fn fork(&self, number: u64) -> Self {
        let seed = u64::from_le_bytes(self.bytes());
        Self { random: SeededRandomness::new(seed), made: (number + 1) << 32 }
    }

    /// Fills a store with this many sets of one record of each kind, and changes some again.
    pub(crate) async fn fill(&mut self, store: &impl Store, sets: usize) {
        let mut left = sets;
        while left > 0 {
            let some = left.min(100);
            let writes: Vec<_> = (0..some).flat_map(|_| self.one_of_each()).collect();
            let again: Vec<_> = writes.iter().filter_map(|write| self.changed(write)).collect();
            for writes in [writes, again] {
                let events = writes.iter().filter_map(|write| self.event(write)).collect();
                let changes = ChangeSet { writes, events, ..ChangeSet::default() };
                store.commit(changes).await.unwrap();
            }
            left -= some;
        }
    }

    pub(super) fn one_of_each(&mut self) -> Vec<Record> {
        self.made += 1;
        let (plan, user) = (self.plan(), self.user());
        let subscription = self.subscription(&user, &plan);
        let (payment, session) = (self.payment(&subscription), self.session(&user));
        let answer = match self.below(3) {
            0 => IdempotencyResult::Plan(plan.clone().into()),
            1 => IdempotencyResult::Subscription(subscription.clone().into()),
            _ => IdempotencyResult::Payment(payment.clone().into()),
        };
        vec![
            Record::from(plan),
            Record::from(subscription),
            Record::from(payment),
            Record::from(user),
            Record::from(session),
            Record::from(self.client()),
            Record::from(self.answer(answer)),
            Record::from(self.document()),
        ]
    }

    /// The event of a new or changed record.
    pub(super) fn event(&self, write: &Record) -> Option<Event> {
        let (subject, change) = match write {
            Record::Plan(plan) => (Subject::Plan(plan.id), Change::Created),
            Record::Subscription(found) => {
                let (from, to) = (self.pick(SubscriptionStatus::all()), found.status);
                (Subject::Subscription(found.id), Change::SubscriptionStatusChanged { from, to })
            }
            Record::Payment(found) => {
                let (from, to) = (self.pick(PaymentStatus::all()), found.status);
                (Subject::Payment(found.id), Change::PaymentStatusChanged { from, to })
            }
            Record::User(user) => {
                let next = User { closing: !user.closing, ..User::clone(user) };
                (Subject::User(user.id), Change::Updated { fields: user.changed_fields(&next) })
            }
            Record::Session(session) => {
                let reason = self.pick(RevocationReason::ALL);
                (Subject::Session(session.id), Change::Revoked { reason })
            }
            Record::Client(client) => (Subject::Client(client.id.clone()), Change::Deleted),
            Record::Idempotency(_) | Record::Document(_) => return None,
        };
        let (at, version) = (self.time(), write.version());
        let id = EventId::new(at, &self.random).unwrap();
        let client = Actor::Client("a-shop".parse().unwrap());
        let actor = self.pick([Actor::Library, Actor::Command, client]);
        Some(Event { id, at, subject, version, change, actor })
    }

    fn changed(&self, write: &Record) -> Option<Record> {
        let changed = at_version(write.clone(), write.version().next().get());
        self.maybe(|| changed)
    }

    fn document(&self) -> Document {
        let (n, text) = (self.made, self.pick(TEXTS));
        let collection = Collection::named(self.pick(["notes", "others"]));
        Document {
            key: DocumentKey { collection, id: parsed(format!("{n}/a\"b\\c~")) },
            version: Version::FIRST,
            owner: self.maybe(|| UserId::new(self.time(), &self.random).unwrap().uuid()),
            label: self.maybe(|| parsed(self.pick(["open", "done"]))),
            due_at: self.maybe(|| self.time()),
            // Neither its blanks nor the order of its members may change.
            body: serde_json::json!({ "z": text, "a": [n, 1.50] })
                .to_string()
                .replace(':', " : ")
                .into(),
        }
    }

    fn plan(&self) -> Plan {
        let n = self.made;
        let mut plan = crate::records::plan(&format!("plan-{n}"));
        plan.id = PlanId::new(self.time(), &self.random).unwrap();
        plan.name = self.text();
        plan.product_id = self.maybe(|| self.text());
        plan.variants = (0..self.below(4)).map(|_| self.text()).collect();
        plan.price = parsed(self.pick(PRICES));
        plan.href = self.maybe(|| parsed("https://example.com/?a=%22b%22"));
        plan.billing_cycle =
            self.pick([BillingCycle::DAILY, BillingCycle::YEARLY, BillingCycle::ONE_TIME]);
        plan.description = parsed(format!("{}\nand\tmore", self.pick(TEXTS)));
        plan.node_quota = self.pick([0, 1, 9_007_199_254_740_991]).try_into().unwrap();
        plan.features = parsed(format!("{}, {} ", self.pick(TEXTS), self.pick(TEXTS)));
        plan.most_popular = self.chance();
        plan.tier = self.pick([0, 10_000]).try_into().unwrap();
        plan.is_active = self.chance();
        plan.metadata = self.metadata();
        plan.currency = self.maybe(|| parsed("EUR")).filter(|_| plan.price.value().scale() <= 2);
        plan.trial_period = self.maybe(|| parsed(self.pick(["P14D", "P1M"])));
        (plan.created_at, plan.updated_at) = (self.time(), self.time());
        plan
    }

    fn subscription(&self, user: &User, plan: &Plan) -> Subscription {
        let status = self.pick(SubscriptionStatus::all());
        let (starts_at, blocked) = (self.time(), self.chance());
        let not_before = |time: Timestamp| time.max(starts_at);
        let is_over = matches!(status, SubscriptionStatus::Cancelled | SubscriptionStatus::Expired);
        let managed_by = self.pick(ManagedBy::ALL);
        Subscription {
            id: SubscriptionId::new(self.time(), &self.random).unwrap(),
            user_id: user.id,
            subscription_plan_id: plan.id,
            external_subscription_id: self.maybe(|| parsed(format!("s {} é", self.made))),
            billing_cycle: self.pick([BillingCycle::MONTHLY, BillingCycle::BIENNIAL]),
            status,
            is_active: self.chance() && !blocked,
            renews_at: self.maybe(|| not_before(self.time())),
            starts_at,
            ends_at: (is_over || self.chance()).then(|| not_before(self.time())),
            metadata: self.metadata(),
            created_at: self.time(),
            updated_at: self.time(),
            version: Version::FIRST,
            blocked,
            anchor_at: self.maybe(|| self.time()),
            managed_by,
            quantity: Quantity::new(self.pick([1, 1_000_000])).unwrap(),
            billing: self.billing(managed_by, starts_at, plan),
            live_key: self.maybe(|| format!("{} é", self.made).into()),
        }
    }

    /// The clock always has one.
    fn billing(
        &self,
        managed_by: ManagedBy,
        starts_at: Timestamp,
        plan: &Plan,
    ) -> Option<Box<BillingState>> {
        let (by_clock, by_provider) =
            (managed_by == ManagedBy::Clock, managed_by == ManagedBy::Provider);
        let (price, currency) = self.pick([("0", "EUR"), ("19.90", "EUR"), ("1.000", "KWD")]);
        let (price, currency) = (parsed(price), parsed(currency));
        let scheduled = ScheduledChange::ChangePlan(Terms {
            subscription_plan_id: plan.id,
            billing_cycle: plan.billing_cycle,
            price,
            currency,
            quantity: Quantity::ONE,
        });
        let pause = ScheduledChange::Pause { resumes_at: self.maybe(|| self.time()) };
        let state = BillingState {
            price: Some(price),
            currency: Some(currency),
            credit: price,
            trial_ends_at: self.maybe(|| self.time()).filter(|end| *end > starts_at),
            resumes_at: self.maybe(|| self.time()),
            current_period_start: self.maybe(|| self.time()),
            past_due_since: self.maybe(|| self.time()),
            next_action_at: by_clock.then(|| self.time()),
            scheduled_change: self.pick([None, Some(scheduled), Some(pause)]),
            period_value: parsed("0.10"),
            credit_of_changes: Amount::ZERO,
            discount: self.maybe(|| self.discount()).filter(|_| by_clock),
            dunning_ended_at: self.maybe(|| self.time()),
            lapses_at: self.maybe(|| self.time()),
            reminded_for: self.maybe(|| self.time()),
            settled_at: self.maybe(|| self.time()),
            cancelled: None,
            manage_url: by_provider.then(|| parsed("https://provider.example/manage?a=1&b=é")),
        };
        (by_clock || self.chance()).then(|| Box::new(state))
    }

    fn discount(&self) -> Discount {
        let percent = Reduction::Percent(parsed(self.pick(["0.01", "33.3", "100"])));
        Discount {
            off: self.pick([percent, Reduction::Amount(parsed("5"))]),
            periods: self.pick([None, Some(3), Some(120)]),
            used: self.pick([0, 3]),
            applied: self.chance(),
        }
    }

    fn payment(&self, subscription: &Subscription) -> Payment {
        let (amount, currency) = self.pick(AMOUNTS);
        let status = self.pick(PaymentStatus::all());
        Payment {
            id: PaymentId::new(self.time(), &self.random).unwrap(),
            subscription_id: subscription.id,
            amount: parsed(amount),
            currency: parsed(currency),
            external_payment_id: self.maybe(|| parsed(format!("p {}", self.made))),
            status,
            metadata: self.metadata(),
            created_at: self.time(),
            updated_at: self.time(),
            version: Version::FIRST,
            settled: status.is_settled() || self.chance(),
            asked: self.maybe(|| Box::new(self.asked(status, parsed(amount)))),
        }
    }

    fn asked(&self, status: PaymentStatus, value: Amount) -> RequestedPayment {
        let period_start = self.time();
        let failed = status == PaymentStatus::Failed;
        RequestedPayment {
            kind: self.pick(PaymentKind::ALL),
            period_start,
            period_end: self.maybe(|| self.time()).filter(|end| *end > period_start),
            due_at: self.time(),
            attempt: self.pick([1, u32::MAX]),
            next_attempt_at: self.maybe(|| self.time()).filter(|_| failed),
            retries: self.pick([0, 15]),
            value,
            cycle: self.pick([BillingCycle::MONTHLY, BillingCycle::ONE_TIME]),
            mirrored: self.chance(),
            by_clock: self.chance(),
            basis: self.maybe(|| self.basis()),
        }
    }

    fn basis(&self) -> Basis {
        let plan = PlanId::new(self.time(), &self.random).unwrap();
        let lines = self.pick([LineKind::Period, LineKind::Change]);
        let lines = vec![Line { kind: lines, amount: parsed("5.0") }];
        Basis::new(plan, parsed("5.0"), self.pick([1, 3]), None, lines)
    }

    fn user(&self) -> User {
        let n = self.made;
        User {
            id: UserId::new(self.time(), &self.random).unwrap(),
            identity: IdentityKey {
                issuer: parsed("https://id.example.com"),
                subject: parsed(format!("{} {n}", self.pick(TEXTS))),
            },
            email: parsed(format!("User-{n}@Example.com")),
            closing: self.chance(),
            created_at: self.time(),
            updated_at: self.time(),
            version: Version::FIRST,
        }
    }

    fn session(&self, user: &User) -> Session {
        let ips: [IpAddr; 3] =
            [parsed("192.0.2.1"), parsed("2001:db8::1"), parsed("::ffff:1.2.3.4")];
        let reason = self.pick(RevocationReason::ALL);
        Session {
            id: SessionId::new(self.time(), &self.random).unwrap(),
            user_id: user.id,
            client_id: parsed("web"),
            issuer: user.identity.issuer.clone(),
            opened_with: self.bytes(),
            key_id: self.pick([0, 255]),
            salt: self.bytes(),
            generation: self.pick([0, u32::MAX]),
            rotated_at: self.time(),
            successor_used: self.chance(),
            auth_time: self.time(),
            last_seen_at: self.time(),
            expires_at: self.time(),
            idle_expires_at: self.time(),
            revoked: self.maybe(|| Revocation { at: self.time(), reason }),
            origin: Origin {
                ip: self.maybe(|| self.pick(ips)),
                user_agent: self.maybe(|| self.text()),
            },
            created_at: self.time(),
            updated_at: self.time(),
            version: Version::FIRST,
        }
    }

    fn client(&self) -> Client {
        let key = |key_id| ClientKey { key_id, hash: self.bytes(), created_at: self.time() };
        let kind = self.pick(ClientKind::ALL);
        let is_public = kind == ClientKind::Public;
        let allowed = |scope: &Scope| !is_public || scope.is_public();
        Client {
            id: parsed(format!("client-{}", self.made)),
            name: self.text(),
            kind,
            scopes: Scope::ALL.into_iter().filter(allowed).filter(|_| self.chance()).collect(),
            keys: (0..if is_public { 0 } else { self.pick([0, 1, 2]) }).map(key).collect(),
            revoked_at: self.maybe(|| self.time()),
            origins: ["https://shop.example", "http://[::1]:3000"]
                .into_iter()
                .filter(|_| is_public && self.chance())
                .map(parsed)
                .collect(),
            source: self.pick(ClientSource::ALL),
            left_at: self.maybe(|| self.time()),
            created_at: self.time(),
            updated_at: self.time(),
            version: Version::FIRST,
        }
    }

    fn answer(&self, answer: IdempotencyResult) -> IdempotencyRecord {
        let operation = match &answer {
            IdempotencyResult::Plan(_) => Operation::CreatePlan,
            IdempotencyResult::Subscription(_) => {
                self.pick([Operation::CreateSubscription, Operation::Act])
            }
            IdempotencyResult::Payment(_) => {
                self.pick([Operation::CreatePayment, Operation::RetryPayment])
            }
        };
        IdempotencyRecord {
            key: IdempotencyKey {
                operation,
                client: self.pick(TEXTS).to_owned(),
                key: parsed(format!("\"key\\{}", self.made)),
            },
            version: Version::FIRST,
            fingerprint: self.bytes(),
            result: answer,
            expires_at: self.time(),
        }
    }

    fn below(&self, end: u64) -> u64 {
        u64::from_le_bytes(self.bytes()) % end
    }

    fn chance(&self) -> bool {
        self.below(2) == 0
    }

    fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.random.fill(&mut bytes).unwrap();
        bytes
    }

    fn pick<T>(&self, choices: impl IntoIterator<Item = T>) -> T {
        let mut choices: Vec<_> = choices.into_iter().collect();
        let nth = self.below(choices.len() as u64);
        choices.swap_remove(usize::try_from(nth).unwrap())
    }

    fn maybe<T>(&self, make: impl FnOnce() -> T) -> Option<T> {
        self.chance().then(make)
    }

    fn text<T: FromStr<Err: std::fmt::Debug>>(&self) -> T {
        parsed(self.pick(TEXTS))
    }

    /// Often none; else some texts as keys and values, the longest first.
    fn metadata(&self) -> Option<Metadata> {
        let mut keys: Vec<_> = TEXTS.into_iter().filter(|_| self.chance()).collect();
        keys.sort_by_key(|key| std::cmp::Reverse(key.len()));
        let pairs = keys.into_iter().map(|key| (key, self.pick(TEXTS)));
        self.maybe(|| Metadata::new(pairs).unwrap()).flatten()
    }

    /// Whole seconds, milliseconds, microseconds, and the ends of time.
    fn time(&self) -> Timestamp {
        let micros = match self.below(8) {
            0 => self.pick([Timestamp::MIN, Timestamp::MAX]).micros(),
            1 => 1_738_281_600_000_000,
            2 => 1_738_281_600_120_000,
            _ => i64::try_from(self.below(4_000_000_000_000_000)).unwrap(),
        };
        Timestamp::from_micros(micros).unwrap()
    }
}

fn parsed<T: FromStr<Err: std::fmt::Debug>>(text: impl AsRef<str>) -> T {
    text.as_ref().parse().unwrap()
}

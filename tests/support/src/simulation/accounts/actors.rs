//! Actors that sign in, refresh tokens and log out. They stand for honest people, their other browser tabs, and
//! thieves.

use std::collections::BTreeMap;

use subscription_core::auth::Authenticated;
use subscription_core::{PlanId, SessionId, Slug, UserId};

use super::operation::{Operation, Pair, Person};
use crate::rng::Rng;
use crate::service_world::of;

const MINUTE: u64 = 60;
const DAY: u64 = 24 * 60 * MINUTE;

/// Maximum number of callers that are stored. The old ones are useful because they are stale.
const CALLERS_MAX: usize = 40;

/// Maximum number of users that are stored.
const USERS_MAX: usize = 60;

/// Maximum number of sessions whose tokens are stored, and maximum number of token pairs for each session.
const SESSIONS_MAX: usize = 60;
const PAIRS_MAX: usize = 20;

/// Maximum number of token pairs that are stored of all older sessions.
const RELICS_MAX: usize = 60;

/// The tokens that any actor may use. Their number is bounded, so that a step takes the same time in a run of any
/// length.
#[derive(Debug)]
pub struct Loot {
    /// The pairs of tokens that the service has returned, by session. The oldest pair is first.
    pub pairs: BTreeMap<SessionId, Vec<Pair>>,
    /// The last pairs of a random sample of the sessions that are no longer in `pairs`.
    pub relics: Vec<Pair>,
    /// The callers that were authenticated last.
    pub callers: Vec<Authenticated>,
    /// The users who got tokens last.
    pub users: Vec<UserId>,
    pub plan: PlanId,
    /// The number of sessions that are no longer in `pairs`.
    left: u32,
    rng: Rng,
}

impl Loot {
    pub const fn new(plan: PlanId, rng: Rng) -> Self {
        Self {
            pairs: BTreeMap::new(),
            relics: Vec::new(),
            callers: Vec::new(),
            users: Vec::new(),
            plan,
            left: 0,
            rng,
        }
    }

    /// Stores a pair of tokens that the service has returned.
    pub fn keep(&mut self, pair: Pair) {
        if !self.users.contains(&pair.user) {
            push(&mut self.users, pair.user, USERS_MAX);
        }
        push(self.pairs.entry(pair.session).or_default(), pair, PAIRS_MAX);
        if self.pairs.len() > SESSIONS_MAX
            && let Some((_, mut oldest)) = self.pairs.pop_first()
            && let Some(relic) = oldest.pop()
        {
            self.bury(relic);
        }
    }

    /// Adds a pair to the random sample `relics`, or drops it. Every pair ever given to this function has the same
    /// chance to be in the sample.
    fn bury(&mut self, relic: Pair) {
        self.left += 1;
        if self.relics.len() < RELICS_MAX {
            self.relics.push(relic);
        } else if let Some(place) = self.relics.get_mut(self.rng.below(self.left) as usize) {
            *place = relic;
        }
    }

    /// Stores a caller who was authenticated.
    pub fn meet(&mut self, caller: Authenticated) {
        push(&mut self.callers, caller, CALLERS_MAX);
    }
}

/// Adds an item at the end of a list. If the list already has `max` items, its first item is removed.
fn push<T>(list: &mut Vec<T>, one: T, max: usize) {
    if list.len() >= max {
        list.remove(0);
    }
    list.push(one);
}

/// A caller that performs random operations.
#[derive(Debug)]
pub struct Actor(pub(super) Rng);

impl Actor {
    /// The next operation of this actor.
    pub fn next(&mut self, loot: &Loot) -> Operation {
        match self.0.below(100) {
            0..14 => Operation::SignUp(self.person()),
            14..32 => Operation::SignIn(self.person()),
            32..52 => self.with_pair(loot, Operation::Refresh),
            52..70 => self.with_pair(loot, Operation::Authenticate),
            70..74 => self.with_pair(loot, Operation::LogOut),
            74..76 => self.with_caller(loot, Operation::RevokeAll),
            76..79 => self.with_caller(loot, Operation::RevokeOthers),
            79..82 => self.with_caller(loot, Operation::DeleteAccount),
            82..84 => Operation::ForgetEnded,
            84..89 => self.subscribe(loot),
            89..92 => self.with_client(),
            _ => Operation::TurnClock(self.span()),
        }
    }

    /// An operation of another actor at the same time, mostly on the same user.
    pub fn meanwhile(&mut self, first: &Operation, loot: &Loot) -> Operation {
        let user = match first {
            Operation::Refresh(pair) | Operation::Authenticate(pair) | Operation::LogOut(pair) => {
                Some(pair.user)
            }
            Operation::RevokeAll(by)
            | Operation::RevokeOthers(by)
            | Operation::DeleteAccount(by) => Some(by.claims.sub),
            Operation::Subscribe(user, _) => Some(*user),
            Operation::SignUp(person) | Operation::SignIn(person) if self.0.percent(60) => {
                let rival = Person { client: self.client(), ..person.clone() };
                let sign_in = self.0.percent(50);
                return if sign_in { Operation::SignIn(rival) } else { Operation::SignUp(rival) };
            }
            Operation::SignUp(_)
            | Operation::SignIn(_)
            | Operation::ForgetEnded
            | Operation::CreateClient(_)
            | Operation::RotateClientKey(_)
            | Operation::RevokeClient(_)
            | Operation::TurnClock(_) => None,
        };
        let Some(user) = user.filter(|_| self.0.percent(85)) else { return self.next(loot) };
        let pairs = loot.pairs.values().filter_map(|pairs| pairs.last());
        let pair = self.0.pick(pairs.filter(|pair| pair.user == user)).cloned();
        let caller = loot.callers.iter().rfind(|caller| caller.claims.sub == user).cloned();
        match (self.0.below(8), pair, caller) {
            (0..2, Some(pair), _) => Operation::Refresh(pair),
            (2..4, Some(pair), _) => Operation::Authenticate(pair),
            (4, Some(pair), _) => Operation::LogOut(pair),
            (5, _, Some(caller)) => Operation::RevokeAll(Box::new(caller)),
            (6, _, Some(caller)) => Operation::DeleteAccount(Box::new(caller)),
            _ => Operation::Subscribe(user, loot.plan),
        }
    }

    /// One of a few people, with one of a few addresses, so that their operations conflict.
    fn person(&mut self) -> Person {
        let who = self.0.below(6);
        let at = if self.0.percent(80) { who % 5 } else { self.0.below(5) };
        let email = format!("e{at}@example.com");
        let claimed = if self.0.percent(3) { "else@example.com".into() } else { email.clone() };
        Person {
            subject: format!("s{who}"),
            email,
            claimed,
            verified: !self.0.percent(3),
            client: self.client(),
            nonce: self.0.below(3),
        }
    }

    fn client(&mut self) -> Slug {
        of(self.0.pick(["web", "mobile", "web"]).unwrap_or("web"))
    }

    /// Chooses a pair of tokens for an operation: mostly the newest of a session, often the one before it, sometimes
    /// any.
    fn with_pair(&mut self, loot: &Loot, make: impl FnOnce(Pair) -> Operation) -> Operation {
        // Later sessions are chosen more often, because most of the early sessions have ended.
        let recent = loot.pairs.len().saturating_sub(8);
        let skipped = if self.0.percent(75) { recent } else { 0 };
        let Some(pairs) = self.0.pick(loot.pairs.values().skip(skipped)) else {
            return Operation::SignUp(self.person());
        };
        let back = match self.0.below(10) {
            0..7 => 0,
            7..9 => 1,
            _ => self.0.below(pairs.len()),
        };
        let pair = pairs.iter().rev().nth(back).or(pairs.first()).cloned();
        let Some(mut pair) = pair else { return Operation::ForgetEnded };
        if self.0.percent(2) {
            pair.client = of("other");
        }
        make(pair)
    }

    fn with_caller(
        &mut self,
        loot: &Loot,
        make: impl FnOnce(Box<Authenticated>) -> Operation,
    ) -> Operation {
        let back = if self.0.percent(80) { 5 } else { CALLERS_MAX };
        match self.0.pick(loot.callers.iter().rev().take(back)) {
            Some(caller) => make(Box::new(caller.clone())),
            None => self.with_pair(loot, Operation::Authenticate),
        }
    }

    fn subscribe(&mut self, loot: &Loot) -> Operation {
        let back = if self.0.percent(70) { 5 } else { usize::MAX };
        match self.0.pick(loot.users.iter().rev().take(back)) {
            Some(user) => Operation::Subscribe(*user, loot.plan),
            None => Operation::SignUp(self.person()),
        }
    }

    fn with_client(&mut self) -> Operation {
        let id = of(&format!("server-{}", self.0.below(3)));
        match self.0.below(5) {
            0..2 => Operation::CreateClient(id),
            2..4 => Operation::RotateClientKey(id),
            _ => Operation::RevokeClient(id),
        }
    }

    /// A random time span in seconds. Most spans are short, so that tokens are still valid. Sometimes a span is weeks
    /// long.
    fn span(&mut self) -> u64 {
        match self.0.below(100) {
            0..50 => self.0.below(20),
            50..70 => 25 + self.0.below(10),
            70..85 => MINUTE * (1 + self.0.below(14)),
            85..93 => MINUTE * (60 + self.0.below(1_000)),
            93..96 => DAY * (1 + self.0.below(8)),
            _ => DAY * (14 + self.0.below(80)),
        }
    }
}

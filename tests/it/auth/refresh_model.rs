//! Random lives of a session, held against a second telling of the rules.
//!
//! A failing life prints its seed; `SUBSCRIPTION_TEST_SEED=<seed>` repeats that one alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use subscription_core::accounts::Session;
use subscription_core::store::StoreExt as _;

use secrecy::{ExposeSecret as _, SecretString};
use subscription_core::auth::{AuthSettings, Authenticated, SignedIn};
use subscription_core::{Clock as _, Timestamp};
use test_support::rng::Rng;
use test_support::seed::{meet_all_states, seeds};

use super::world::{AuthWorld, seconds, web};

const MINUTE: i64 = 60;
const DAY: i64 = 24 * 60 * MINUTE;

/// The rules of the contract, told in whole seconds and on their own.
#[derive(Debug)]
struct Model {
    opened_at: i64,
    generation: u32,
    rotated_at: i64,
    successor_used: bool,
    end: Option<End>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Revoked,
    Deleted,
}

/// The result of a refresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refreshed {
    To(u32),
    Refused(&'static str),
}

impl Model {
    fn opened(now: i64) -> Self {
        Self { opened_at: now, generation: 1, rotated_at: now, successor_used: false, end: None }
    }

    fn expired(&self, now: i64) -> bool {
        now - self.rotated_at >= 14 * DAY || now - self.opened_at >= 90 * DAY
    }

    fn is_live(&self, now: i64) -> bool {
        self.end.is_none() && !self.expired(now)
    }

    fn refresh(&mut self, generation: u32, now: i64) -> Refreshed {
        let age = now - self.rotated_at;
        match self.end {
            Some(End::Deleted) => return Refreshed::Refused("refresh_token_invalid"),
            Some(End::Revoked) => return Refreshed::Refused("session_revoked"),
            None if self.expired(now) => return Refreshed::Refused("session_expired"),
            None => {}
        }
        match self.generation - generation {
            0 => {
                self.generation += 1;
                self.rotated_at = now;
                self.successor_used = false;
                Refreshed::To(self.generation)
            }
            1 if age < 30 => Refreshed::To(self.generation),
            1 if age < 10 * MINUTE && !self.successor_used => Refreshed::To(self.generation),
            _ => {
                self.end = Some(End::Revoked);
                Refreshed::Refused("refresh_token_reused")
            }
        }
    }

    fn check(&mut self, token: &Access, now: i64) -> Result<(), &'static str> {
        if now >= token.issued_at + 10 * MINUTE + 30 {
            return Err("token_expired");
        }
        if self.end.is_some() {
            return Err("session_revoked");
        }
        if self.expired(now) {
            return Err("session_expired");
        }
        self.successor_used |= token.generation == self.generation;
        Ok(())
    }

    /// Ends a session that has not ended, and says how many that were.
    fn revoke(&mut self, now: i64) -> usize {
        let live = self.is_live(now);
        if live {
            self.end = Some(End::Revoked);
        }
        usize::from(live)
    }
}

#[derive(Debug, Clone)]
struct Access {
    token: SecretString,
    generation: u32,
    issued_at: i64,
}

/// One session in the hands of honest tabs and thieves, who have every token ever answered.
struct Life {
    world: AuthWorld,
    model: Model,
    caller: Authenticated,
    rng: Rng,
    refresh_tokens: BTreeMap<u32, SecretString>,
    access_tokens: Vec<Access>,
    /// Counts of events, to show that enough of them occurred.
    seen: BTreeSet<&'static str>,
}

impl Life {
    async fn begin(seed: u64) -> Self {
        let world = AuthWorld::with(AuthSettings::default());
        let first = world.sign_up("ada").await;
        let caller = world.check(&first).await.unwrap();
        let now = seconds(world.clock.now());
        let mut model = Model::opened(now);
        model.successor_used = true;
        let rng = Rng::new(seed);
        let mut life = Self {
            world,
            model,
            caller,
            rng,
            refresh_tokens: BTreeMap::new(),
            access_tokens: Vec::new(),
            seen: BTreeSet::new(),
        };
        life.learn(&first);
        life
    }

    fn now(&self) -> i64 {
        seconds(self.world.clock.now())
    }

    fn learn(&mut self, pair: &SignedIn) {
        let (generation, issued_at) = (pair.session.generation, self.now());
        self.refresh_tokens.insert(generation, pair.refresh_token.clone());
        let token = pair.access_token.clone();
        self.access_tokens.push(Access { token, generation, issued_at });
    }

    async fn step(&mut self) {
        match self.rng.below(100) {
            0..40 => self.refresh().await,
            40..65 => self.check().await,
            65..97 => self.turn_the_clock(),
            97 => self.log_out().await,
            98 => self.revoke_all().await,
            _ if self.rng.below(3) == 0 => self.delete().await,
            _ => {}
        }
        self.compare().await;
    }

    /// Presents the newest token that is known, the one before, or any; the answer may be lost.
    async fn refresh(&mut self) {
        let known: Vec<u32> = self.refresh_tokens.keys().rev().copied().collect();
        let among = match self.rng.below(10) {
            0..6 => known.get(..1),
            6..9 => known.get(..2),
            _ => None,
        };
        let generation = *self.rng.pick(among.unwrap_or(&known)).unwrap();
        let token = self.refresh_tokens.get(&generation).unwrap();

        let answer = self.world.auth.refresh(&web(), token).await;

        let before = self.model.generation;
        let expected = self.model.refresh(generation, self.now());
        let came_to = match &answer {
            Ok(pair) => Refreshed::To(pair.session.generation),
            Err(error) => Refreshed::Refused(error.code()),
        };
        assert_eq!(came_to, expected, "generation {generation} at {:?}", self.model);
        self.seen.insert(match expected {
            Refreshed::To(next) if next > before => "rotated",
            Refreshed::To(_) if self.model.successor_used => "overlapped",
            Refreshed::To(_) => "repeated",
            Refreshed::Refused(code) => code,
        });
        let Ok(pair) = answer else { return };
        if let Some(same) = self.refresh_tokens.get(&pair.session.generation) {
            assert_eq!(same.expose_secret(), pair.refresh_token.expose_secret());
        }
        let lost = self.rng.below(4) == 0;
        if !lost {
            self.learn(&pair);
        }
    }

    async fn check(&mut self) {
        let recent = self.access_tokens.len().saturating_sub(4);
        let token = self.rng.pick(self.access_tokens.get(recent..).unwrap()).unwrap().clone();

        let answer = self.world.auth.authenticate(&web(), &token.token).await;

        let expected = self.model.check(&token, self.now());
        let came_to = answer.map(drop).map_err(|error| error.code());
        assert_eq!(came_to, expected, "{token:?} at {:?}", self.model);
        self.seen.insert(expected.map_or_else(|code| code, |()| "checked"));
    }

    fn turn_the_clock(&self) {
        let spans = [0, 1, 5, 29, 30, 31, 5 * MINUTE, 10 * MINUTE - 1, 10 * MINUTE, 11 * MINUTE];
        let span = match self.rng.below(40) {
            0 => DAY,
            1 => 14 * DAY - 1,
            2..5 => -self.rng.below(45),
            _ => *self.rng.pick(&spans).unwrap(),
        };
        let turned = Timestamp::from_micros(self.world.clock.now().micros() + span * 1_000_000);
        self.world.clock.set(turned.unwrap());
    }

    async fn log_out(&mut self) {
        let token = self.access_tokens.last().unwrap();
        let left = self.world.auth.logout(&web(), &token.token).await;
        assert_eq!(left.unwrap(), self.model.revoke(self.now()));
    }

    async fn revoke_all(&mut self) {
        let revoked = self.world.auth.revoke_all(&self.caller).await;
        match self.model.end {
            Some(End::Deleted) => assert_eq!(revoked.unwrap_err().code(), "session_revoked"),
            Some(End::Revoked) | None => {
                assert_eq!(revoked.unwrap(), self.model.revoke(self.now()));
            }
        }
    }

    async fn delete(&mut self) {
        let own = self.caller.claims.sub.to_string();
        let deleted = self.world.auth.delete_account(&self.caller, &own).await;
        assert_eq!(deleted.is_ok(), self.model.end != Some(End::Deleted));
        self.model.end = Some(End::Deleted);
    }

    /// Holds the row against the model.
    async fn compare(&self) {
        let row = self.world.store.get_as::<Session>(&self.caller.claims.sid).await.unwrap();
        let Some(row) = row else {
            assert_eq!(self.model.end, Some(End::Deleted));
            return;
        };
        let end = row.revoked.map(|_| End::Revoked);
        assert_eq!((row.generation, end), (self.model.generation, self.model.end));
        assert_eq!(row.successor_used, self.model.successor_used, "{:?}", self.model);
        assert_eq!(seconds(row.rotated_at), self.model.rotated_at);
    }
}

#[tokio::test]
async fn random_lives_follow_the_table() {
    let seeds = seeds(10);
    let mut seen = BTreeSet::new();
    for seed in &seeds {
        println!("SUBSCRIPTION_TEST_SEED={seed}");
        let mut life = Life::begin(*seed).await;
        let mut steps = 200;
        while steps > 0 {
            // A session that has ended is soon told so in every way.
            steps -= if life.model.end.is_none() { 1 } else { 10 };
            life.step().await;
        }
        seen.append(&mut life.seen);
    }
    let everything = BTreeSet::from([
        "rotated",
        "overlapped",
        "repeated",
        "checked",
        "refresh_token_reused",
        "refresh_token_invalid",
        "session_revoked",
        "session_expired",
        "token_expired",
    ]);
    assert!(!meet_all_states(&seeds) || seen == everything, "only {seen:?}");
}

fn advance(world: &AuthWorld, seconds: u64) {
    world.clock.advance(Duration::from_secs(seconds));
}

/// Tabs that share a jar refresh when their token has run out: all of them within the overlap, with
/// answers that get lost. If all answers did, one tab tries again within the time for that.
async fn refresh_by_tabs(world: &AuthWorld, rng: &Rng, jar: &SignedIn) -> SignedIn {
    let mut answered = None;
    for _ in 0..=rng.below(3) {
        let pair = world.refresh(jar).await.unwrap();
        if rng.below(3) > 0 {
            world.check(&pair).await.unwrap();
            answered = Some(pair);
        }
        advance(world, rng.below(10));
    }
    let mut patience = 9 * 60;
    while answered.is_none() {
        let wait = rng.below(patience / 2);
        patience -= wait;
        advance(world, wait);
        let pair = world.refresh(jar).await.unwrap();
        // In the end an answer comes through.
        answered = (patience < 60 || rng.below(2) == 0).then_some(pair);
    }
    answered.unwrap()
}

#[tokio::test]
async fn honest_tabs_that_keep_to_the_windows_are_never_logged_out() {
    for seed in seeds(10) {
        println!("SUBSCRIPTION_TEST_SEED={seed}");
        let (world, rng) = (AuthWorld::new(), Rng::new(seed));
        let mut jar = world.sign_up("ada").await;
        for refreshes in 2..30 {
            world.check(&jar).await.unwrap();
            advance(&world, 60 + rng.below(60 * 60 * 24));
            jar = refresh_by_tabs(&world, &rng, &jar).await;
            assert_eq!(jar.session.generation, refreshes, "seed {seed}");
        }
        assert_eq!(world.row(&jar).await.revoked, None, "seed {seed}");
    }
}

/// A holder of a copy of a refresh token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    Victim,
    Thief,
}

#[tokio::test]
async fn a_thief_and_a_victim_are_never_both_served_outside_of_the_windows() {
    for seed in seeds(10) {
        println!("SUBSCRIPTION_TEST_SEED={seed}");
        let (world, rng) = (AuthWorld::new(), Rng::new(seed));
        let mut jar = world.sign_up("ada").await;
        for _ in 0..rng.below(5) {
            advance(&world, 10 * 60 + rng.below(DAY.unsigned_abs()));
            jar = world.refresh(&jar).await.unwrap();
        }

        let (mut victim, mut thief) = (jar.clone(), jar);
        let (mut first_served, mut found_out) = (None, false);
        for _ in 0..10 {
            advance(&world, 10 * 60 + rng.below(DAY.unsigned_abs()));
            let holder = if rng.below(2) == 0 { Holder::Victim } else { Holder::Thief };
            let own = if holder == Holder::Victim { &mut victim } else { &mut thief };
            match world.refresh(own).await {
                Ok(pair) => {
                    assert!(!found_out, "seed {seed}: {holder:?} served after the theft");
                    assert_eq!(*first_served.get_or_insert(holder), holder, "seed {seed}");
                    // Used or not: the other is late for either window.
                    if rng.below(2) == 0 {
                        world.check(&pair).await.unwrap();
                    }
                    *own = pair;
                }
                Err(error) if found_out => assert_eq!(error.code(), "session_revoked"),
                Err(error) => {
                    assert_eq!(error.code(), "refresh_token_reused", "seed {seed}");
                    assert_ne!(first_served, Some(holder), "seed {seed}");
                    found_out = true;
                }
            }
        }
    }
}

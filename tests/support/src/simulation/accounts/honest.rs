//! An honest actor, whose account and session nobody else uses.
//!
//! Their responses get lost like those of others. They repeat the request with their current tokens, soon enough that
//! the previous refresh token is still accepted. The service must never treat them as a thief.

use std::time::Duration;

use subscription_core::{Authentication, Clock as _, ManualClock, SubscriptionService, Timestamp};

use super::operation::{Operation, Outcome, Pair, Person, Reply, is_unsure};
use crate::rng::Rng;
use crate::service_world::of;
use crate::simulation::invariants::Broken;

/// How many seconds they repeat a request: a little less than the time for which the previous refresh token is still
/// accepted.
const PATIENCE: u64 = 590;

/// The honest actor.
#[derive(Debug)]
pub struct Honest {
    rng: Rng,
    jar: Option<Pair>,
    /// How often only a repeated request got a response.
    pub recovered: u32,
}

/// Operations with their outcomes, in order.
pub type Turn = Vec<(Operation, Outcome)>;

impl Honest {
    pub const fn new(rng: Rng) -> Self {
        Self { rng, jar: None, recovered: 0 }
    }

    fn person() -> Person {
        Person {
            subject: "honest".into(),
            email: "honest@example.com".into(),
            claimed: "honest@example.com".into(),
            verified: true,
            client: of("honest"),
            nonce: 0,
        }
    }

    /// Signs in if there is no session. Otherwise uses the session and refreshes it, and repeats until there is a
    /// response.
    pub async fn turn(
        &mut self,
        auth: &Authentication,
        service: &SubscriptionService,
        clock: &ManualClock,
        turn: &mut Turn,
    ) -> Result<(), Broken> {
        self.jar = self.jar.take().filter(|jar| clock.now() < jar.ends_at);
        let Some(jar) = self.jar.clone() else {
            for ask in [Operation::SignIn(Self::person()), Operation::SignUp(Self::person())] {
                let outcome = ask.perform(auth, service).await;
                if let Ok(Reply::Tokens(pair)) = &outcome {
                    self.jar = Some(pair.clone());
                }
                turn.push((ask, outcome));
                if self.jar.is_some() {
                    break;
                }
            }
            return Ok(());
        };
        if self.rng.percent(60) {
            let ask = Operation::Authenticate(jar.clone());
            let outcome = ask.perform(auth, service).await;
            stays_in(&outcome, &jar, clock.now())?;
            turn.push((ask, outcome));
        }
        let mut left = PATIENCE;
        let mut again = false;
        loop {
            let ask = Operation::Refresh(jar.clone());
            let outcome = ask.perform(auth, service).await;
            turn.push((ask, outcome.clone()));
            if let Ok(Reply::Tokens(pair)) = outcome {
                let known = jar.generation..=jar.generation + 1;
                if pair.session != jar.session || !known.contains(&pair.generation) {
                    let detail = format!("{jar:?} became {pair:?}");
                    return Err(Broken::new("honest_actors_stay_logged_in", detail));
                }
                self.recovered += u32::from(again);
                self.jar = Some(pair);
                return Ok(());
            }
            stays_in(&outcome, &jar, clock.now())?;
            if !is_unsure(&outcome) {
                return Ok(());
            }
            again = true;
            // The current tokens may still be valid meanwhile, and are tried.
            if self.rng.percent(40) {
                let ask = Operation::Authenticate(jar.clone());
                let outcome = ask.perform(auth, service).await;
                stays_in(&outcome, &jar, clock.now())?;
                turn.push((ask, outcome));
            }
            let wait = self.rng.below(200).min(left);
            left -= wait;
            clock.advance(Duration::from_secs(wait));
        }
    }
}

/// Checks that the actor is not logged out, unless the session's time has ended.
fn stays_in(outcome: &Outcome, jar: &Pair, now: Timestamp) -> Result<(), Broken> {
    match outcome {
        Ok(_) | Err("token_expired") => Ok(()),
        _ if is_unsure(outcome) => Ok(()),
        Err("session_expired") if now >= jar.ends_at => Ok(()),
        Err(code) => {
            let detail = format!("{code} for {jar:?}");
            Err(Broken::new("honest_actors_stay_logged_in", detail))
        }
    }
}

//! The model of accounts: the users who must exist, and the sessions that have ended with certainty.
//!
//! The model has no generations, windows or versions. It only stores what the service has promised. After a lost result
//! it reads the store, which must show the change completely or not at all.

use std::collections::{BTreeMap, BTreeSet};

use subscription_core::auth::Authenticated;
use subscription_core::{SessionId, Timestamp, UserId};

use super::operation::{Operation, Outcome, Pair, Person, Reply, is_unsure};
use super::snapshot::Snapshot;
use crate::simulation::invariants::Broken;

/// An account: its identity at the provider and its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub subject: String,
    pub email: String,
}

/// The state that follows from the results so far.
#[derive(Debug, Default)]
pub struct Model {
    pub accounts: BTreeMap<UserId, Account>,
    /// The sessions that have ended with certainty: a result confirmed it, or the store showed it after a lost result.
    pub ended: BTreeSet<SessionId>,
    /// The deleted users: the deletion was confirmed, or its result was lost and the store does not have the user.
    pub gone: BTreeSet<UserId>,
    maybe_made: Vec<Account>,
    /// Sign-ins that may have given an account another address.
    maybe_moved: Vec<Account>,
    maybe_deleted: BTreeSet<UserId>,
}

/// An operation with its outcome, and the store before and after it.
#[derive(Debug)]
pub struct Seen<'a> {
    pub operation: &'a Operation,
    pub outcome: &'a Outcome,
    pub now: Timestamp,
    pub before: &'a Snapshot,
    pub after: &'a Snapshot,
    /// True if no other operation ran in the same step.
    pub alone: bool,
}

impl Model {
    /// True if no token of this pair may be accepted.
    pub fn has_ended(&self, pair: &Pair) -> bool {
        self.ended.contains(&pair.session) || self.gone.contains(&pair.user)
    }

    /// Applies the outcome of one operation to the model. Fails if the outcome is wrong.
    pub fn accept(&mut self, seen: &Seen<'_>) -> Result<(), Broken> {
        if seen.alone {
            self.foresee(seen)?;
        }
        let sure = seen.outcome.is_ok();
        match seen.operation {
            Operation::SignUp(person) => {
                let account = account(person);
                match seen.outcome {
                    Ok(Reply::Tokens(pair)) => {
                        self.accounts.insert(pair.user, account);
                    }
                    _ if is_unsure(seen.outcome) => self.maybe_made.push(account),
                    _ => {}
                }
            }
            Operation::LogOut(pair) => self.end(seen, sure, [pair.session].into())?,
            Operation::RevokeAll(by) => self.end(seen, sure, others(seen, by, None))?,
            Operation::RevokeOthers(by) => {
                self.end(seen, sure, others(seen, by, Some(by.claims.sid)))?;
            }
            Operation::DeleteAccount(by) => {
                let user = by.claims.sub;
                if sure {
                    self.accounts.remove(&user);
                    self.gone.insert(user);
                } else if is_unsure(seen.outcome) {
                    self.maybe_deleted.insert(user);
                }
            }
            Operation::SignIn(person) => match seen.outcome {
                Ok(Reply::Tokens(pair)) if seen.alone => {
                    self.accounts.insert(pair.user, account(person));
                }
                Ok(_) => self.maybe_moved.push(account(person)),
                _ if is_unsure(seen.outcome) => self.maybe_moved.push(account(person)),
                _ => {}
            },
            Operation::Refresh(_)
            | Operation::Authenticate(_)
            | Operation::ForgetEnded
            | Operation::Subscribe(..)
            | Operation::CreateClient(_)
            | Operation::RotateClientKey(_)
            | Operation::RevokeClient(_)
            | Operation::TurnClock(_) => {}
        }
        Ok(())
    }

    /// Resolves lost results by the state of the store. It is called after all operations of a step were applied.
    pub fn resolve(&mut self, after: &Snapshot) {
        for (id, user) in &after.users {
            let found = Account {
                subject: user.identity.subject.to_string(),
                email: user.email.as_str().to_owned(),
            };
            let made = self.maybe_made.iter().any(|made| made.subject == found.subject);
            let is_so = self.maybe_made.contains(&found) || self.maybe_moved.contains(&found);
            if (self.accounts.contains_key(id) || made) && is_so {
                self.accounts.insert(*id, found);
            }
        }
        for user in std::mem::take(&mut self.maybe_deleted) {
            if !after.users.contains_key(&user) {
                self.accounts.remove(&user);
                self.gone.insert(user);
            }
        }
        self.maybe_made.clear();
        self.maybe_moved.clear();
    }

    /// Marks sessions as ended. If the result was lost, the store must show that all of them ended, or none.
    fn end(
        &mut self,
        seen: &Seen<'_>,
        sure: bool,
        sessions: BTreeSet<SessionId>,
    ) -> Result<(), Broken> {
        let live = |id: &&SessionId| {
            seen.before.sessions.get(*id).is_some_and(|session| session.is_live(seen.now))
        };
        let going: BTreeSet<_> = sessions.iter().filter(live).copied().collect();
        if let (true, Ok(Reply::Count(count))) = (seen.alone, seen.outcome)
            && *count != going.len()
        {
            let detail = format!("{:?} ended {count} of {going:?}", seen.operation);
            return Err(Broken::new("answers_agree_with_the_model", detail));
        }
        if sure {
            self.ended.extend(sessions);
            return Ok(());
        }
        if !is_unsure(seen.outcome) {
            return Ok(());
        }
        let revoked = seen.after.revoked(&going);
        if seen.alone && !revoked.is_empty() && revoked != going {
            let detail = format!("{:?} ended {revoked:?} of {going:?}", seen.operation);
            return Err(Broken::new("changes_are_whole", detail));
        }
        self.ended.extend(revoked);
        Ok(())
    }

    /// Checks the result of an operation that ran alone, because then it can be predicted.
    fn foresee(&self, seen: &Seen<'_>) -> Result<(), Broken> {
        let known = |person: &Person| {
            self.accounts.values().any(|account| account.subject == person.subject)
        };
        let email_taken = |person: &Person| {
            let mut others = self.accounts.values().filter(|one| one.subject != person.subject);
            others.any(|account| account.email == person.email)
        };
        let exists = |user: UserId| self.accounts.contains_key(&user);
        let expected = match seen.operation {
            Operation::SignUp(person) | Operation::SignIn(person) if !person.is_proved() => {
                Some(if person.claimed == person.email {
                    "email_not_verified"
                } else {
                    "email_mismatch"
                })
            }
            Operation::SignUp(person) if known(person) => Some("account_exists"),
            Operation::SignUp(person) if email_taken(person) => Some("email_in_use"),
            Operation::SignIn(person) if !known(person) => Some("account_not_found"),
            Operation::SignIn(person) if email_taken(person) => Some("email_in_use"),
            // No account here is so large that its deletion needs more than one commit.
            Operation::Subscribe(user, _) if !exists(*user) => Some("validation_failed"),
            Operation::RevokeAll(by)
            | Operation::RevokeOthers(by)
            | Operation::DeleteAccount(by)
                if !exists(by.claims.sub) =>
            {
                Some("session_revoked")
            }
            Operation::SignUp(_)
            | Operation::SignIn(_)
            | Operation::Subscribe(..)
            | Operation::RevokeAll(_)
            | Operation::RevokeOthers(_)
            | Operation::DeleteAccount(_)
            | Operation::ForgetEnded
            | Operation::TurnClock(_) => None,
            // The model predicts the result of a token only if its session has ended.
            Operation::Refresh(_)
            | Operation::Authenticate(_)
            | Operation::LogOut(_)
            | Operation::CreateClient(_)
            | Operation::RotateClientKey(_)
            | Operation::RevokeClient(_) => return Ok(()),
        };
        if is_unsure(seen.outcome) || seen.outcome.as_ref().err().copied() == expected {
            return Ok(());
        }
        let detail = format!("{:?}: {:?}, not {expected:?}", seen.operation, seen.outcome);
        Err(Broken::new("answers_agree_with_the_model", detail))
    }
}

fn account(person: &Person) -> Account {
    Account { subject: person.subject.clone(), email: person.email.clone() }
}

/// The sessions that a caller had before the step, except `keep`.
fn others(seen: &Seen<'_>, by: &Authenticated, keep: Option<SessionId>) -> BTreeSet<SessionId> {
    let sessions = seen.before.sessions_of(by.claims.sub).map(|session| session.id);
    sessions.filter(|id| Some(*id) != keep).collect()
}

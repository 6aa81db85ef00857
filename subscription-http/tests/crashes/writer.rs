//! One who writes, and knows what was answered.
//!
//! Its records are its own, so it knows what each must be. A step whose answer is lost is taken again
//! before anything else, in the way a careful client would: a creation under the same key, a change
//! under the version that was read before.

use std::time::Duration;

use serde_json::{Value, json};

use crate::http::{Answer, Connection, Cut, Request, text};
use crate::ledger::{Creation, Kind, Login, Record, State, same};
use test_support::rng::Rng;

/// Why a step was not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    Cut(Cut),
    /// 503: the database is out of reach.
    Unavailable,
    /// A twin of the request is still under way.
    Busy,
}

#[derive(Debug, Clone)]
enum Step {
    Create(Creation),
    Change { record: usize, body: String, field: &'static str },
    Delete { record: usize },
    SignUp { email: String },
    Refresh { login: usize },
    Logout { login: usize },
    RevokeAll { login: usize },
    DeleteAccount { login: usize },
    Refused { request: Request, status: u16, code: &'static str },
}

#[derive(Debug)]
pub(crate) struct Writer {
    name: String,
    rng: Rng,
    next: u32,
    pub(crate) records: Vec<Record>,
    pub(crate) logins: Vec<Login>,
    /// The step whose answer was lost.
    lost: Option<Step>,
    /// Hangs up now and then before the answer, and looks for each record as soon as it is made.
    pub(crate) hangs_up: bool,
    /// Servers of two releases respond.
    pub(crate) across_releases: bool,
    /// Creations and changes whose answers were lost, and how many of them had been made all the same.
    pub(crate) settled: usize,
    pub(crate) made: usize,
}

impl Writer {
    /// Several, of one seed.
    pub(crate) fn some(count: usize, rng: &Rng) -> Vec<Self> {
        let writer = |number: usize| Self {
            name: format!("w{number}"),
            rng: rng.fork(),
            next: 0,
            records: Vec::new(),
            logins: Vec::new(),
            lost: None,
            hangs_up: false,
            across_releases: false,
            settled: 0,
            made: 0,
        };
        (0..count).map(writer).collect()
    }

    /// Takes a step, or again the one whose answer was lost.
    pub(crate) fn work(&mut self, connection: &mut Connection) -> Result<(), Trouble> {
        let lost = self.lost.take();
        let again = lost.is_some();
        let step = lost.unwrap_or_else(|| self.choose());
        connection.hang_up_after = (self.hangs_up && self.rng.percent(10))
            .then(|| Duration::from_micros(self.rng.below(3_000)));
        let taken = self.take(&step, again, connection);
        connection.hang_up_after = None;
        if taken.is_err() {
            self.lost = Some(step);
        }
        taken
    }

    /// Ends with a step whose answer is known, and then holds all that was touched against what is
    /// there.
    pub(crate) fn check(&mut self, connection: &mut Connection) {
        while self.lost.is_some() {
            match self.work(connection) {
                Ok(()) | Err(Trouble::Cut(Cut::HungUp) | Trouble::Busy) => {}
                Err(trouble) => panic!("{trouble:?}"),
            }
        }
        let across = self.across_releases;
        for record in self.records.iter_mut().filter(|record| record.touched) {
            let read = connection.sure(&Request::get(&record.path()));
            if record.deleted {
                read.expect(404);
            } else {
                let read = read.expect(200);
                assert!(same(&read.body, &record.body, across), "{read:?} for {record:?}");
            }
            let replayed = connection.sure(&record.creation.request()).expect(201);
            assert_eq!(replayed.header("idempotency-replayed"), Some("true"), "{record:?}");
            assert!(same(&replayed.body, &record.first, across), "{replayed:?} for {record:?}");
            record.touched = false;
        }
        for login in self.logins.iter_mut().filter(|login| login.touched) {
            let asked = Request::post("/authentication/user-logged-in", "").bearer(&login.access);
            let answer = connection.sure(&asked);
            match login.state {
                State::Live => assert_eq!(answer.status, 200, "{answer:?} for {login:?}"),
                State::Revoked | State::Deleted => {
                    assert_eq!(answer.code(), "session_revoked", "{login:?}");
                    let refused = connection.sure(&refresh(login)).expect(401);
                    let expected = match login.state {
                        State::Deleted => "refresh_token_invalid",
                        State::Live | State::Revoked => "session_revoked",
                    };
                    assert_eq!(refused.code(), expected, "{login:?}");
                }
            }
            login.touched = false;
        }
    }

    fn take(
        &mut self,
        step: &Step,
        again: bool,
        connection: &mut Connection,
    ) -> Result<(), Trouble> {
        match step {
            Step::Create(creation) => {
                let answer = ask(connection, &creation.request())?;
                if again && answer.status == 409 && answer.code() == "idempotency_in_progress" {
                    return Err(Trouble::Busy);
                }
                let answer = answer.expect(201);
                let replayed = answer.header("idempotency-replayed").is_some();
                assert!(again || !replayed, "{answer:?} for {creation:?}");
                self.settled += usize::from(again);
                self.made += usize::from(replayed);
                let record = Record::new(creation.clone(), &answer);
                if self.hangs_up {
                    expect_seen(connection, &record)?;
                }
                self.records.push(record);
            }
            Step::Change { record, body, field } => {
                self.change(*record, body, field, again, connection)?;
            }
            Step::Delete { record } => {
                let record = &mut self.records[*record];
                let request = Request::delete(&record.path()).if_match(record.version());
                let answer = ask(connection, &request)?;
                let gone = again && answer.status == 404;
                assert!(answer.status == 204 || gone, "{answer:?} for {record:?}");
                (record.deleted, record.touched) = (true, true);
            }
            Step::SignUp { email } => {
                let body = json!({ "access_token": "believed", "email": email }).to_string();
                let mut answer = ask(connection, &Request::post("/authentication/sign-up", &body))?;
                if again && answer.status == 409 {
                    // The first one may be committed while this one is under way.
                    let codes = ["account_exists", "email_in_use"];
                    assert!(codes.contains(&&*answer.code()), "{answer:?} for {email}");
                    let sign_in = Request::post("/authentication/sign-in", &body);
                    answer = ask(connection, &sign_in)?.expect(200);
                } else {
                    answer = answer.expect(201);
                }
                self.logins.push(Login::new(&answer));
            }
            Step::Refresh { login } => {
                let login = &mut self.logins[*login];
                let answer = ask(connection, &refresh(login))?.expect(200);
                login.refreshed(&answer);
            }
            Step::Logout { login } => {
                let login = &mut self.logins[*login];
                let logout = Request::post("/authentication/tokens/logout", "");
                ask(connection, &logout.bearer(&login.access))?.expect(200);
                login.ended(State::Revoked);
            }
            Step::RevokeAll { login } => {
                let login = &mut self.logins[*login];
                let revoke = Request::post("/authentication/tokens/revoke-all", "");
                let answer = ask(connection, &revoke.bearer(&login.access))?;
                ended(&answer, 200, again, login, State::Revoked);
            }
            Step::DeleteAccount { login } => {
                let login = &mut self.logins[*login];
                let path = format!("/authentication/delete-my-account/{}", login.user);
                let answer = ask(connection, &Request::delete(&path).bearer(&login.access))?;
                ended(&answer, 204, again, login, State::Deleted);
            }
            Step::Refused { request, status, code } => {
                let answer = ask(connection, request)?.expect(*status);
                assert_eq!(answer.code(), *code, "{request:?}");
            }
        }
        Ok(())
    }

    fn change(
        &mut self,
        record: usize,
        body: &str,
        field: &str,
        again: bool,
        connection: &mut Connection,
    ) -> Result<(), Trouble> {
        let record = &mut self.records[record];
        let put = Request::put(&record.path(), body).if_match(record.version());
        let mut answer = ask(connection, &put)?;
        self.settled += usize::from(again);
        if again && answer.status == 412 {
            self.made += 1;
            answer = ask(connection, &Request::get(&record.path()))?;
        }
        let answer = answer.expect(200);
        let (now, wanted): (_, Value) = (answer.json(), serde_json::from_str(body).unwrap());
        assert_eq!(now["version"].as_u64(), Some(record.version() + 1), "{now} after {record:?}");
        assert_eq!(now[field], wanted[field], "{now} after {record:?}");
        record.put(&answer);
        Ok(())
    }
}

/// How many steps lost their answers, and what they had come to, in words.
pub(crate) fn settled(writers: &[Writer]) -> String {
    let settled: usize = writers.iter().map(|writer| writer.settled).sum();
    let made: usize = writers.iter().map(|writer| writer.made).sum();
    format!("{settled} creations and changes lost their answers, {made} had been made")
}

/// The next request sees a record that was just made.
fn expect_seen(connection: &mut Connection, record: &Record) -> Result<(), Trouble> {
    let seen = ask(connection, &Request::get(&record.path()))?;
    assert_eq!(seen.status, 200, "{seen:?} right after {record:?}");
    Ok(())
}

/// An account or its sessions are gone, now or since the first time.
fn ended(answer: &Answer, status: u16, again: bool, login: &mut Login, state: State) {
    let already = again && answer.status == 401 && answer.code() == "session_revoked";
    assert!(answer.status == status || already, "{answer:?} for {login:?}");
    login.ended(state);
}

fn refresh(login: &Login) -> Request {
    let body = json!({ "refresh_token": login.refresh }).to_string();
    Request::post("/authentication/refresh-token", &body)
}

fn ask(connection: &mut Connection, request: &Request) -> Result<Answer, Trouble> {
    let answer = connection.ask(request).map_err(Trouble::Cut)?;
    if answer.status != 503 {
        return Ok(answer);
    }
    assert_eq!(answer.code(), "store_unavailable", "{answer:?}");
    assert!(answer.header("retry-after").is_some(), "{answer:?}");
    let told = answer.body.to_lowercase();
    for inner in ["sql", "postgres", "socket", "/tmp", "os error", "shutting down", "terminating"] {
        assert!(!told.contains(inner), "{inner} in {answer:?}");
    }
    Err(Trouble::Unavailable)
}

/// The next action of a writer.
impl Writer {
    fn fresh(&mut self, what: &str) -> String {
        self.next += 1;
        format!("{what}-{}-{}", self.name, self.next)
    }

    fn choose(&mut self) -> Step {
        if self.logins.iter().all(|login| login.state == State::Deleted) {
            return Step::SignUp { email: format!("{}@example.com", self.fresh("user")) };
        }
        let chosen = match self.rng.below(20) {
            0..4 => self.create_subscription(),
            4..7 => self.create_payment(),
            7..11 => self.change_something(),
            11 => self.delete_something(),
            12..15 => self.end_or_refresh(),
            15..17 => self.be_refused(),
            17 => Some(Step::SignUp { email: format!("{}@example.com", self.fresh("user")) }),
            _ => None,
        };
        chosen.unwrap_or_else(|| Step::Create(self.new_plan()))
    }

    fn creation(&mut self, kind: Kind, body: &Value) -> Creation {
        Creation { kind, key: self.fresh("key"), body: body.to_string() }
    }

    fn new_plan(&mut self) -> Creation {
        let slug = self.fresh("plan");
        let body = json!({
            "name": slug, "slug": slug, "price": "19.90", "billing_cycle": "monthly",
            "variants": ["a", "b"], "features": "one,two",
        });
        self.creation(Kind::Plan, &body)
    }

    /// One of the records that are there.
    fn some_record(&mut self, fits: impl Fn(&Record) -> bool) -> Option<usize> {
        let there = self.records.iter().enumerate();
        let there = there.filter(|(_, record)| !record.deleted && fits(record));
        let there: Vec<_> = there.map(|(index, _)| index).collect();
        self.rng.pick(there)
    }

    fn some_login(&mut self, fits: impl Fn(&Login) -> bool) -> Option<usize> {
        let there = self.logins.iter().enumerate().filter(|(_, login)| fits(login));
        let there: Vec<_> = there.map(|(index, _)| index).collect();
        self.rng.pick(there)
    }

    fn create_subscription(&mut self) -> Option<Step> {
        let plan = self.some_record(|record| record.creation.kind == Kind::Plan)?;
        let login = self.some_login(|login| login.state != State::Deleted)?;
        (self.records[plan].used, self.logins[login].used) = (true, true);
        let (plan, user) = (self.records[plan].id(), self.logins[login].user.clone());
        let external = self.fresh("subscription");
        let body = json!({
            "user_id": user, "subscription_plan_id": plan, "external_subscription_id": external,
        });
        Some(Step::Create(self.creation(Kind::Subscription, &body)))
    }

    fn create_payment(&mut self) -> Option<Step> {
        let of = self.some_record(|record| record.creation.kind == Kind::Subscription)?;
        let (of, external) = (self.records[of].id(), self.fresh("payment"));
        let body = json!({
            "subscription_id": of, "amount": "19.90", "currency": "EUR",
            "external_payment_id": external,
        });
        Some(Step::Create(self.creation(Kind::Payment, &body)))
    }

    fn change_something(&mut self) -> Option<Step> {
        let record = self.some_record(|_| true)?;
        self.next += 1;
        let (kind, now) = (self.records[record].creation.kind, self.records[record].json());
        let (field, value) = match kind {
            Kind::Plan => ("tier", json!(self.next % 10_000)),
            Kind::Subscription if now["status"] == "active" => ("status", json!("paused")),
            Kind::Subscription => ("status", json!("active")),
            Kind::Payment => ("external_payment_id", json!(self.fresh("payment"))),
        };
        Some(Step::Change { record, body: json!({ field: value }).to_string(), field })
    }

    fn delete_something(&mut self) -> Option<Step> {
        let kind = |record: &Record| record.creation.kind != Kind::Subscription;
        let record = self.some_record(|record| kind(record) && !record.used)?;
        Some(Step::Delete { record })
    }

    fn end_or_refresh(&mut self) -> Option<Step> {
        let login = self.some_login(|login| login.state == State::Live)?;
        Some(match self.rng.below(8) {
            0 => Step::Logout { login },
            1 => Step::RevokeAll { login },
            2 if !self.logins[login].used => Step::DeleteAccount { login },
            _ => Step::Refresh { login },
        })
    }

    fn be_refused(&mut self) -> Option<Step> {
        let record = self.some_record(|record| record.creation.kind == Kind::Plan)?;
        let record = self.records[record].clone();
        let (slug, key) = (text(&record.json(), "slug"), self.fresh("refused"));
        let mut plan = json!({
            "name": "Refused", "slug": slug, "price": 1, "billing_cycle": "monthly",
        });
        let post = |body: &Value| Request::post(Kind::Plan.path(), &body.to_string());
        let (request, status, code) = match self.rng.below(4) {
            0 => (post(&plan).key(&key), 409, "slug_taken"),
            1 => (post(&plan).key(&record.creation.key), 422, "idempotency_key_reused"),
            2 => {
                plan["slug"] = json!(key);
                plan["price"] = json!(-1);
                (post(&plan).key(&key), 422, "validation_failed")
            }
            _ => {
                let stale = Request::put(&record.path(), &json!({ "tier": 1 }).to_string());
                (stale.if_match(record.version() + 1), 412, "precondition_failed")
            }
        };
        Some(Step::Refused { request, status, code })
    }
}

//! Requests about accounts and sessions, and their replies, as data.

use std::collections::BTreeSet;
use std::fmt;

use async_trait::async_trait;
use secrecy::{ExposeSecret as _, SecretString};
use subscription_core::auth::{
    Authenticated, ClientKind, Identity, IdentityKey, IdentityRefused, IdentityVerifier, NewClient,
    Origin, SignIn, SignedIn,
};
use subscription_core::{
    Authentication, Email, Error, NewSubscription, PlanId, SessionId, Slug, SubscriptionService,
    Timestamp, UserId,
};

use crate::service_world::of;

/// A person who signs in or up: the identity at the identity provider, and the claims of the request.
#[derive(Debug, Clone)]
pub struct Person {
    pub subject: String,
    /// The address that the provider knows.
    pub email: String,
    /// The address that the person claims.
    pub claimed: String,
    pub verified: bool,
    pub client: Slug,
    /// A number that distinguishes the identity tokens of one person.
    pub nonce: u32,
}

impl Person {
    fn sign_in(&self) -> SignIn {
        let Self { subject, email, verified, nonce, .. } = self;
        SignIn {
            client_id: self.client.clone(),
            access_token: format!("{subject} {email} {verified} {nonce}").into(),
            email: of(&self.claimed),
            origin: Origin::default(),
        }
    }

    /// True if the identity proves the claimed address, so that only the store can refuse the request.
    pub fn is_proved(&self) -> bool {
        self.verified && self.claimed == self.email
    }
}

/// An identity provider that accepts every token of [`Person::sign_in`].
#[derive(Debug)]
pub struct Provider;

#[async_trait]
impl IdentityVerifier for Provider {
    async fn verify(
        &self,
        token: &SecretString,
        _: &Email,
        _: Timestamp,
    ) -> Result<Identity, IdentityRefused> {
        let mut words = token.expose_secret().split(' ');
        let mut word = || words.next().ok_or(IdentityRefused::Rejected);
        let key = IdentityKey { issuer: of("https://id.example.com"), subject: of(word()?) };
        let email = Some(of(word()?));
        Ok(Identity { key, email, email_verified: word()? == "true" })
    }
}

/// The tokens of one response.
#[derive(Clone)]
pub struct Pair {
    pub session: SessionId,
    pub user: UserId,
    pub client: Slug,
    pub generation: u32,
    pub access: SecretString,
    pub refresh: SecretString,
    /// When the refresh token expires if it is not used.
    pub ends_at: Timestamp,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} at {}", self.generation, self.session, self.client)
    }
}

impl From<SignedIn> for Pair {
    fn from(signed_in: SignedIn) -> Self {
        let session = &signed_in.session;
        Self {
            session: session.id,
            user: signed_in.user.id,
            client: session.client_id.clone(),
            generation: session.generation,
            ends_at: session.ended_at(),
            access: signed_in.access_token,
            refresh: signed_in.refresh_token,
        }
    }
}

/// A request.
#[derive(Debug, Clone)]
pub enum Operation {
    SignUp(Person),
    SignIn(Person),
    Refresh(Pair),
    Authenticate(Pair),
    LogOut(Pair),
    RevokeAll(Box<Authenticated>),
    RevokeOthers(Box<Authenticated>),
    DeleteAccount(Box<Authenticated>),
    ForgetEnded,
    Subscribe(UserId, PlanId),
    CreateClient(Slug),
    RotateClientKey(Slug),
    RevokeClient(Slug),
    /// Not a request: the clock advances by this number of seconds.
    TurnClock(u64),
}

/// The outcome: a reply, or the code of an error.
pub type Outcome = Result<Reply, &'static str>;

/// A reply.
#[derive(Debug, Clone)]
pub enum Reply {
    Tokens(Pair),
    Caller(Box<Authenticated>),
    Count(usize),
    Done,
}

/// True if the operation may or may not have taken effect: the store could not be reached, its result was lost, or
/// other writers were faster each time.
pub fn is_unsure(outcome: &Outcome) -> bool {
    matches!(outcome, Err("store_unavailable" | "overloaded"))
}

impl Operation {
    /// Performs the operation on the service.
    pub async fn perform(&self, auth: &Authentication, service: &SubscriptionService) -> Outcome {
        self.ask(auth, service).await.map_err(|error| error.code())
    }

    async fn ask(
        &self,
        auth: &Authentication,
        service: &SubscriptionService,
    ) -> Result<Reply, Error> {
        let tokens = |signed_in: SignedIn| Reply::Tokens(signed_in.into());
        let caller = |caller: Authenticated| Reply::Caller(Box::new(caller));
        Ok(match self {
            Self::SignUp(person) => tokens(auth.sign_up(person.sign_in()).await?),
            Self::SignIn(person) => tokens(auth.sign_in(person.sign_in()).await?),
            Self::Refresh(pair) => tokens(auth.refresh(&pair.client, &pair.refresh).await?),
            Self::Authenticate(pair) => {
                caller(auth.authenticate(&pair.client, &pair.access).await?)
            }
            Self::LogOut(pair) => Reply::Count(auth.logout(&pair.client, &pair.access).await?),
            Self::RevokeAll(by) => Reply::Count(auth.revoke_all(by).await?),
            Self::RevokeOthers(by) => Reply::Count(auth.revoke_all_except_current(by).await?),
            Self::DeleteAccount(by) => {
                auth.delete_account(by, &by.claims.sub.to_string()).await?;
                Reply::Done
            }
            Self::ForgetEnded => Reply::Count(auth.forget_ended_sessions().await?),
            Self::Subscribe(user, plan) => {
                service.create_subscription(NewSubscription::new(*user, *plan)).await?;
                Reply::Done
            }
            Self::CreateClient(id) => {
                let (id, name) = (id.clone(), of("Ours"));
                let kind = ClientKind::Confidential;
                auth.create_client(NewClient {
                    id,
                    name,
                    kind,
                    scopes: BTreeSet::new(),
                    origins: BTreeSet::new(),
                })
                .await?;
                Reply::Done
            }
            Self::RotateClientKey(id) => {
                auth.rotate_client_key(id).await?;
                Reply::Done
            }
            Self::RevokeClient(id) => {
                auth.revoke_client(id).await?;
                Reply::Done
            }
            Self::TurnClock(_) => Reply::Done,
        })
    }
}

//! `DELETE /authentication/delete-my-account` of callers who leave before the answer.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use subscription_core::accounts::User;
use subscription_core::store::StoreExt as _;

use secrecy::ExposeSecret as _;
use subscription_http::Timeouts;
use test_support::spy_store::SpyStore;

use super::world::HttpWorld;
use crate::auth::deletions::{Account, Hesitant, MANY, State};

/// More turns than a deletion takes.
const TURNS: usize = 1_000;

#[tokio::test]
async fn a_deletion_that_has_begun_goes_on_though_its_caller_leaves() {
    let mut left = Vec::new();
    for polls in 0..20 {
        let Account { world, user, session, .. } =
            Account::with(MANY, SpyStore::new(Hesitant)).await;
        let store = std::sync::Arc::clone(&world.store);
        let http = HttpWorld::with(world, Timeouts::default()).await;
        let bearer = format!("Bearer {}", session.access_token.expose_secret());
        let path = format!("/authentication/delete-my-account/{user}");

        {
            // Nobody else gets a turn meanwhile, so the request is never answered.
            let mut request = pin!(http.person("DELETE", &path, &bearer));
            let mut context = Context::from_waker(Waker::noop());
            for _ in 0..polls {
                assert!(matches!(request.as_mut().poll(&mut context), Poll::Pending));
            }
        }
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }

        left.push(match store.get_as::<User>(&user).await.unwrap() {
            None => State::Gone,
            Some(user) if user.closing => State::Closing,
            Some(_) => State::Whole,
        });
    }

    assert!(left.contains(&State::Whole) && left.contains(&State::Gone), "{left:?}");
    assert!(!left.contains(&State::Closing), "{left:?}");
}

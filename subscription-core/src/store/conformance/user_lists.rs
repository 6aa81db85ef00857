//! Users whose account is not closing: newest first, by address, by the beginning of an address, by id.

use crate::store::StoreExt as _;
use std::sync::Arc;

use super::records::{account, at_version, parsed, user};
use super::steps::{deleting, limit, writing};
use crate::accounts::User;
use crate::store::{Record, Store, UserFilter, UserQuery};

/// The addresses of users 1, 2 and so on, in the order of their creation. Some have characters that mean something in a
/// pattern of SQL.
const ADDRESSES: [&str; 8] = [
    "ada@example.com",
    "Ada.B@B\u{fc}cher.example",
    "ad_a@example.com",
    "adb@example.com",
    "ad%@example.com",
    "ad~~@example.com",
    "ad@example.com",
    "zoe@example.com",
];

fn with_address(n: u64, email: &str) -> User {
    User { email: parsed(email), ..account(n) }
}

/// Writes a user of each address, and some whose account is closing.
async fn filled(store: &Arc<dyn Store>) {
    let users = ADDRESSES.iter().zip(1..).map(|(email, n)| with_address(n, email));
    let closing = (1..8)
        .map(|n| User { closing: true, ..with_address(20 + n, &format!("adc{n}@example.com")) });
    store.commit(writing(users.chain(closing).map(Record::from))).await.unwrap();
}

/// The numbers of all users of a list, read by pages of `size`.
async fn walked(store: &Arc<dyn Store>, filter: &UserFilter, size: usize) -> Vec<u64> {
    let mut numbers = Vec::new();
    let mut after = None;
    loop {
        let query = UserQuery::Open { filter: filter.clone(), after, limit: limit(size) };
        let page = store.list_as::<User>(query).await.unwrap();
        assert!(page.items.len() == size || page.next.is_none(), "{filter:?} {page:?}");
        let number = |found: &Arc<User>| (0..100).find(|n| user(*n) == found.id).unwrap();
        numbers.extend(page.items.iter().map(number));
        after = page.next;
        if after.is_none() {
            return numbers;
        }
    }
}

fn prefix(text: &str) -> UserFilter {
    UserFilter::EmailPrefix(text.parse().unwrap())
}

/// The lists have no users whose account is closing, on pages of any size.
pub async fn users_are_listed_by_every_filter_in_its_order(store: Arc<dyn Store>) {
    filled(&store).await;
    let email = |text| UserFilter::Email(parsed(text));
    let ids = |numbers: &[u64]| UserFilter::Ids(numbers.iter().map(|n| user(*n)).collect());

    for (filter, expected) in [
        (UserFilter::All, vec![8, 7, 6, 5, 4, 3, 2, 1]),
        (email("ADA.b@xn--bcher-kva.example"), vec![2]),
        (email("adc1@example.com"), vec![]),
        (email("ad@example.co"), vec![]),
        (prefix("ad@"), vec![7]),
        (prefix("ADA"), vec![2, 1]),
        (prefix("ada.b@xn--"), vec![2]),
        (prefix("ada@example.com"), vec![1]),
        (prefix("ada@example.com.uk"), vec![]),
        (prefix("adc"), vec![]),
        (ids(&[1, 4, 7, 4, 21, 60]), vec![7, 4, 1]),
        (ids(&[]), vec![]),
    ] {
        for size in [1, 2, 3, 8, 200] {
            assert_eq!(walked(&store, &filter, size).await, expected, "{filter:?} by {size}");
        }
    }
}

/// No character of a prefix stands for another one, and the keys are in the order of their bytes.
pub async fn the_beginning_of_an_address_is_compared_byte_by_byte(store: Arc<dyn Store>) {
    filled(&store).await;
    let more = ["ad~x@example.com", "ad-a@example.com", "ad0@example.com"];
    let more = more.iter().zip(9..).map(|(email, n)| Record::from(with_address(n, email)));
    store.commit(writing(more)).await.unwrap();

    assert_eq!(walked(&store, &prefix("ad_"), 2).await, [3]);
    assert_eq!(walked(&store, &prefix("ad%"), 2).await, [5]);
    assert_eq!(walked(&store, &prefix("ad~"), 2).await, [9, 6]);
    assert_eq!(walked(&store, &prefix("ad~~"), 2).await, [6]);
    let all_of = |first: &str| prefix(&format!("{first}@example.com"));
    assert_eq!(walked(&store, &all_of("ad0"), 2).await, [11]);
}

/// A new address moves a user; an account that begins to close or is deleted leaves every list.
pub async fn a_changed_user_is_listed_by_what_it_is_now(store: Arc<dyn Store>) {
    filled(&store).await;
    let moved = Record::from(with_address(1, "new@example.com"));
    let closed = Record::from(User { closing: true, ..with_address(2, ADDRESSES[1]) });

    store.commit(writing([at_version(moved, 2), at_version(closed, 2)])).await.unwrap();
    store.commit(deleting([Record::from(with_address(4, ADDRESSES[3]))])).await.unwrap();

    assert_eq!(walked(&store, &UserFilter::All, 3).await, [8, 7, 6, 5, 3, 1]);
    assert_eq!(walked(&store, &prefix("ada"), 3).await, [] as [u64; 0]);
    assert_eq!(walked(&store, &prefix("new@"), 3).await, [1]);
    assert_eq!(
        walked(&store, &UserFilter::Ids((0..9).map(user).collect()), 3).await,
        [8, 7, 6, 5, 3, 1]
    );
}

/// The user at whose place a page ended may be gone when the next page is read.
pub async fn a_place_among_users_need_not_be_that_of_a_user(store: Arc<dyn Store>) {
    filled(&store).await;
    for (filter, gone, email, expected) in [
        (UserFilter::All, 7, ADDRESSES[6], vec![6, 5]),
        (prefix("ad_"), 3, ADDRESSES[2], vec![]),
        (prefix("ada"), 2, ADDRESSES[1], vec![1]),
    ] {
        let gone = with_address(gone, email);
        let after = Some(filter.position(&gone));
        store.commit(deleting([Record::from(gone)])).await.unwrap();

        let query = UserQuery::Open { filter: filter.clone(), after, limit: limit(2) };
        let page = store.list_as::<User>(query).await.unwrap();

        let found: Vec<_> = page.items.iter().map(|found| found.id).collect();
        assert_eq!(found, expected.into_iter().map(user).collect::<Vec<_>>(), "{filter:?}");
    }
}

//! Checkout links: the rules, as vectors and for any link.

use std::collections::BTreeMap;

use proptest::prelude::*;
use subscription_core::{
    CheckoutHosts, CheckoutProvider, Href, NewPlan, Plan, PlanId, Timestamp, UserId,
};
use test_support::service_world::{ServiceWorld, new_plan, of, wrong};
use url::Url;
use uuid::Uuid;

const USER: &str = "01933b6e-7a5c-7cc0-8f3e-2d9c5b1a4e77";

fn hosts(hosts: &[(&str, CheckoutProvider)]) -> Result<CheckoutHosts, String> {
    let hosts = hosts.iter().map(|(host, provider)| ((*host).to_owned(), *provider));
    let hosts: BTreeMap<_, _> = hosts.collect();
    hosts.try_into().map_err(|refused: subscription_core::InvalidValue| refused.to_string())
}

fn plan_at(href: Option<Href>) -> Plan {
    let new = NewPlan { href, ..new_plan("pro") };
    Plan::create(new, PlanId::from(Uuid::nil()), Timestamp::MIN).unwrap()
}

fn link(href: &str, hosts: &CheckoutHosts) -> String {
    plan_at(Some(of(href))).checkout_url(of(USER), hosts).unwrap()
}

#[test]
fn a_link_names_the_user_as_its_host_expects() {
    let none = CheckoutHosts::default();
    for (href, expected) in [
        (
            "https://s.lemonsqueezy.com/buy/abc?embed=1&checkout[custom][user_id]=x#top",
            "https://s.lemonsqueezy.com/buy/abc?embed=1&checkout%5Bcustom%5D%5Buser_id%5D=U#top",
        ),
        (
            "https://buy.stripe.com/t_1?prefilled_promo_code=A%20B",
            "https://buy.stripe.com/t_1?prefilled_promo_code=A%20B&client_reference_id=U",
        ),
        ("https://evil-lemonsqueezy.com/x", "https://evil-lemonsqueezy.com/x?user_id=U"),
        ("https://shop.example/pay?", "https://shop.example/pay?user_id=U"),
        // Hosts are compared without case, by whole labels.
        ("https://BUY.Stripe.COM:443/t", "https://BUY.Stripe.COM:443/t?client_reference_id=U"),
        ("https://buy.stripe.com./t", "https://buy.stripe.com./t?client_reference_id=U"),
        ("https://buy.stripe.com.evil.example", "https://buy.stripe.com.evil.example?user_id=U"),
        ("https://xbuy.stripe.com/t", "https://xbuy.stripe.com/t?user_id=U"),
        ("https://lemonsqueezy.com/x", "https://lemonsqueezy.com/x?user_id=U"),
        ("https://buy.stripe.com@evil.example/", "https://buy.stripe.com@evil.example/?user_id=U"),
        // Our pair is dropped however it is spelled, wherever it is; every other byte stays.
        ("https://a.example/?user_id=1&user_id=2", "https://a.example/?user_id=U"),
        ("https://a.example/?user%5Fid=1&b&&c=%2f+", "https://a.example/?b&&c=%2f+&user_id=U"),
        (
            "https://a.example/?User_id=1&user_id[]=2",
            "https://a.example/?User_id=1&user_id[]=2&user_id=U",
        ),
        (
            "https://x.lemonsqueezy.com/?checkout%5bcustom%5D[user_id]=1&user_id=2",
            "https://x.lemonsqueezy.com/?user_id=2&checkout%5Bcustom%5D%5Buser_id%5D=U",
        ),
        // A question mark after the first one, and one in the fragment, are text.
        ("https://a.example/?a=b?user_id=1", "https://a.example/?a=b?user_id=1&user_id=U"),
        ("https://a.example/#/pay?user_id=1", "https://a.example/?user_id=U#/pay?user_id=1"),
        ("https://a.example/pay#", "https://a.example/pay?user_id=U#"),
    ] {
        assert_eq!(link(href, &none), expected.replace("=U", &format!("={USER}")), "{href}");
    }
    assert_eq!(plan_at(None).checkout_url(of(USER), &none), None);
}

#[test]
fn a_domain_of_ones_own_belongs_to_the_provider_that_is_named() {
    use CheckoutProvider::{LemonSqueezy, Stripe};
    let hosts = hosts(&[("Pay.Shop.example", Stripe), ("b\u{fc}cher.example", LemonSqueezy)]);
    let hosts = hosts.unwrap();

    for (href, parameter) in [
        ("https://pay.shop.example/t", "client_reference_id"),
        ("https://PAY.shop.example/t", "client_reference_id"),
        ("https://b\u{fc}cher.example/t", "checkout%5Bcustom%5D%5Buser_id%5D"),
        ("https://xn--bcher-kva.example/t", "checkout%5Bcustom%5D%5Buser_id%5D"),
        ("https://www.pay.shop.example/t", "user_id"),
        ("https://shop.example/t", "user_id"),
    ] {
        assert_eq!(link(href, &hosts), format!("{href}?{parameter}={USER}"), "{href}");
    }
}

#[test]
fn what_is_no_host_name_is_refused() {
    use CheckoutProvider::{LemonSqueezy, Stripe};
    for host in
        ["", "*.shop.example", "https://pay.shop.example", "pay.example:443", "a b", "10.0.0.1"]
    {
        let refused = hosts(&[(host, Stripe)]).unwrap_err();
        assert!(refused.contains(&format!("not {host:?}")), "{refused}");
    }
    let twice = hosts(&[("PAY.example", Stripe), ("pay.example.", LemonSqueezy)]).unwrap_err();
    assert!(twice.contains("twice, with different providers"), "{twice}");
}

proptest! {
    #[test]
    fn any_link_still_leads_there_and_has_the_user_once(
        host in "(s\\.lemonsqueezy\\.com|buy\\.stripe\\.com|shop\\.example)",
        path in "(/[a-z%0-9]{0,4}){0,3}",
        query in prop::option::of("[a-z&=%\\[\\]?;+_0-9]{0,12}(&?(user_id|client_reference_id|checkout\\[custom\\]\\[user_id\\]|checkout%5bcustom%5D%5Buser%5fid%5D)=x){0,2}[&=a-z]{0,3}"),
        fragment in prop::option::of("[a-z?&#=]{0,6}"),
    ) {
        let query = query.map_or(String::new(), |query| format!("?{query}"));
        let fragment = fragment.map_or(String::new(), |text| format!("#{text}"));
        let href = format!("https://{host}{path}{query}{fragment}");
        let name = match &*host {
            "buy.stripe.com" => "client_reference_id",
            "shop.example" => "user_id",
            _ => "checkout[custom][user_id]",
        };

        let made = link(&href, &CheckoutHosts::default());

        let (before, after) = (Url::parse(&href).unwrap(), Url::parse(&made).unwrap());
        prop_assert_eq!(before.host(), after.host());
        prop_assert_eq!(before.path(), after.path());
        prop_assert_eq!(before.fragment(), after.fragment());
        let pairs: Vec<_> = after.query_pairs().collect();
        let ours: Vec<_> = pairs.iter().filter(|(found, _)| found == name).collect();
        prop_assert_eq!(ours.len(), 1, "{}", made);
        prop_assert_eq!(&*pairs.last().unwrap().1, USER);
        let others = pairs.iter().filter(|(found, _)| found != name).cloned();
        let expected = before.query_pairs().filter(|(found, _)| found != name);
        prop_assert_eq!(others.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_plan_that_is_inactive_or_unknown_has_no_link() {
    let ServiceWorld { service, .. } = ServiceWorld::new();
    let href = Some(of("https://buy.stripe.com/t"));
    let plan = service.create_plan(NewPlan { href, ..new_plan("pro") }).await.unwrap();
    let (user, none): (UserId, _) = (of(USER), CheckoutHosts::default());

    let made = service.checkout_link(&plan.slug, user, &none).await.unwrap();

    let expected = format!("https://buy.stripe.com/t?client_reference_id={USER}");
    assert_eq!((made.url, made.user_id, &made.plan), (Some(expected), user, &plan));
    let unknown = wrong(service.checkout_link(&of("none"), user, &none).await);
    assert_eq!(unknown.1, "not_found");
    let inactive = subscription_core::PlanChanges { is_active: Some(false), ..Default::default() };
    service.update_plan(&plan.slug, inactive).await.unwrap();
    assert_eq!(wrong(service.checkout_link(&plan.slug, user, &none).await).1, "plan_inactive");
}

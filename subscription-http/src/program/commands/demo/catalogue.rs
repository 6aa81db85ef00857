//! The plans of the invented business, and the names of its customers.

use subscription_core::{BillingCycle, Bounded, Metadata, NewPlan};

use crate::program::Failure;

/// The tier, quota, description and features of a plan. Customers upgrade to a higher tier.
type Level = (u64, u64, &'static str, &'static str);
const FREE: Level = (0, 1, "To try it out.", "dashboard, community support");
const STARTER: Level = (10, 5, "For a first project.", "dashboard, api, email support");
const PRO: Level =
    (20, 25, "For a growing company.", "dashboard, api, sso, audit log, priority support");
const TEAM: Level =
    (30, 200, "For several teams.", "dashboard, api, sso, audit log, roles, 24/7 support");

/// A plan: its slug, name, price, cycle and level, and how many of 100 new customers choose it.
pub(crate) type Offer = (&'static str, &'static str, &'static str, BillingCycle, Level, usize);

/// The plans. The last plan is withdrawn from sale after some months, but its customers stay on it.
pub(crate) const OFFERS: [Offer; 8] = [
    ("free", "Free", "0", BillingCycle::ONE_TIME, FREE, 33),
    ("starter", "Starter", "9.00", BillingCycle::MONTHLY, STARTER, 19),
    ("starter-yearly", "Starter", "90.00", BillingCycle::YEARLY, STARTER, 6),
    ("pro", "Pro", "29.00", BillingCycle::MONTHLY, PRO, 17),
    ("pro-yearly", "Pro", "290.00", BillingCycle::YEARLY, PRO, 6),
    ("team", "Team", "99.00", BillingCycle::MONTHLY, TEAM, 5),
    ("team-yearly", "Team", "990.00", BillingCycle::YEARLY, TEAM, 3),
    ("early-bird", "Early bird", "4.90", BillingCycle::MONTHLY, STARTER, 11),
];

pub(crate) fn plan((slug, name, price, cycle, level, _): Offer) -> Result<NewPlan, Failure> {
    let (tier, quota, description, features) = level;
    Ok(NewPlan {
        // The monthly and the yearly plan of a level belong to one product.
        product_id: Some(slug.trim_end_matches("-yearly").parse()?),
        href: Some(format!("https://shop.example/buy/{slug}").parse()?),
        description: description.parse()?,
        node_quota: Bounded::new(quota)?,
        features: features.parse()?,
        most_popular: slug == "pro",
        tier: Bounded::new(tier)?,
        metadata: Metadata::new([("level", slug.trim_end_matches("-yearly"))])?,
        currency: Some("USD".parse()?),
        trial_period: if price == "0" { None } else { Some("P14D".parse()?) },
        ..NewPlan::new(name.parse()?, slug.parse()?, price.parse()?, cycle)
    })
}

pub(crate) const FIRST_NAMES: [&str; 20] = [
    "amara", "anna", "ben", "chloe", "diego", "elif", "farid", "grace", "hana", "ivan", "jonas",
    "kenji", "lea", "maya", "noah", "olga", "priya", "sven", "tariq", "zoe",
];

pub(crate) const LAST_NAMES: [&str; 20] = [
    "adeyemi", "almeida", "berg", "bianchi", "brown", "chen", "costa", "demir", "dubois", "garcia",
    "haddad", "ito", "jensen", "khan", "kowalski", "meyer", "novak", "okafor", "patel", "silva",
];

//! What is sold in the demonstration, and to whom.

use std::collections::HashMap;

use subscription_core::{BillingCycle, Bounded, NewPlan};

use super::dice::Dice;
use crate::program::Failure;

/// A plan, and how people take to it.
#[derive(Debug)]
pub(super) struct Offer {
    slug: &'static str,
    name: &'static str,
    price: &'static str,
    pub(super) cycle: BillingCycle,
    quota: u64,
    features: &'static str,
    tier: u64,
    most_popular: bool,
    /// How many of a thousand newcomers take it.
    pub(super) newcomers: u64,
    /// Where those go who want more: places in [`OFFERS`].
    pub(super) upgrades: &'static [usize],
}

impl Offer {
    pub(super) fn is_paid(&self) -> bool {
        self.price != "0"
    }

    pub(super) fn plan(&self) -> Result<NewPlan, Failure> {
        let required =
            NewPlan::new(self.name.parse()?, self.slug.parse()?, self.price.parse()?, self.cycle);
        Ok(NewPlan {
            description: format!("A quota of {}, with {}.", self.quota, self.features).parse()?,
            node_quota: Bounded::new(self.quota)?,
            features: self.features.parse()?,
            most_popular: self.most_popular,
            tier: Bounded::new(self.tier)?,
            ..required
        })
    }
}

/// Withdrawn after some months; who has it keeps it.
pub(super) const WITHDRAWN: usize = 7;

const FREE: &str = "dashboard, community support";
const STARTER: &str = "dashboard, api, email support";
const PRO: &str = "dashboard, api, sso, audit log, priority support";
const TEAM: &str = "dashboard, api, sso, audit log, roles, 24/7 support";

pub(super) static OFFERS: [Offer; 8] = [
    Offer {
        slug: "free",
        name: "Free",
        price: "0",
        cycle: BillingCycle::ONE_TIME,
        quota: 1,
        features: FREE,
        tier: 0,
        most_popular: false,
        newcomers: 360,
        upgrades: &[1, 1, 2, 3],
    },
    Offer {
        slug: "starter",
        name: "Starter",
        price: "9.00",
        cycle: BillingCycle::MONTHLY,
        quota: 5,
        features: STARTER,
        tier: 10,
        most_popular: false,
        newcomers: 210,
        upgrades: &[2, 3, 3, 4],
    },
    Offer {
        slug: "starter-yearly",
        name: "Starter, yearly",
        price: "90.00",
        cycle: BillingCycle::YEARLY,
        quota: 5,
        features: STARTER,
        tier: 10,
        most_popular: false,
        newcomers: 60,
        upgrades: &[4],
    },
    Offer {
        slug: "pro",
        name: "Pro",
        price: "29.00",
        cycle: BillingCycle::MONTHLY,
        quota: 25,
        features: PRO,
        tier: 20,
        most_popular: true,
        newcomers: 190,
        upgrades: &[4, 5, 5],
    },
    Offer {
        slug: "pro-yearly",
        name: "Pro, yearly",
        price: "290.00",
        cycle: BillingCycle::YEARLY,
        quota: 25,
        features: PRO,
        tier: 20,
        most_popular: false,
        newcomers: 70,
        upgrades: &[6],
    },
    Offer {
        slug: "team",
        name: "Team",
        price: "99.00",
        cycle: BillingCycle::MONTHLY,
        quota: 200,
        features: TEAM,
        tier: 30,
        most_popular: false,
        newcomers: 50,
        upgrades: &[6],
    },
    Offer {
        slug: "team-yearly",
        name: "Team, yearly",
        price: "990.00",
        cycle: BillingCycle::YEARLY,
        quota: 200,
        features: TEAM,
        tier: 30,
        most_popular: false,
        newcomers: 30,
        upgrades: &[],
    },
    Offer {
        slug: "early-bird",
        name: "Early bird",
        price: "4.90",
        cycle: BillingCycle::MONTHLY,
        quota: 5,
        features: STARTER,
        tier: 5,
        most_popular: false,
        newcomers: 120,
        upgrades: &[3],
    },
];

const FIRST_NAMES: [&str; 32] = [
    "amara", "anna", "ben", "chloe", "dara", "diego", "elif", "emma", "farid", "grace", "hana",
    "ines", "ivan", "jonas", "kenji", "lea", "liam", "lucia", "maya", "mei", "nadia", "noah",
    "olga", "omar", "priya", "ravi", "sara", "sven", "tariq", "viola", "yara", "zoe",
];

const LAST_NAMES: [&str; 32] = [
    "adeyemi", "almeida", "berg", "bianchi", "brown", "chen", "costa", "demir", "dubois",
    "fischer", "garcia", "haddad", "hansen", "ito", "jensen", "kaya", "khan", "kim", "kowalski",
    "larsen", "lopez", "martin", "meyer", "moreau", "nguyen", "novak", "okafor", "patel", "rossi",
    "sato", "silva", "weber",
];

/// Addresses that no two people have. None of them leads anywhere (RFC 2606).
#[derive(Debug, Default)]
pub(super) struct Addresses(HashMap<String, u32>);

impl Addresses {
    pub(super) fn next(&mut self, dice: &Dice) -> String {
        let part = |names| dice.one_of(names).copied().unwrap_or("somebody");
        let (first, last) = (part(&FIRST_NAMES[..]), part(&LAST_NAMES[..]));
        let host = dice.one_of(&["example.com", "example.org", "example.net"]);
        let host = host.copied().unwrap_or("example.com");
        let same = self.0.entry(format!("{first}.{last}@{host}")).or_default();
        *same += 1;
        match *same {
            1 => format!("{first}.{last}@{host}"),
            nth => format!("{first}.{last}{nth}@{host}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_offer_makes_a_plan_and_leads_to_dearer_ones() {
        for offer in &OFFERS {
            let plan = offer.plan().unwrap();

            for upgrade in offer.upgrades {
                let dearer = OFFERS[*upgrade].plan().unwrap();
                assert!(dearer.price.value() > plan.price.value(), "{}", offer.slug);
            }
        }
        assert_eq!(OFFERS[WITHDRAWN].slug, "early-bird");
    }

    #[test]
    fn no_two_people_have_one_address() {
        let (dice, mut addresses) = (Dice::new(1), Addresses::default());
        let many: std::collections::HashSet<_> =
            (0..10_000).map(|_| addresses.next(&dice)).collect();

        assert_eq!(many.len(), 10_000);
    }
}

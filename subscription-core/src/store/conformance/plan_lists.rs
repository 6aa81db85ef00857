//! Lists of plans by every filter and in every order, compared with a sorted list of all plans.

use std::sync::Arc;

use super::records::{parsed, plan};
use super::steps::{limit, put};
use super::walk::{DIRECTIONS, assert_list, directed, walk};
use crate::plans::{BillingCycle, Plan, Tier};
use crate::store::{PlanFilter, PlanOrder, PlanQuery, Query, Record, Store};

const NAMES: [&str; 5] = ["Zebra", "apple", "Äpfel", "Apple", "apple pie"];
const PRICES: [&str; 6] = ["10", "9.5", "9.50", "100", "0", "10.000001"];

/// Plans of which many have the same value in some field, but no two in all fields.
fn varied_plans() -> Vec<Plan> {
    let plans = (0..60_u64).map(|n| {
        let pick = |step: u64, choices: u64| usize::try_from((n * step / 3) % choices).unwrap();
        Plan {
            name: parsed(NAMES.into_iter().cycle().nth(pick(7, 5)).unwrap()),
            price: parsed(PRICES.into_iter().cycle().nth(pick(5, 6)).unwrap()),
            tier: Tier::new((n * 11) % 4).unwrap(),
            product_id: (n % 3 > 0).then(|| parsed(format!("product {}", n % 3))),
            billing_cycle: match n % 5 {
                0 | 1 => BillingCycle::MONTHLY,
                2 => BillingCycle::ONE_TIME,
                _ => BillingCycle::YEARLY,
            },
            most_popular: n % 7 == 0,
            is_active: n % 4 > 0,
            ..plan(n)
        }
    });
    plans.collect()
}

async fn with_varied_plans(store: &Arc<dyn Store>) -> Vec<Plan> {
    let plans = varied_plans();
    put(store, plans.iter().rev().cloned()).await;
    plans
}

/// Compares every order and direction of each filter with the plans that the filter admits.
async fn assert_lists(store: &Arc<dyn Store>, plans: &[Plan], filters: &[PlanFilter]) {
    for filter in filters {
        for (order, direction) in
            PlanOrder::ALL.map(|order| DIRECTIONS.map(|to| (order, to))).concat()
        {
            let filter = filter.clone();
            let query = PlanQuery { filter, order, direction, after: None, limit: limit(7) };
            let admitted = plans.iter().filter(|plan| query.filter.admits(plan)).cloned();
            assert_list(store, Query::Plan(query.clone()), admitted).await;
        }
    }
}

/// Every filter alone, with values that many plans have, that few plans have and that no plan has.
fn single_filters() -> Vec<PlanFilter> {
    let any = PlanFilter::default;
    let mut filters = Vec::new();
    for flag in [true, false] {
        filters.push(PlanFilter { is_active: Some(flag), ..any() });
        filters.push(PlanFilter { most_popular: Some(flag), ..any() });
    }
    for cycle in [BillingCycle::MONTHLY, BillingCycle::ONE_TIME, BillingCycle::WEEKLY] {
        filters.push(PlanFilter { billing_cycle: Some(cycle), ..any() });
    }
    for product in ["product 1", "PRODUCT 1", "product"] {
        filters.push(PlanFilter { product_id: Some(parsed(product)), ..any() });
    }
    for tier in [0, 3, 4] {
        filters.push(PlanFilter { tier: Some(Tier::new(tier).unwrap()), ..any() });
    }
    filters
}

/// One filter with the conditions of both. If both filters name the same field, the first filter decides.
fn both(a: &PlanFilter, b: &PlanFilter) -> PlanFilter {
    PlanFilter {
        is_active: a.is_active.or(b.is_active),
        billing_cycle: a.billing_cycle.or(b.billing_cycle),
        product_id: a.product_id.clone().or_else(|| b.product_id.clone()),
        tier: a.tier.or(b.tier),
        most_popular: a.most_popular.or(b.most_popular),
    }
}

/// The lists without a filter and with each single filter, in every order and both directions.
pub async fn plans_are_listed_by_every_filter_in_every_order(store: Arc<dyn Store>) {
    let plans = with_varied_plans(&store).await;

    assert_lists(&store, &plans, &[PlanFilter::default()]).await;
    assert_lists(&store, &plans, &single_filters()).await;
}

/// All filters of a query must hold: two or three filters at a time.
pub async fn plans_are_listed_by_several_filters_at_once(store: Arc<dyn Store>) {
    let plans = with_varied_plans(&store).await;
    let singles = single_filters();
    let pairs = singles.iter().zip(singles.iter().skip(1)).map(|(a, b)| both(a, b));
    let far_pairs = singles.iter().zip(singles.iter().skip(5)).map(|(a, b)| both(a, b));
    let with_third = |(pair, third): (PlanFilter, &PlanFilter)| [both(&pair, third), pair];
    let filters: Vec<_> = pairs.chain(far_pairs).zip(&singles).flat_map(with_third).collect();

    assert_lists(&store, &plans, &filters).await;
}

/// Asserts that plans that were just stored are listed in the order of these numbers.
async fn assert_order(store: &Arc<dyn Store>, plans: &[Plan], order: PlanOrder, numbers: &[usize]) {
    let upwards: Vec<_> = numbers.iter().map(|n| plans.get(*n).cloned().unwrap().into()).collect();
    for direction in DIRECTIONS {
        for size in [1, 3, 50] {
            let page = PlanQuery { order, direction, limit: limit(size), ..PlanQuery::default() };
            let seen: Vec<Record> = walk(store, Query::Plan(page)).await;
            assert_eq!(seen, directed(upwards.clone(), direction), "{direction:?} by {size}");
        }
    }
}

/// 9.5 comes before 10; 1.0 and 1.00 are equal and come in the order of their ids.
pub async fn prices_sort_by_value(store: Arc<dyn Store>) {
    let prices = ["10", "1.00", "9.5", "1.0", "0.000001", "999999999999999.999999", "1", "0"];
    let plans = prices.iter().zip(0..).map(|(price, n)| Plan { price: parsed(price), ..plan(n) });
    let plans: Vec<_> = plans.collect();
    put(&store, plans.clone()).await;

    assert_order(&store, &plans, PlanOrder::Price, &[7, 4, 1, 3, 6, 2, 0, 5]).await;
}

/// Capital letters come before small letters, both before characters that are not ASCII.
pub async fn names_sort_byte_by_byte(store: Arc<dyn Store>) {
    let names =
        ["b", "B", "é", "a b", "ab", "A", "a", "e\u{301}", "Z", "🦀", "\u{ffee}", "_", "10"];
    let plans = names.iter().zip(0..).map(|(name, n)| Plan { name: parsed(name), ..plan(n) });
    let plans: Vec<_> = plans.collect();
    put(&store, plans.clone()).await;

    let mut upwards: Vec<_> = names.iter().zip(0..).collect();
    upwards.sort_by_key(|(name, _)| name.as_bytes());
    let upwards: Vec<usize> = upwards.into_iter().map(|(_, n)| n).collect();
    assert_order(&store, &plans, PlanOrder::Name, &upwards).await;
}

/// A plan whose filtered fields change leaves one list and enters another.
pub async fn a_changed_plan_is_listed_by_what_it_is_now(store: Arc<dyn Store>) {
    let before = Plan {
        is_active: true,
        most_popular: true,
        product_id: Some(parsed("old")),
        tier: Tier::new(1).unwrap(),
        billing_cycle: BillingCycle::MONTHLY,
        ..plan(1)
    };
    let after = Plan {
        is_active: false,
        most_popular: false,
        product_id: Some(parsed("new")),
        tier: Tier::new(2).unwrap(),
        billing_cycle: BillingCycle::YEARLY,
        version: before.version.next(),
        ..plan(1)
    };
    put(&store, [before.clone()]).await;
    put(&store, [after.clone()]).await;

    let by_each = |plan: &Plan| {
        let any = PlanFilter::default;
        [
            PlanFilter { is_active: Some(plan.is_active), ..any() },
            PlanFilter { most_popular: Some(plan.most_popular), ..any() },
            PlanFilter { product_id: plan.product_id.clone(), ..any() },
            PlanFilter { tier: Some(plan.tier), ..any() },
            PlanFilter { billing_cycle: Some(plan.billing_cycle), ..any() },
        ]
    };
    let filters = [by_each(&before), by_each(&after)].concat();
    assert_lists(&store, &[after], &filters).await;
}

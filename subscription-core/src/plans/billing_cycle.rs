//! Billing cycles: how often a plan is paid. A number of days, weeks, months or years, or once.

use std::borrow::Cow;
use std::str::FromStr;

use crate::values::InvalidValue;
use crate::values::as_text::written_as_text;

/// The unit in which a cycle is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CycleUnit {
    /// 24 hours.
    Day,
    /// Seven days.
    Week,
    /// A calendar month. A day that the month lacks becomes its last day.
    Month,
    /// A calendar year. In a year without 29 February that day becomes 28 February.
    Year,
}

impl CycleUnit {
    /// The letter of the unit in ISO 8601, and the largest number of units in a cycle: a hundred years.
    const fn letter_and_max(self) -> (char, u16) {
        match self {
            Self::Day => ('D', 36_500),
            Self::Week => ('W', 5_200),
            Self::Month => ('M', 1_200),
            Self::Year => ('Y', 100),
        }
    }

    /// The letter of the unit in ISO 8601.
    pub(super) const fn letter(self) -> char {
        self.letter_and_max().0
    }
}

/// How often a plan is paid.
///
/// A cycle is written as its name (`monthly`), or as an ISO 8601 duration of one unit (`P18M`) if it has no name.
/// Names, durations and common aliases are read, in upper or lower case.
///
/// ```
/// use subscription_core::BillingCycle;
///
/// assert_eq!("Annually".parse::<BillingCycle>()?, BillingCycle::YEARLY);
/// assert_eq!("P3M".parse::<BillingCycle>()?.to_string(), "quarterly");
/// assert_eq!("p18m".parse::<BillingCycle>()?.to_string(), "P18M");
/// # Ok::<(), subscription_core::InvalidValue>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BillingCycle(Option<(CycleUnit, u16)>);

/// Every cycle that has a name, and the aliases that are read as the same cycle.
const NAMED: [(&str, BillingCycle, &[&str]); 10] = [
    ("daily", BillingCycle::DAILY, &["day"]),
    ("weekly", BillingCycle::WEEKLY, &["week"]),
    ("biweekly", BillingCycle::BIWEEKLY, &[]),
    ("monthly", BillingCycle::MONTHLY, &["month"]),
    ("bimonthly", BillingCycle::BIMONTHLY, &[]),
    ("quarterly", BillingCycle::QUARTERLY, &["quarter"]),
    ("semiannual", BillingCycle::SEMIANNUAL, &["half_yearly", "semi_annual"]),
    ("yearly", BillingCycle::YEARLY, &["annual", "annually", "year"]),
    ("biennial", BillingCycle::BIENNIAL, &[]),
    ("one_time", BillingCycle::ONE_TIME, &["lifetime", "once", "onetime"]),
];

impl BillingCycle {
    /// Every day.
    pub const DAILY: Self = Self(Some((CycleUnit::Day, 1)));
    /// Every week.
    pub const WEEKLY: Self = Self(Some((CycleUnit::Week, 1)));
    /// Every two weeks.
    pub const BIWEEKLY: Self = Self(Some((CycleUnit::Week, 2)));
    /// Every month.
    pub const MONTHLY: Self = Self(Some((CycleUnit::Month, 1)));
    /// Every two months.
    pub const BIMONTHLY: Self = Self(Some((CycleUnit::Month, 2)));
    /// Every three months.
    pub const QUARTERLY: Self = Self(Some((CycleUnit::Month, 3)));
    /// Every six months.
    pub const SEMIANNUAL: Self = Self(Some((CycleUnit::Month, 6)));
    /// Every year.
    pub const YEARLY: Self = Self(Some((CycleUnit::Year, 1)));
    /// Every two years.
    pub const BIENNIAL: Self = Self(Some((CycleUnit::Year, 2)));
    /// Paid once, never renewed.
    pub const ONE_TIME: Self = Self(None);

    /// A cycle of `count` units: at least one unit, at most a hundred years.
    pub fn every(count: u16, unit: CycleUnit) -> Result<Self, InvalidValue> {
        let (letter, max) = unit.letter_and_max();
        if (1..=max).contains(&count) {
            Ok(Self(Some((unit, count))))
        } else {
            let message = format!("must have a number from 1 to {max} before the letter {letter}");
            Err(InvalidValue::out_of_range(message))
        }
    }

    /// The unit and the number of units, or `None` if the plan is paid once.
    pub const fn length(self) -> Option<(CycleUnit, u16)> {
        self.0
    }

    /// The names of all cycles that have a name.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMED.iter().map(|(name, ..)| *name)
    }

    fn text(self) -> Cow<'static, str> {
        match (NAMED.iter().find(|(_, cycle, _)| *cycle == self), self.0) {
            (Some((name, ..)), _) => Cow::Borrowed(name),
            (None, Some((unit, count))) => format!("P{count}{}", unit.letter_and_max().0).into(),
            (None, None) => "one_time".into(),
        }
    }
}

impl FromStr for BillingCycle {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let text = text.trim();
        for (name, cycle, aliases) in NAMED {
            let mut names = std::iter::once(&name).chain(aliases);
            if names.any(|name| text.eq_ignore_ascii_case(name)) {
                return Ok(cycle);
            }
        }
        duration(text).unwrap_or_else(|| {
            let names: Vec<_> = Self::names().collect();
            let message = format!(
                "must be one of {}, or an ISO 8601 duration of one unit such as P18M",
                names.join(", ")
            );
            Err(InvalidValue::not_allowed(message))
        })
    }
}

/// Parses an ISO 8601 duration of one unit; `None` if the text has another form.
pub(super) fn duration(text: &str) -> Option<Result<BillingCycle, InvalidValue>> {
    let rest = text.strip_prefix(['P', 'p'])?;
    let unit = [CycleUnit::Day, CycleUnit::Week, CycleUnit::Month, CycleUnit::Year]
        .into_iter()
        .find(|unit| rest.to_ascii_uppercase().ends_with(unit.letter_and_max().0))?;
    let digits = rest.get(..rest.len().checked_sub(1)?)?;
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // A number that does not fit into 16 bits is out of range as well.
    Some(BillingCycle::every(digits.parse().unwrap_or(u16::MAX), unit))
}

written_as_text!(BillingCycle, |cycle| &cycle.text());

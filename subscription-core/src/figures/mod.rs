//! Figures of the business: recurring revenue and paying users, now and month by month, and a forecast of payments.
//!
//! The figures are computed from the records; nothing is stored for them. The present figures come from the
//! subscriptions, those at the end of a month from the payments that are for a period, and the forecast from the steps
//! that the subscriptions will take. Money is exact and per currency: nothing is converted, and nothing is added across
//! currencies. The guide `docs/figures.md` defines each number.
//!
//! ```
//! use subscription_core::figures::Figures;
//! use subscription_core::{
//!     BillingCycle, MemoryStore, NewPlan, NewSubscription, SubscriptionService, SystemRandomness, UserId,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let service = SubscriptionService::new(MemoryStore::default());
//! let year = NewPlan::new("Year".parse()?, "year".parse()?, "100".parse()?, BillingCycle::YEARLY);
//! let year = service.create_plan(year).await?;
//! let ada = UserId::new(service.now(), &SystemRandomness)?;
//! service.create_subscription(NewSubscription::new(ada, year.id)).await?;
//!
//! let figures = Figures::new(service);
//!
//! let now = figures.now().await?;
//! assert_eq!(now.paying_users, 1);
//! assert_eq!(now.money[0].mrr.to_string(), "8.333333");
//! // Nothing was paid for a period yet.
//! let months = figures.months(12).await?;
//! assert_eq!((months.data.len(), months.data[11].paying_users), (12, 0));
//! # Ok(())
//! # }
//! ```

mod forecast;
mod history;
mod months;
mod now;
mod walk;

pub use self::forecast::{FORECAST_MONTHS, Forecast, ForecastMoney, ForecastMonth, ForecastSum};
pub use self::history::{MONTHS_MAX, Month, MonthMoney, MonthPayments, Months};
pub use self::months::{Total, monthly, months_between, worth};
pub use self::now::{MoneyNow, Now, PLANS_MAX, PlanMoney, PlanNow};
pub use self::walk::Figures;

//! The features of a plan, as one comma-separated text.

use crate::values::InvalidValue;
use crate::values::text::{checked, checked_texts};

checked_texts! {
    /// A plan's features: a comma-separated text of at most 4,000 characters, stored exactly as it was sent.
    ///
    /// ```
    /// use subscription_core::Features;
    ///
    /// let features: Features = "api, sso,, audit log ".parse()?;
    /// assert_eq!(features.as_str(), "api, sso,, audit log ");
    /// assert_eq!(features.list().collect::<Vec<_>>(), ["api", "sso", "audit log"]);
    /// # Ok::<(), subscription_core::InvalidValue>(())
    /// ```
    #[derive(Default)]
    Features: features;
}

fn features(text: &str) -> Result<&str, InvalidValue> {
    checked(text, 0, 4_000, false)
}

impl Features {
    /// Iterates over the features, without the blanks around them. Empty features are left out.
    pub fn list(&self) -> impl Iterator<Item = &str> {
        self.0.split(',').map(str::trim).filter(|feature| !feature.is_empty())
    }
}

//! The ids and the labels of [documents](crate::store::Document).

use super::faults::InvalidValue;
use super::text::checked_texts;

checked_texts! {
    /// The id of a [document](crate::store::Document): 1 to 100 visible ASCII characters, sorted byte by byte.
    DocumentId: visible;
    /// The label of a [document](crate::store::Document): 1 to 100 visible ASCII characters.
    Label: visible;
}

fn visible(text: &str) -> Result<&str, InvalidValue> {
    if (1..=100).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(text)
    } else {
        Err(InvalidValue::bad_format("must be 1 to 100 visible ASCII characters"))
    }
}

impl DocumentId {
    /// A text that sorts before every id.
    pub(crate) fn before_all() -> Self {
        Self(Box::default())
    }
}

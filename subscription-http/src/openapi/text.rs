//! Texts with an `ETag`, and JSON objects that keep the order of their members.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::HeaderValue;
use serde::{Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// A text that is ready to be sent, with its `ETag`.
pub(crate) struct Prepared {
    text: Cow<'static, str>,
    tag: HeaderValue,
}

impl Prepared {
    pub(crate) fn new(text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(&*text));
        // A hash in Base64 is a valid header value, so the empty tag is never used.
        let tag = HeaderValue::from_str(&format!("\"{hash}\""));
        Self { text, tag: tag.unwrap_or(HeaderValue::from_static("\"\"")) }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The bytes of the text, without a copy.
    pub(crate) fn bytes(&'static self) -> Bytes {
        Bytes::from_static(self.text.as_bytes())
    }

    /// The `ETag`, a hash of the text.
    pub(crate) fn tag(&self) -> &HeaderValue {
        &self.tag
    }
}

/// An object whose members stay in the order in which they were added.
#[derive(Default)]
pub(super) struct Ordered<V>(Vec<(String, V)>);

impl<V: Default> Ordered<V> {
    pub(super) fn entry(&mut self, name: &str) -> &mut V {
        let nth = self.0.iter().position(|(other, _)| other == name).unwrap_or_else(|| {
            self.0.push((name.to_owned(), V::default()));
            self.0.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "it was found or pushed just now")]
        &mut self.0[nth].1
    }
}

impl<V: Serialize> Serialize for Ordered<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// JSON without white space between its tokens.
pub(super) fn without_blanks(json: &str) -> String {
    let mut in_string = false;
    let mut escaped = false;
    let keeps = |c: &char| {
        let kept = in_string || !c.is_ascii_whitespace();
        if *c == '"' && !escaped {
            in_string = !in_string;
        }
        escaped = *c == '\\' && !escaped;
        kept
    };
    json.chars().filter(keeps).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_go_from_between_tokens_and_stay_in_strings() {
        let json = "{ \"a b\" : [ 1,\n\t2 ], \"c\\\" \\\\\" : \" \" }";

        assert_eq!(without_blanks(json), "{\"a b\":[1,2],\"c\\\" \\\\\":\" \"}");
    }
}

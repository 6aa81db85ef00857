//! A provider that is not compiled in: nothing of it can be read.

use serde_json::Value;

use super::finding::{Finding, Unmapped, Webhook};
use super::object::ObjectKind;
use super::source::PauseMeans;

pub(super) fn webhook(_: &[u8]) -> Webhook {
    Webhook::Unlisted
}

pub(super) fn map(_: ObjectKind, _: &Value, _: PauseMeans) -> Result<Finding, Unmapped> {
    Err(Unmapped::Unreadable { path: "".into() })
}

pub(super) mod requests {
    use crate::providers::api::ApiPage;
    use crate::providers::http_api::Requests;

    pub(in crate::providers) const REQUESTS: Requests = Requests {
        host: "",
        headers: &[],
        object: |_, _| None,
        object_in: |answer| answer,
        added: &[],
        list: |_, _| None,
        page: |_, _, _| Ok(ApiPage::default()),
    };
}

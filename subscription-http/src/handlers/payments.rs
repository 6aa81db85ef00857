//! `/subscription-payments`: the payments of subscriptions.

use http::StatusCode;
use serde::Serialize;
use subscription_core::auth::Scope::{PaymentsRead, PaymentsWrite};
use subscription_core::{Line, NewPayment, Payment, PaymentChanges};

use crate::api::routes::{Area, delete, get, post, put, scope};
use crate::api::{ApiError, Call, Reply};

pub(crate) static AREA: Area = Area::new(
    "/subscription-payments",
    &[
        get("/subscription-payments/{payment_id}", scope(PaymentsRead), &show),
        post("/subscription-payments", scope(PaymentsWrite), &create),
        put("/subscription-payments/{payment_id}", scope(PaymentsWrite), &update),
        delete("/subscription-payments/{payment_id}", scope(PaymentsWrite), &remove),
    ],
);

/// A payment with the lines of its amount.
#[derive(Serialize)]
struct WithLines<'p> {
    #[serde(flatten)]
    payment: &'p Payment,
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<Vec<Line>>,
}

async fn show(call: Box<Call>) -> Result<Reply, ApiError> {
    let payment = call.service.payment(call.path("payment_id")?).await?;
    let version = payment.version;
    if call.has(version)? {
        return Ok(Reply::empty(StatusCode::NOT_MODIFIED).version(version));
    }
    let lines = payment.lines();
    Ok(Reply::ok(&WithLines { payment: &payment, lines })?.version(version))
}

async fn create(call: Box<Call>) -> Result<Reply, ApiError> {
    let new = call.input(NewPayment::from_json)?;
    let created = call.service.create_payment_once(new, call.idempotency()?).await?;
    let made = &created.record;
    let reply = call.whole_record(StatusCode::CREATED, made)?;
    Ok(reply.location(&format!("subscription-payments/{}", made.id)).replayed(created.replayed))
}

async fn update(call: Box<Call>) -> Result<Reply, ApiError> {
    let id = call.path("payment_id")?;
    let changes = call.input(PaymentChanges::from_json)?;
    let update = |version| call.service.update_payment_if(id, version, changes.clone());
    let next = call.if_match(update).await?;
    call.whole_record(StatusCode::OK, &next)
}

async fn remove(call: Box<Call>) -> Result<Reply, ApiError> {
    let id = call.path("payment_id")?;
    call.if_match(|version| call.service.delete_payment_if(id, version)).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

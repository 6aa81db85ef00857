//! Amounts with all their digits. For a zero, sqlx loses the digits after the point, both in reading and in writing.

use rust_decimal::Decimal;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueFormat, PgValueRef};
use sqlx::{Decode, Encode, Postgres, Type};

/// A decimal number whose zeros after the point are preserved.
pub(super) struct Digits(pub(super) Decimal);

impl Type<Postgres> for Digits {
    fn type_info() -> PgTypeInfo {
        <Decimal as Type<Postgres>>::type_info()
    }
}

impl PgHasArrayType for Digits {
    fn array_type_info() -> PgTypeInfo {
        <Decimal as PgHasArrayType>::array_type_info()
    }
}

impl Encode<'_, Postgres> for Digits {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        if !self.0.is_zero() {
            return <Decimal as Encode<'_, Postgres>>::encode_by_ref(&self.0, buffer);
        }
        // The binary form of zero: no digits, no weight, no sign, and then the number of places after the point.
        buffer.extend([0; 6]);
        buffer.extend(u16::try_from(self.0.scale())?.to_be_bytes());
        Ok(IsNull::No)
    }
}

impl Decode<'_, Postgres> for Digits {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        if value.format() == PgValueFormat::Binary
            && let [0, 0, _, _, 0, 0, places @ ..] = value.as_bytes()?
        {
            let places = u16::from_be_bytes(places.try_into()?);
            return Ok(Self(Decimal::try_new(0, places.into())?));
        }
        <Decimal as Decode<'_, Postgres>>::decode(value).map(Self)
    }
}

//! Everything out of one store and into another.
#![expect(clippy::indexing_slicing, reason = "a test that fails panics")]

mod edits;
mod faults;
mod idempotency;
mod providers;
mod refusals;
mod round_trips;
mod sample_records;
mod writers;

use subscription_core::Store;
use subscription_core::store::transfer::{Counts, ImportOptions, Progress, TransferError};
use subscription_core::store::{ChangeSet, PostgresStore, Record, SqliteStore};
use test_support::trials::Trial;

pub(crate) use self::sample_records::SampleRecords;

/// A store that files come from and go to.
pub(crate) trait Movable: Store + Sized {
    async fn write(&self, progress: impl FnMut(Progress) + Send) -> Result<Vec<u8>, TransferError>;

    async fn read(
        &self,
        file: &[u8],
        progress: impl FnMut(Progress) + Send,
    ) -> Result<Counts, TransferError>;

    async fn moved_out(&self) -> Vec<u8> {
        self.write(|_| {}).await.unwrap()
    }

    async fn move_in_with(
        &self,
        file: &[u8],
        options: ImportOptions<'_>,
    ) -> Result<Counts, TransferError>;

    async fn move_in(&self, file: &[u8]) -> Result<Counts, TransferError> {
        self.read(file, |_| {}).await
    }
}

macro_rules! movable {
    ($store:ident) => {
        impl Movable for $store {
            async fn write(
                &self,
                progress: impl FnMut(Progress) + Send,
            ) -> Result<Vec<u8>, TransferError> {
                let mut file = Vec::new();
                self.export(&mut file, progress).await?;
                Ok(file)
            }

            async fn read(
                &self,
                file: &[u8],
                progress: impl FnMut(Progress) + Send,
            ) -> Result<Counts, TransferError> {
                self.import(file, progress).await
            }

            async fn move_in_with(
                &self,
                file: &[u8],
                options: ImportOptions<'_>,
            ) -> Result<Counts, TransferError> {
                self.import_with(file, options, |_| {}).await
            }
        }
    };
}

movable!(SqliteStore);
movable!(PostgresStore);

async fn commit(store: &impl Store, writes: Vec<Record>) {
    store.commit(ChangeSet { writes, ..ChangeSet::default() }).await.unwrap();
}

/// Those that need no server.
pub(crate) fn trials() -> Vec<Trial> {
    round_trips::trials()
        .into_iter()
        .chain(edits::trials())
        .chain(refusals::trials())
        .chain(faults::trials())
        .chain(writers::trials())
        .chain(providers::trials())
        .chain(idempotency::trials())
        .collect()
}

pub(crate) fn trials_with_a_server() -> Vec<Trial> {
    let round_trips = round_trips::trials_with_a_server().into_iter();
    let refusals = refusals::trials_with_a_server();
    round_trips
        .chain(edits::trials_with_a_server())
        .chain(refusals)
        .chain(faults::trials_with_a_server())
        .chain(writers::trials_with_a_server())
        .chain(providers::trials_with_a_server())
        .chain(idempotency::trials_with_a_server())
        .collect()
}

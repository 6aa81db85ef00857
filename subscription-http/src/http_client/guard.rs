//! The guard of deliveries: a resolver that refuses names with a blocked address, and a time-out for connecting.
//!
//! hyper calls a resolver for names only. Addresses in URLs are checked by `AddressRules::check`.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, vec};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use http::Uri;
use hyper_util::client::legacy::connect::dns::Name;
use subscription_core::webhooks::AddressRules;
use tokio::net::lookup_host;
use tokio::time::timeout;
use tower_service::Service;

use crate::BoxError;

type BoxFuture<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;

/// Looks up the addresses of names.
#[async_trait]
pub trait ResolveName: Send + Sync + fmt::Debug {
    /// All addresses of a name.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Looks up names as the system does.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemNames;

#[async_trait]
impl ResolveName for SystemNames {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// A resolver that refuses a name if one of its addresses is blocked. It returns only addresses that it has checked, so
/// connections are made only to checked addresses.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    pub(super) names: Arc<dyn ResolveName>,
    pub(super) rules: Arc<AddressRules>,
    /// True for connections without TLS.
    pub(super) plain: bool,
}

impl Service<Name> for Guard {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = BoxFuture<Self::Response>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let Self { names, rules, plain } = self.clone();
        Box::pin(async move {
            let addresses = names.resolve(name.as_str()).await?;
            if let Some(blocked) = addresses.iter().find(|address| !rules.admits(**address, plain))
            {
                return Err(BlockedAddress(*blocked).into());
            }
            // The connector sets the port.
            let addresses: Vec<_> =
                addresses.into_iter().map(|address| SocketAddr::new(address, 0)).collect();
            Ok(addresses.into_iter())
        })
    }
}

/// A connector with a time limit for the look-up of the name, TCP and TLS together.
#[derive(Debug, Clone)]
pub(super) struct InTime<C> {
    pub(super) connector: C,
    pub(super) limit: Duration,
}

impl<C> Service<Uri> for InTime<C>
where
    C: Service<Uri, Error: Into<BoxError>, Future: Send + 'static>,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = BoxFuture<C::Response>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let connected = timeout(self.limit, self.connector.call(to));
        Box::pin(connected.map(|connected| match connected {
            Ok(connected) => connected.map_err(Into::into),
            Err(_) => Err(ConnectTimedOut.into()),
        }))
    }
}

/// The error for a name that has an address that is not allowed.
#[derive(Debug, thiserror::Error)]
#[error("the address {0} is not allowed")]
pub(super) struct BlockedAddress(IpAddr);

/// The error for a connection that was not made in time.
#[derive(Debug, thiserror::Error)]
#[error("connecting took too long")]
pub(super) struct ConnectTimedOut;

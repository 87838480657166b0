//! How simulated arrays start, whichever they are.

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::control::{self, Controlled};
use crate::endpoints::EndpointError;
use crate::store::StoreError;

/// How often what is done with being removed is let go of.
const SWEEP: Duration = Duration::from_millis(50);

/// Why an array does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its data directory.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its ports.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

/// An array that lets go of what was removed.
pub trait Swept: Controlled {
    /// Why it cannot.
    type Failure: Display + Send;

    /// Lets go of what is done with being removed. Called twice: nothing is left.
    fn sweep(&self) -> impl Future<Output = Result<(), Self::Failure>> + Send;
}

/// Lets the endpoints and the control API of an array answer; returns the URL of the latter, and what ends it.
pub async fn serve<A: Swept>(
    array: Arc<A>,
    control: SocketAddr,
    router: Router,
) -> Result<(String, DropGuard), StartError> {
    for number in 0..array.endpoints().status().len() {
        array.endpoints().start(number, array.router()).await?;
    }
    let stop = CancellationToken::new();
    let url = control::serve(control, router, &stop).await?;
    let sweeping = stop.clone();
    tokio::spawn(async move { sweeping.run_until_cancelled(sweep(&*array)).await });
    Ok((url, stop.drop_guard()))
}

async fn sweep(array: &impl Swept) {
    let mut ticks = interval(SWEEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(error) = array.sweep().await {
            tracing::warn!(%error, "What was removed stays for now.");
        }
    }
}

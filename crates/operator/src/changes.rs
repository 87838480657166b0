//! Changes of a shared value as a stream: what makes the controller reconcile everything.

use futures::{Stream, stream};
use tokio::sync::watch;

/// One item for each change, or for several that came together. Ends when nobody can change the value any more.
pub(crate) fn changes<T: Send + Sync + 'static>(
    value: watch::Receiver<T>,
) -> impl Stream<Item = ()> + Send + 'static {
    stream::unfold(value, |mut value| async move {
        value.changed().await.ok()?;
        Some(((), value))
    })
}

//! Work on disks that may take longer than any call: making, checking and growing filesystems.
//!
//! A tool dies with the call that started it. `e2fsck` of a large disk would be killed at the kubelet's deadline and begun
//! again by the next call, for ever. So such work is a task of its own, which keeps the volume's lock: the caller who gives up
//! is told that it was late, the next ones get ABORTED, and whoever comes after its end finds it done, or is told why not.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use stowage_api::causes::chain;
use stowage_csi::locks::VolumeGuard;
use stowage_csi::waiting::of_this_call;
use stowage_host::joined;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::driver::error::Error;

/// Work that goes on without its caller.
#[derive(Clone, Default)]
pub struct Lasting {
    /// What was not heard by anybody, by volume.
    unheard: Arc<Mutex<HashMap<String, Error>>>,
}

impl Lasting {
    /// Why the last work on a volume failed, if nobody was there to hear it. Called twice: it was said.
    pub fn heard(&self, volume: &str) -> Result<(), Error> {
        let unheard = self.unheard.lock().remove(volume);
        unheard.map_or(Ok(()), Err)
    }

    /// Does something to a volume, to its end. Dropping the future does not stop it.
    pub async fn run<T: Send + 'static>(
        &self,
        volume: &str,
        guard: VolumeGuard,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let gone = CancellationToken::new();
        let _caller = gone.clone().drop_guard();
        let (volume, unheard) = (volume.to_owned(), Arc::clone(&self.unheard));
        let task = async move {
            let _guard = guard;
            match work.await {
                Err(error) if gone.is_cancelled() => {
                    tracing::warn!(
                        volume,
                        error = chain(&error),
                        "Work on a disk failed after its caller had given up."
                    );
                    unheard.lock().insert(volume, error);
                    None
                }
                done => Some(done),
            }
        };
        match joined(tokio::spawn(of_this_call(task.in_current_span()))).await {
            Some(done) => done,
            // Nobody is here to be told.
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use stowage_csi::locks::VolumeLocks;
    use tokio::sync::oneshot;
    use tokio::time::{sleep, timeout};

    use super::*;

    #[tokio::test]
    async fn work_goes_on_without_its_caller_and_the_next_one_is_told_how_it_ended() {
        let (locks, lasting) = (VolumeLocks::default(), Lasting::default());
        let (end, ended) = oneshot::channel::<()>();
        let work = async {
            let _ = ended.await;
            Err::<(), _>(Error::Usage("it is broken".to_owned()))
        };
        let work = lasting.run("v", locks.lock("v").unwrap(), work);
        let late = timeout(Duration::from_millis(10), work).await;
        assert!(late.is_err(), "the caller gave up");
        assert!(locks.lock("v").is_err(), "it goes on");
        assert!(lasting.heard("v").is_ok());

        end.send(()).unwrap();
        while locks.lock("v").is_err() {
            sleep(Duration::from_millis(1)).await;
        }
        let told = lasting.heard("v").unwrap_err();
        assert_eq!(told.to_string(), "it is broken");
        assert!(lasting.heard("v").is_ok(), "once");

        let work = async { Err::<(), _>(Error::Usage("again".to_owned())) };
        let told = lasting.run("v", locks.lock("v").unwrap(), work).await;
        assert_eq!(told.unwrap_err().to_string(), "again");
        assert!(lasting.heard("v").is_ok() && locks.lock("v").is_ok());
    }
}

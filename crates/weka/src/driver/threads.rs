//! Work on a mounted filesystem, each piece on a thread of its own.
//!
//! A thread that waits for a dead filesystem cannot be stopped. So it is left alone; it keeps the lock of its volume, so
//! that nobody begins the same again beside it; and one filesystem has so many of them and no more, so that it takes
//! nothing from the others.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use stowage_csi::locks::VolumeGuard;
use stowage_csi::waiting::on_machine;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::rest::Deadline;

/// How many threads one filesystem may have.
const MOST: usize = 64;

/// Enough for a walk through directories.
const STACK: usize = 512 * 1024;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stuck {
    #[error("it has not answered for {} s; nothing else is held up by it", .0.as_secs_f32())]
    Hung(Duration),
    #[error("it does not answer: {MOST} calls wait for it already")]
    Crowded,
    #[error("no thread for it")]
    Thread(#[source] io::Error),
    #[error("the work on it was lost")]
    Lost,
}

/// The right to work on a volume, shared with threads that may outlive the call.
pub(crate) type Guard = Arc<VolumeGuard>;

/// Threads by what they may wait for.
#[derive(Clone, Default)]
pub(crate) struct Threads {
    under_way: Arc<Mutex<HashMap<String, usize>>>,
}

impl Threads {
    /// Does the work, and waits for it as long as the caller has time.
    pub(crate) async fn run<T, W>(
        &self,
        filesystem: &str,
        guard: Option<Guard>,
        deadline: Deadline,
        work: W,
    ) -> Result<T, Stuck>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        let place = self.enter(filesystem)?;
        let (sender, answer) = oneshot::channel();
        let begun = move || {
            let done = work();
            drop((place, guard));
            // The caller may have given up.
            let _ = sender.send(done);
        };
        thread::Builder::new()
            .name("weka-files".to_owned())
            .stack_size(STACK)
            .spawn(begun)
            .map_err(Stuck::Thread)?;
        let time = deadline.remaining();
        match on_machine(timeout(time, answer)).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(_)) => Err(Stuck::Lost),
            Err(_) => Err(Stuck::Hung(time)),
        }
    }

    fn enter(&self, filesystem: &str) -> Result<Place, Stuck> {
        let mut under_way = self.under_way.lock();
        let count = under_way.entry(filesystem.to_owned()).or_default();
        if *count >= MOST {
            return Err(Stuck::Crowded);
        }
        *count += 1;
        Ok(Place {
            threads: self.clone(),
            filesystem: filesystem.to_owned(),
        })
    }
}

/// One thread's place among those of its filesystem.
struct Place {
    threads: Threads,
    filesystem: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        let under_way = &self.threads.under_way;
        let mut under_way = under_way.lock();
        if let Some(count) = under_way.get_mut(&self.filesystem) {
            *count -= 1;
            if *count == 0 {
                under_way.remove(&self.filesystem);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use stowage_csi::locks::VolumeLocks;

    use super::*;

    #[tokio::test]
    async fn a_hung_filesystem_keeps_its_volume_and_holds_up_no_other() {
        let (threads, locks) = (Threads::default(), VolumeLocks::default());
        let (release, hang) = mpsc::channel::<()>();
        let guard = Arc::new(locks.lock("hung").unwrap());
        let soon = Deadline::after(Duration::from_millis(50));
        let stuck = threads
            .run("dead", Some(guard), soon, move || hang.recv())
            .await;
        assert!(matches!(stuck, Err(Stuck::Hung(_))));
        assert!(locks.lock("hung").is_err(), "the thread still works on it");
        let later = Deadline::after(Duration::from_secs(10));
        assert_eq!(threads.run("alive", None, later, || 7).await.unwrap(), 7);
        release.send(()).unwrap();
        while locks.lock("hung").is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test]
    async fn one_filesystem_has_so_many_threads_and_no_more() {
        let threads = Threads::default();
        let (release, hang) = mpsc::sync_channel::<()>(MOST);
        let hang = Arc::new(Mutex::new(hang));
        let now = Deadline::after(Duration::from_millis(1));
        for _ in 0..MOST {
            let hang = hang.clone();
            let stuck = threads
                .run("dead", None, now, move || hang.lock().recv().is_ok())
                .await;
            assert!(matches!(stuck, Err(Stuck::Hung(_))));
        }
        let crowded = threads.run("dead", None, now, || ()).await;
        assert!(matches!(crowded, Err(Stuck::Crowded)));
        for _ in 0..MOST {
            release.send(()).unwrap();
        }
    }
}

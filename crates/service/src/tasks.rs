//! Named background tasks.
//!
//! A task that hangs at the end of a process, or dies in the middle of it, must not go unnoticed: tasks have names,
//! the end of the process waits for them, and a panic in one of them stops the process instead of leaving it half
//! alive.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The background tasks of a process. Clones share them.
#[derive(Clone, Debug)]
pub struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
    names: Arc<Mutex<Names>>,
}

#[derive(Debug, Default)]
struct Names {
    next: u64,
    running: BTreeMap<u64, String>,
    panicked: Option<String>,
}

impl Tasks {
    /// No tasks yet. A panic in a task cancels `stop`.
    pub fn new(stop: CancellationToken) -> Self {
        Self {
            tracker: TaskTracker::new(),
            stop,
            names: Arc::default(),
        }
    }

    /// Runs `task` in the background. It should end soon after the shutdown token is cancelled.
    pub fn spawn(&self, name: impl Into<String>, task: impl Future<Output = ()> + Send + 'static) {
        let running = Running::new(self.clone(), name.into());
        self.tracker.spawn(async move {
            let _running = running;
            task.await;
        });
    }

    /// Waits for all tasks, at most until `deadline`, and returns the names of those that still run.
    pub(crate) async fn finish(&self, deadline: Instant) -> Vec<String> {
        self.tracker.close();
        match timeout_at(deadline, self.tracker.wait()).await {
            Ok(()) => Vec::new(),
            Err(_) => self.names.lock().running.values().cloned().collect(),
        }
    }

    /// The name of the first task that panicked.
    pub(crate) fn panicked(&self) -> Option<String> {
        self.names.lock().panicked.clone()
    }
}

/// Keeps the name of a task on the list for as long as the task lives, however it ends.
struct Running {
    tasks: Tasks,
    number: u64,
}

impl Running {
    fn new(tasks: Tasks, name: String) -> Self {
        let mut names = tasks.names.lock();
        let number = names.next;
        names.next += 1;
        names.running.insert(number, name);
        drop(names);
        Self { tasks, number }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut names = self.tasks.names.lock();
        let name = names.running.remove(&self.number);
        if thread::panicking() {
            names.panicked = names.panicked.take().or(name);
            self.tasks.stop.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(50)
    }

    #[tokio::test]
    async fn tasks_that_end_leave_nothing_to_report() {
        let stop = CancellationToken::new();
        let tasks = Tasks::new(stop.clone());
        tasks.spawn("polite", stop.clone().cancelled_owned());
        stop.cancel();
        assert!(tasks.finish(soon()).await.is_empty());
    }

    #[tokio::test]
    async fn tasks_that_do_not_end_are_named() {
        let tasks = Tasks::new(CancellationToken::new());
        tasks.spawn("quick", async {});
        tasks.spawn("stuck", pending());
        tasks.spawn("stuck too", pending());
        assert_eq!(tasks.finish(soon()).await, ["stuck", "stuck too"]);
    }

    #[tokio::test]
    async fn a_panic_in_a_task_stops_the_process_and_is_named() {
        let stop = CancellationToken::new();
        let tasks = Tasks::new(stop.clone());
        tasks.spawn("clumsy", async { panic!("on purpose, by a test") });
        timeout_at(soon(), stop.cancelled())
            .await
            .expect("the process goes on");
        assert_eq!(tasks.panicked().as_deref(), Some("clumsy"));
        assert!(tasks.finish(soon()).await.is_empty());
    }
}

//! What the kernel has open.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fuser::FileHandle;
use parking_lot::Mutex;

/// What the kernel has open.
#[derive(Debug)]
pub struct Handles<T> {
    open: Mutex<HashMap<u64, Arc<T>>>,
    next: AtomicU64,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self {
            open: Mutex::default(),
            next: AtomicU64::new(1),
        }
    }
}

impl<T> Handles<T> {
    /// Another one is open.
    pub fn add(&self, value: T) -> FileHandle {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.open.lock().insert(number, Arc::new(value));
        FileHandle(number)
    }

    /// One that is open.
    pub fn get(&self, handle: FileHandle) -> io::Result<Arc<T>> {
        self.open
            .lock()
            .get(&handle.0)
            .cloned()
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
    }

    /// One is closed.
    pub fn remove(&self, handle: FileHandle) {
        self.open.lock().remove(&handle.0);
    }
}

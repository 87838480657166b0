//! Taking a file away from a loop device.

use std::thread;
use std::time::Duration;

use rustix::io::Errno;

use super::{Detached, LoopDevice, LoopError, Loops, is};
use crate::ioctl;

/// How often and how long apart it is looked whether a detached device is free: others open it for a moment, to see
/// whose it is.
const CLOSING_ATTEMPTS: usize = 10;
const CLOSING_PAUSE: Duration = Duration::from_millis(10);

impl LoopDevice {
    /// Takes the file away from the device if it still stands for it.
    ///
    /// The kernel may forget what is only in the device's cache: whoever wants it kept writes it out before
    /// ([`Flushes`](crate::flush::Flushes)).
    ///
    /// Called twice: the second call finds that it does not, and leaves it alone whatever it stands for by then.
    pub fn detach(self, loops: &Loops) -> Result<Detached, LoopError> {
        if self.status()?.is_none() {
            return Ok(Detached::Already);
        }
        match ioctl::loop_clear(&self.node) {
            Ok(()) => {}
            Err(error) if is(&error, &[Errno::NXIO]) => return Ok(Detached::Already),
            Err(source) => return Err(self.refusal("detach", source)),
        }
        let (number, backing) = (self.number, self.backing);
        // Our own descriptor is a user too.
        drop(self);
        for _ in 0..CLOSING_ATTEMPTS {
            if loops.at(number, backing)?.is_none() {
                return Ok(Detached::Done);
            }
            thread::sleep(CLOSING_PAUSE);
        }
        Ok(Detached::WhenClosed)
    }
}

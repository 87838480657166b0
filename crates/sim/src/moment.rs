//! The time, and what nobody can guess.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub type Millis = u64;

/// The time.
pub fn now() -> Millis {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    millis(since)
}

/// A time as knobs have it.
pub fn millis(duration: Duration) -> Millis {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A text that nobody can guess, of twice as many characters.
pub fn fresh_secret(bytes: usize) -> String {
    let mut random = vec![0; bytes];
    let mut filled = 0;
    while filled < bytes {
        filled +=
            rustix::rand::getrandom(&mut random[filled..], rustix::rand::GetRandomFlags::empty())
                .expect("the kernel has random numbers");
    }
    random.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

//! Work that the array has taken on and not finished.
//!
//! Such work has no name and no end that the array would tell: what it is about has to be looked at until it is as it
//! should be.

use std::time::Duration;

use stowage_api::backoff::Backoff;
use stowage_csi::waiting::on_machine;
use stowage_rest::Deadline;
use tokio::time::sleep;

use super::error::ApiError;

/// The pauses between looks.
const LOOKS: Backoff = Backoff {
    first: Duration::from_millis(100),
    longest: Duration::from_secs(2),
};

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "work that was taken on has to be followed to its end"]
pub enum Outcome<T> {
    /// It is made.
    Done(T),
    /// It is being made: look at what it is about.
    Submitted,
}

impl<T> Outcome<T> {
    /// The same with another value.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Self::Done(value) => Outcome::Done(change(value)),
            Self::Submitted => Outcome::Submitted,
        }
    }

    /// What is told of it, if it is made.
    pub fn done(self) -> Option<T> {
        match self {
            Self::Done(value) => Some(value),
            Self::Submitted => None,
        }
    }
}

/// Looks again and again until `look` finds what it waits for, or the time is over.
pub async fn follow<T, F>(
    doing: &'static str,
    deadline: Deadline,
    mut look: impl FnMut() -> F,
) -> Result<T, ApiError>
where
    F: Future<Output = Result<Option<T>, ApiError>>,
{
    let mut looks = 0;
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        looks += 1;
        let pause = LOOKS.after(looks);
        if deadline.remaining() <= pause {
            let reason = "the request has been submitted and is not finished".to_owned();
            return Err(ApiError::Deadline { doing, reason });
        }
        on_machine(sleep(pause)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    #[tokio::test]
    async fn it_is_looked_until_it_is_there_or_the_time_is_over() {
        let mut looks = 0;
        let deadline = Deadline::after(Duration::from_secs(60));
        let found = follow("create a volume", deadline, || {
            looks += 1;
            ready(Ok((looks == 4).then_some(looks)))
        });
        assert_eq!(found.await, Ok(4));
        let over = Deadline::after(Duration::ZERO);
        let late = follow("create a volume", over, || ready(Ok(None::<()>))).await;
        let late = late.unwrap_err().to_string();
        assert!(late.contains("did not create a volume in time"), "{late}");
        let lost = ApiError::AccessKey;
        let failed = follow("x", over, || ready(Err::<Option<()>, _>(lost.clone()))).await;
        assert_eq!(failed, Err(lost));
    }
}

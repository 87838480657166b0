//! What can happen to calls: to all of an RPC, or to the next few.

use std::time::Duration;

use parking_lot::Mutex;
use tonic::{Code, Status};

/// Something that happens to calls of an RPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mishap {
    pub(super) moment: Moment,
    pub(super) trouble: Trouble,
    /// `None`: to every call.
    pub(super) left: Option<u32>,
}

/// On which side of the call's effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The driver has done nothing yet.
    Before,
    /// The driver has done what was asked, and its state says so.
    After,
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It takes longer.
    Delay(Duration),
    /// The call ends with this answer.
    Refuse(Code, String),
    /// There is never an answer.
    Hang,
    /// The connection breaks, and with it all other calls on it.
    Disconnect,
}

impl Mishap {
    /// Happens to every call.
    pub fn new(moment: Moment, trouble: Trouble) -> Self {
        Self {
            moment,
            trouble,
            left: None,
        }
    }

    /// Calls do nothing and answer this.
    pub fn refuse(code: Code, message: &str) -> Self {
        Self::new(Moment::Before, Trouble::Refuse(code, message.to_owned()))
    }

    /// Calls take so much longer before they do anything.
    pub fn delay(time: Duration) -> Self {
        Self::new(Moment::Before, Trouble::Delay(time))
    }

    /// Calls do nothing, for ever.
    pub fn hang() -> Self {
        Self::new(Moment::Before, Trouble::Hang)
    }

    /// Calls do what they should, and the connection breaks before the answer is sent.
    pub fn lose_answer() -> Self {
        Self::new(Moment::After, Trouble::Disconnect)
    }

    /// Happens to the next `count` calls only.
    pub fn times(mut self, count: u32) -> Self {
        self.left = Some(count);
        self
    }

    /// Happens to the next call only.
    pub fn once(self) -> Self {
        self.times(1)
    }
}

/// What one call has to go through, in the order in which it was set.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Lot {
    pub(super) before: Vec<Trouble>,
    pub(super) after: Vec<Trouble>,
}

/// All mishaps, with the RPC they are for; `None` is every RPC.
#[derive(Debug, Default)]
pub(super) struct Mishaps(Mutex<Vec<(Option<&'static str>, Mishap)>>);

impl Mishaps {
    pub(super) fn add(&self, rpc: Option<&'static str>, mishap: Mishap) {
        let mut all = self.0.lock();
        all.push((rpc, mishap));
    }

    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }

    /// What happens to the call of `rpc` that starts now.
    pub(super) fn draw(&self, rpc: &str) -> Lot {
        let mut lot = Lot::default();
        let mut all = self.0.lock();
        for (of, mishap) in all.iter_mut() {
            if of.is_some_and(|of| of != rpc) {
                continue;
            }
            match &mut mishap.left {
                None => {}
                Some(0) => continue,
                Some(left) => *left -= 1,
            }
            match mishap.moment {
                Moment::Before => lot.before.push(mishap.trouble.clone()),
                Moment::After => lot.after.push(mishap.trouble.clone()),
            }
        }
        all.retain(|(_, mishap)| mishap.left != Some(0));
        lot
    }
}

impl Trouble {
    /// Lives through it; an error is the call's answer.
    pub(super) async fn strike(self, disconnect: impl FnOnce()) -> Result<(), Status> {
        match self {
            Self::Delay(time) => {
                tokio::time::sleep(time).await;
                Ok(())
            }
            Self::Refuse(code, message) => Err(Status::new(code, message)),
            Self::Hang => std::future::pending().await,
            Self::Disconnect => {
                disconnect();
                std::future::pending().await
            }
        }
    }
}

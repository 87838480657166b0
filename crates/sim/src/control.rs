//! What goes wrong with arrays, on purpose: the part of the control API that all simulators have.
//!
//! - [`client`]: for tests.
//! - [`server`]: what answers it, on a port of its own, so that it works while no endpoint does.
//! - [`Controls`]: faults, knobs, and the requests that were seen.

pub mod client;
pub mod server;

use std::collections::VecDeque;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

pub use self::client::{Client, ControlError};
pub use self::server::{Controlled, serve};
use crate::faults::Faults;

/// Requests that are remembered.
const REMEMBERED: usize = 100_000;

/// A request that the REST API answered, or left without answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenRequest {
    /// `GET`, `POST`, ...
    pub method: String,
    /// Below the API's own path, and without query.
    pub path: String,
    /// The query, empty if there was none.
    pub query: String,
    /// The HTTP status of the answer.
    pub status: u16,
    /// The endpoint it came to.
    pub endpoint: usize,
}

/// A restart.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restart {
    /// How long nothing answers, in milliseconds.
    #[serde(default)]
    pub down: u64,
}

/// What the control API says if it cannot do something.
#[derive(Debug, Serialize, Deserialize)]
pub struct ErrorBody {
    /// Why.
    pub message: String,
}

/// What can be turned while an array runs, what goes wrong, and what was asked.
#[derive(Debug)]
pub struct Controls<K, T> {
    /// What goes wrong.
    pub faults: Faults<T>,
    knobs: Mutex<K>,
    requests: Mutex<VecDeque<SeenRequest>>,
}

impl<K: Clone, T> Controls<K, T> {
    /// Nothing goes wrong yet.
    pub fn new(knobs: K) -> Self {
        Self {
            faults: Faults::default(),
            knobs: Mutex::new(knobs),
            requests: Mutex::default(),
        }
    }

    /// How the knobs are now.
    pub fn knobs(&self) -> K {
        self.knobs.lock().clone()
    }

    /// Turns them.
    pub fn set_knobs(&self, knobs: K) {
        *self.knobs.lock() = knobs;
    }

    /// Remembers a request.
    pub fn saw(&self, request: SeenRequest) {
        let mut requests = self.requests.lock();
        if requests.len() == REMEMBERED {
            requests.pop_front();
        }
        requests.push_back(request);
    }

    /// The requests since the last call.
    pub fn take_requests(&self) -> Vec<SeenRequest> {
        self.requests.lock().drain(..).collect()
    }
}

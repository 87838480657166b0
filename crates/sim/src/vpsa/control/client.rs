//! The client of the control API, for tests.

use std::collections::BTreeMap;
use std::net::IpAddr;

use reqwest::Method;

use super::server::{DataPlane, Key, Session, Status, Upgrade};
use crate::control::{Client, ControlError};
use crate::vpsa::core::Knobs;
use crate::vpsa::state::{Object, State};

type Result<T, E = ControlError> = std::result::Result<T, E>;

/// The client of an array's control API, with what all simulators have.
#[derive(Clone, Debug)]
pub struct Control {
    client: Client,
}

impl std::ops::Deref for Control {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Control {
    /// For the array whose `--control` is at this URL.
    pub fn new(url: impl Into<String>) -> Self {
        let client = Client::new(url);
        Self { client }
    }

    /// How the array is.
    pub async fn status(&self) -> Result<Status> {
        self.get("status").await
    }

    /// Everything that the array knows.
    pub async fn objects(&self) -> Result<State> {
        let objects: Vec<Object> = self.get("objects").await?;
        let mut state = State::default();
        for object in objects {
            state.apply(crate::vpsa::state::Change::Put(object));
        }
        Ok(state)
    }

    /// Adds or replaces any object, whatever the array thinks of it.
    pub async fn put(&self, object: Object) -> Result<()> {
        self.post("objects", &object).await
    }

    /// Turns knobs: `control.turn(|knobs| knobs.clone_delay = 5000)`.
    pub async fn turn(&self, change: impl FnOnce(&mut Knobs)) -> Result<()> {
        self.turn_knobs(change).await
    }

    /// The array runs another version from now on.
    pub async fn upgrade(&self, release: &str) -> Result<()> {
        let release = release.to_owned();
        self.client.put("release", &Upgrade { release }).await
    }

    /// Lets clients in with this key and no other.
    pub async fn set_access_key(&self, key: &str) -> Result<()> {
        let key = key.to_owned();
        self.client.put("access_key", &Key { key }).await
    }

    /// The other controller takes over.
    pub async fn fail_over(&self) -> Result<()> {
        self.post("failover", &()).await
    }

    /// Lets the ports for data answer, or not: an array that is down.
    pub async fn set_data(&self, up: bool) -> Result<()> {
        self.set_data_at(None, up).await
    }

    /// The same for one of several addresses: one path of several.
    pub async fn set_data_at(&self, address: Option<IpAddr>, up: bool) -> Result<()> {
        self.client.put("data", &DataPlane { up, address }).await
    }

    /// Who is logged in, and who has a share mounted.
    pub async fn sessions(&self) -> Result<Vec<Session>> {
        self.get("sessions").await
    }

    /// How many requests of each kind there were since the start, such as `POST volumes/*/expand`.
    pub async fn counters(&self) -> Result<BTreeMap<String, u64>> {
        self.call(Method::GET, "counters", None::<&()>).await
    }
}

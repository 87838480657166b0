//! Addresses of a Weka cluster, and which of them is used.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use parking_lot::Mutex;
use stowage_rest::{Address, AddressError};

/// Where the API is unless an address says otherwise.
const DEFAULT_PORT: u16 = 14000;

/// Host and port of one API server.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Endpoint {
    /// As a URL has it: IPv6 in brackets.
    host: String,
    port: u16,
}

impl Endpoint {
    /// An address from the cluster's own list.
    pub(crate) fn of_address(address: IpAddr, port: u16) -> Self {
        Self::new(&address.into(), port)
    }

    fn new(address: &Address, port: u16) -> Self {
        let host = address.host().to_owned();
        Self { host, port }
    }
}

impl FromStr for Endpoint {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let address: Address = text.parse()?;
        Ok(Self::new(&address, address.port_or(DEFAULT_PORT)))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// All addresses of a cluster. One is used until it fails.
#[derive(Debug)]
pub(crate) struct Endpoints {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    all: Vec<Endpoint>,
    current: usize,
}

impl Endpoints {
    /// Begins with one by chance, so that many nodes do not all ask the same one.
    pub(crate) fn new(all: Vec<Endpoint>) -> Self {
        let current = any_index(&all);
        Self {
            state: Mutex::new(State { all, current }),
        }
    }

    /// The one in use.
    pub(crate) fn current(&self) -> Option<Endpoint> {
        let state = self.state.lock();
        state.all.get(state.current).cloned()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().all.len()
    }

    /// Moves on from one that failed, unless another caller did so before.
    pub(crate) fn leave(&self, failed: &Endpoint) {
        let mut state = self.state.lock();
        if state.all.get(state.current) == Some(failed) {
            state.current = (state.current + 1) % state.all.len();
        }
    }

    /// Takes over what the cluster says its addresses are; an empty list changes nothing.
    pub(crate) fn replace(&self, all: Vec<Endpoint>) {
        let mut state = self.state.lock();
        if all.is_empty() || all == state.all {
            return;
        }
        let used = state.all.get(state.current).cloned();
        let kept = all.iter().position(|one| Some(one) == used.as_ref());
        state.current = kept.unwrap_or_else(|| any_index(&all));
        state.all = all;
    }
}

fn any_index(all: &[Endpoint]) -> usize {
    fastrand::usize(..all.len().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_every_kind_are_read() {
        for (text, shown) in [
            ("10.0.0.1", "10.0.0.1:14000"),
            ("10.0.0.1:80", "10.0.0.1:80"),
            ("weka-1.example.com", "weka-1.example.com:14000"),
            ("weka:443", "weka:443"),
            ("fd00::1", "[fd00::1]:14000"),
            ("[fd00::1]", "[fd00::1]:14000"),
            ("[fd00::1]:443", "[fd00::1]:443"),
            ("::1", "[::1]:14000"),
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), shown);
        }
        for text in [
            "",
            "a b",
            "host:",
            "host:0",
            "host:99999",
            "http://host",
            "[fd00::1",
            "[x]:1",
            "-a",
            "a..b",
            "host:1:2",
            "a/b",
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }

    #[test]
    fn one_is_used_until_it_fails() {
        let all: Vec<Endpoint> = ["a", "b", "c"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        let endpoints = Endpoints::new(all.clone());
        let first = endpoints.current().unwrap();
        assert_eq!(endpoints.current(), Some(first.clone()));
        endpoints.leave(&first);
        let second = endpoints.current().unwrap();
        assert_ne!(first, second);
        endpoints.leave(&first);
        assert_eq!(endpoints.current(), Some(second.clone()), "left once only");
        endpoints.replace(vec![all[0].clone(), second.clone(), "d".parse().unwrap()]);
        assert_eq!(
            endpoints.current(),
            Some(second),
            "the one that works stays"
        );
        endpoints.replace(vec![]);
        assert_eq!(endpoints.len(), 3);
    }
}

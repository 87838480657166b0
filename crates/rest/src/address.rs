//! Where an array is, as people write it.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// How much of a wrong text is shown: it may come from anybody.
const LONGEST_SHOWN: usize = 80;

/// A host, and a port if one was named.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// As a URL has it: IPv6 in brackets.
    host: String,
    port: Option<u16>,
}

/// Not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a valid address: write `host`, `host:port`, an IPv4 or an IPv6 address")]
pub struct AddressError(String);

impl Address {
    /// The host, IPv6 in brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, or the one to use where none was named.
    pub fn port_or(&self, default: u16) -> u16 {
        self.port.unwrap_or(default)
    }
}

impl From<IpAddr> for Address {
    fn from(address: IpAddr) -> Self {
        let host = match address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        };
        Self { host, port: None }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = || {
            let shown = text.chars().flat_map(char::escape_debug);
            AddressError(shown.take(LONGEST_SHOWN).collect())
        };
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(address.into());
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, port) = rest.split_once(']').ok_or_else(wrong)?;
                let address: Ipv6Addr = address.parse().map_err(|_| wrong())?;
                let port = match port {
                    "" => None,
                    port => Some(port.strip_prefix(':').ok_or_else(wrong)?),
                };
                (format!("[{address}]"), port)
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host.to_owned(), Some(port)),
                None => (text.to_owned(), None),
            },
        };
        if !host.starts_with('[') && !is_host_name(&host) {
            return Err(wrong());
        }
        let number = |port: &str| port.parse().ok().filter(|&port| port != 0);
        let port = match port {
            None => None,
            Some(port) => Some(number(port).ok_or_else(wrong)?),
        };
        Ok(Self { host, port })
    }
}

fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.host)?;
        match self.port {
            Some(port) => write!(formatter, ":{port}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_every_kind_are_read() {
        for (text, shown, port) in [
            ("10.0.0.1", "10.0.0.1", 443),
            ("10.0.0.1:80", "10.0.0.1:80", 80),
            ("vsa-1.example.com", "vsa-1.example.com", 443),
            ("array:8443", "array:8443", 8443),
            ("fd00::1", "[fd00::1]", 443),
            ("[fd00::1]", "[fd00::1]", 443),
            ("[fd00::1]:80", "[fd00::1]:80", 80),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), shown);
            assert_eq!(address.port_or(443), port);
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
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}

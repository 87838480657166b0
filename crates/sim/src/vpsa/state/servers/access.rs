//! Which server somebody is, by address or by name among initiators.

use std::net::IpAddr;
use std::str::FromStr;

use super::super::{Server, State};

/// An address, or a network in CIDR form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// Neither an address nor a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("neither an IP address nor a network in CIDR form")]
pub struct NetworkError;

impl Network {
    /// Whether an address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = super::plain(address);
        let bits = |address: IpAddr| match address {
            IpAddr::V4(address) => (u128::from(address.to_bits()), 32_u32),
            IpAddr::V6(address) => (address.to_bits(), 128),
        };
        let ((ours, length), (theirs, other)) = (bits(self.address), bits(address));
        let shift = length - u32::from(self.bits);
        // A shift by all bits is none that the processor knows.
        let begins = |number: u128| number.checked_shr(shift).unwrap_or(0);
        length == other && begins(ours) == begins(theirs)
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NetworkError)?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => longest,
            Some(bits) => bits.parse().map_err(|_| NetworkError)?,
        };
        if bits > longest {
            return Err(NetworkError);
        }
        Ok(Self { address, bits })
    }
}

/// The servers at an address.
pub fn of_address(state: &State, address: IpAddr) -> impl Iterator<Item = &Server> {
    let all = state.servers.values();
    all.filter(move |server| {
        let network: Option<Network> = server.ip.parse().ok();
        network.is_some_and(|network| network.contains(address))
    })
}

/// The server that an initiator is: by its name, or by its address if the server there has no name.
pub fn of_initiator<'a>(state: &'a State, iqn: &str, address: IpAddr) -> Option<&'a Server> {
    let by_name = state.servers.values().find(|server| server.iqn == iqn);
    by_name.or_else(|| of_address(state, address).find(|server| server.iqn.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_what_they_should() {
        for (network, address, inside) in [
            ("10.0.0.7", "10.0.0.7", true),
            ("10.0.0.7", "10.0.0.8", false),
            ("10.0.0.7/32", "10.0.0.7", true),
            ("10.0.0.0/24", "10.0.0.200", true),
            ("10.0.0.0/24", "10.0.1.1", false),
            ("0.0.0.0/0", "192.168.1.1", true),
            ("10.0.0.7", "::ffff:10.0.0.7", true),
            ("fd00::/64", "fd00::7", true),
            ("fd00::/64", "fd00:0:0:1::7", false),
            ("::/0", "10.0.0.1", false),
        ] {
            let found: Network = network.parse().unwrap();
            let is_inside = found.contains(address.parse().unwrap());
            assert_eq!(is_inside, inside, "{network} {address}");
        }
        for text in [
            "",
            "10.0.0",
            "10.0.0.0/33",
            "10.0.0.0/x",
            "host",
            "fd00::/129",
        ] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}

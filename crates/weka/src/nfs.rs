//! What a mount by NFS needs: a version, options, and who may mount. Pure.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

pub(crate) use options::{KNOWN, translate};

mod options;

/// The version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NfsVersion {
    V3,
    V4,
    V4_1,
    V4_2,
}

/// Not one of them.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a version of NFS: use 3, 4, 4.1 or 4.2")]
pub struct UnknownVersion(String);

impl FromStr for NfsVersion {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        match text.trim() {
            "3" | "3.0" => Ok(Self::V3),
            "4" | "4.0" => Ok(Self::V4),
            "4.1" => Ok(Self::V4_1),
            "4.2" => Ok(Self::V4_2),
            _ => Err(UnknownVersion(text.to_owned())),
        }
    }
}

impl fmt::Display for NfsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V3 => "3",
            Self::V4 => "4.0",
            Self::V4_1 => "4.1",
            Self::V4_2 => "4.2",
        })
    }
}

impl NfsVersion {
    /// As the array calls it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::V3 => "V3",
            Self::V4 | Self::V4_1 | Self::V4_2 => "V4",
        }
    }
}

/// Whether a rule of a client group lets an address in: `10.0.0.1/255.255.255.255`, `10.0.0.0/24`, or an address alone.
pub(crate) fn covers(rule: &str, address: IpAddr) -> bool {
    let (network, mask) = rule.split_once('/').unwrap_or((rule, ""));
    let Ok(network) = network.trim().parse::<IpAddr>() else {
        return false;
    };
    let length = match (mask.trim(), network) {
        ("", IpAddr::V4(_)) => Some(32),
        ("", IpAddr::V6(_)) => Some(128),
        (mask, _) => mask
            .parse::<u32>()
            .ok()
            .or_else(|| mask.parse::<Ipv4Addr>().ok().and_then(prefix_length)),
    };
    let Some(length) = length else {
        return false;
    };
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) if length <= 32 => {
            let shift = 32 - length;
            let part = |ip: Ipv4Addr| u32::from(ip).checked_shr(shift).unwrap_or(0);
            part(network) == part(address)
        }
        (IpAddr::V6(network), IpAddr::V6(address)) if length <= 128 => {
            let shift = 128 - length;
            let part = |ip| u128::from(ip).checked_shr(shift).unwrap_or(0);
            part(network) == part(address)
        }
        _ => false,
    }
}

/// How many bits a mask has; none if they are not all at its beginning.
fn prefix_length(mask: Ipv4Addr) -> Option<u32> {
    let bits = u32::from(mask);
    (bits.leading_ones() + bits.trailing_zeros() >= 32).then(|| bits.leading_ones())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_that_kernels_have() {
        for (text, shown, word) in [
            ("3", "3", "V3"),
            ("3.0", "3", "V3"),
            ("4", "4.0", "V4"),
            ("4.1", "4.1", "V4"),
            ("4.2", "4.2", "V4"),
        ] {
            let version: NfsVersion = text.parse().unwrap();
            assert_eq!(
                (version.to_string().as_str(), version.word()),
                (shown, word)
            );
        }
        for text in ["", "2", "5", "4.3", "four"] {
            assert!(text.parse::<NfsVersion>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_rule_covers_its_network_and_nothing_else() {
        for (rule, address, covered) in [
            ("10.0.0.1/255.255.255.255", "10.0.0.1", true),
            ("10.0.0.1/255.255.255.255", "10.0.0.2", false),
            ("10.0.0.0/255.255.255.0", "10.0.0.77", true),
            ("10.0.0.0/24", "10.0.1.77", false),
            ("0.0.0.0/0", "192.168.1.1", true),
            ("0.0.0.0/0.0.0.0", "192.168.1.1", true),
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.0/255.0.255.0", "10.0.0.1", false),
            ("fd00::/8", "fd12::1", true),
            ("fd00::/8", "10.0.0.1", false),
            ("somewhere/24", "10.0.0.1", false),
            ("10.0.0.0/33", "10.0.0.0", false),
        ] {
            assert_eq!(
                covers(rule, address.parse().unwrap()),
                covered,
                "{rule} {address}"
            );
        }
    }
}

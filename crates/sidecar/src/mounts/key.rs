//! The key of who may ask, as far as a node knows it.

use std::str::FromStr;

use sha2::{Digest, Sha256};

/// The SHA-256 of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    /// Whether this is the key. How long it takes tells nothing: what is compared is a hash that nobody can choose.
    pub fn is_of(&self, key: &[u8]) -> bool {
        Sha256::digest(key).as_slice() == self.0
    }
}

impl FromStr for KeyHash {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "write the 64 hexadecimal digits of a SHA-256";
        if text.len() != 64 || !text.bytes().all(|it| it.is_ascii_hexdigit()) {
            return Err(wrong);
        }
        let mut hash = [0; 32];
        for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| wrong)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong)?;
        }
        Ok(Self(hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_by_its_hash() {
        // `printf key | sha256sum`
        let hash = "2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683";
        let hash: KeyHash = hash.parse().unwrap();
        assert!(hash.is_of(b"key"));
        assert!(!hash.is_of(b"Key") && !hash.is_of(b""));
        for wrong in ["", "2c70", &"g".repeat(64), &"é".repeat(32)] {
            assert!(wrong.parse::<KeyHash>().is_err(), "{wrong}");
        }
    }
}

//! CHAP: the answer to a challenge shows that somebody knows the secret, and nobody hears it.

use crate::moment::fresh_secret;
use md5::{Digest, Md5};

/// The only algorithm that everybody has: MD5.
pub const ALGORITHM: &str = "5";

/// What somebody is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// Its number.
    pub id: u8,
    /// The question.
    pub bytes: Vec<u8>,
}

impl Challenge {
    /// One that nobody was asked before.
    pub fn fresh() -> Self {
        let bytes = parse_hex(&fresh_secret(17)).unwrap_or_default();
        let (id, bytes) = bytes.split_first().unwrap_or((&0, &[]));
        Self {
            id: *id,
            bytes: bytes.to_vec(),
        }
    }

    /// What somebody says who knows the secret.
    pub fn answer(&self, secret: &str) -> Vec<u8> {
        let mut digest = Md5::new();
        digest.update([self.id]);
        digest.update(secret.as_bytes());
        digest.update(&self.bytes);
        digest.finalize().to_vec()
    }
}

/// Bytes as texts have them.
pub fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}

/// Bytes from such a text.
pub fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text
        .strip_prefix("0x")
        .or(text.strip_prefix("0X"))
        .unwrap_or(text);
    if !digits.is_ascii() || !digits.len().is_multiple_of(2) {
        return None;
    }
    let pairs = (0..digits.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_fits_its_challenge_and_its_secret_only() {
        let challenge = Challenge {
            id: 1,
            bytes: parse_hex("0x00112233445566778899aabbccddeeff").unwrap(),
        };
        // Computed with another implementation: md5 of 01, "secret-secret", the challenge.
        let answer = challenge.answer("secret-secret");
        assert_eq!(hex(&answer), "0x8c34c78bc348e5c94cc79f34839f5676");
        assert_ne!(answer, challenge.answer("other-secret"));
        assert_ne!(Challenge::fresh(), Challenge::fresh());
        assert_eq!(Challenge::fresh().bytes.len(), 16);
    }

    #[test]
    fn bytes_are_texts_and_back() {
        assert_eq!(parse_hex(&hex(&[0, 255, 16])), Some(vec![0, 255, 16]));
        for text in ["0x1", "0xzz", "é0"] {
            assert_eq!(parse_hex(text), None, "{text}");
        }
    }
}

//! Texts: `key=value`, each with a zero at its end.

use std::io;

use super::pdu::nonsense;

/// Keys and values, in order: the order of an answer matters to some.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts(Vec<(String, String)>);

impl Texts {
    /// Reads the data of a PDU.
    pub fn read(data: &[u8]) -> io::Result<Self> {
        let parts = data
            .split(|byte| *byte == 0)
            .filter(|part| !part.is_empty());
        let pairs = parts.map(|part| {
            let text = std::str::from_utf8(part).map_err(|_| nonsense("a text that is none"))?;
            let (key, value) = text
                .split_once('=')
                .ok_or_else(|| nonsense("a text without `=`"))?;
            Ok((key.to_owned(), value.to_owned()))
        });
        pairs.collect::<io::Result<_>>().map(Self)
    }

    /// The data of a PDU.
    pub fn write(&self) -> Vec<u8> {
        let pairs = self.0.iter();
        pairs
            .flat_map(|(key, value)| format!("{key}={value}\0").into_bytes())
            .collect()
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value.as_str())
    }

    /// A value that is a number.
    pub fn number(&self, key: &str) -> Option<u32> {
        self.get(key)?.parse().ok()
    }

    /// Every value of a key.
    pub fn all<'a>(&'a self, key: &str) -> impl Iterator<Item = &'a str> {
        let found = self.0.iter().filter(move |(known, _)| known == key);
        found.map(|(_, value)| value.as_str())
    }

    /// Adds a key.
    pub fn add(&mut self, key: &str, value: impl Into<String>) {
        self.0.push((key.to_owned(), value.into()));
    }

    /// The keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(key, _)| key.as_str())
    }

    /// Adds what another PDU continues with.
    pub fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }
}

/// Texts of an initiator or target that says these.
impl<const N: usize> From<[(&str, &str); N]> for Texts {
    fn from(pairs: [(&str, &str); N]) -> Self {
        let owned = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Self(owned.into())
    }
}

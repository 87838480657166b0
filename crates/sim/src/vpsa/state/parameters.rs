//! Parameters of a call: from the query, a form or JSON, all of them texts here.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Refusal;

/// Parameters that every call takes.
const ALWAYS: [&str; 7] = [
    "timeout",
    "access_key",
    "start",
    "limit",
    "page",
    "sort",
    "force",
];

/// The longest name.
const NAME_MAX: usize = 128;

/// Parameters of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters(BTreeMap<String, String>);

impl Parameters {
    /// Adds one; lists become texts with commas between.
    pub fn add(&mut self, name: &str, value: &Value) {
        let text = match value {
            Value::Null => return,
            Value::String(text) => text.clone(),
            Value::Array(values) => {
                let texts = values.iter().map(|value| match value {
                    Value::String(text) => text.clone(),
                    value => value.to_string(),
                });
                texts.collect::<Vec<_>>().join(",")
            }
            value => value.to_string(),
        };
        let name = name.trim_end_matches("[]");
        // A form repeats a name for a list.
        match self.0.get_mut(name) {
            Some(known) if name == "server_name" || name == "volume_name" => {
                known.push(',');
                known.push_str(&text);
            }
            _ => drop(self.0.insert(name.to_owned(), text)),
        }
    }

    /// Refuses parameters that the call does not know.
    pub fn only(&self, known: &[&str]) -> Result<(), Refusal> {
        let is_known =
            |name: &&String| known.contains(&name.as_str()) || ALWAYS.contains(&name.as_str());
        match self.0.keys().find(|name| !is_known(name)) {
            None => Ok(()),
            Some(name) => Err(Refusal::invalid(name, "it is not known")),
        }
    }

    /// Every parameter but those of every call.
    pub fn own(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.0.iter();
        let own = all.filter(|(name, _)| !ALWAYS.contains(&name.as_str()));
        own.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The value of one, unless it is empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        let value = self.0.get(name).map(String::as_str);
        value.filter(|value| !value.is_empty())
    }

    /// The value of one that must be there.
    pub fn required(&self, name: &str) -> Result<&str, Refusal> {
        self.get(name)
            .ok_or_else(|| Refusal::invalid(name, "it is required"))
    }

    /// A switch.
    pub fn switch(&self, name: &str, default: bool) -> Result<bool, Refusal> {
        match self.get(name) {
            None => Ok(default),
            Some("YES") => Ok(true),
            Some("NO") => Ok(false),
            Some(_) => Err(Refusal::invalid(name, "it must be YES or NO")),
        }
    }

    /// A size: a whole number of GB, with or without a `G`.
    pub fn gigabytes(&self, name: &str) -> Result<u64, Refusal> {
        let text = self.required(name)?;
        let digits = text.strip_suffix('G').unwrap_or(text);
        let size = digits.parse().ok().filter(|size| *size > 0);
        size.ok_or_else(|| {
            Refusal::invalid(name, "it must be a whole number of GB, such as 50 or 50G")
        })
    }

    /// A name that may be given to something.
    pub fn name(&self, name: &str) -> Result<&str, Refusal> {
        let text = self.required(name)?;
        let fits = text.len() <= NAME_MAX
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        if fits {
            return Ok(text);
        }
        Err(Refusal::invalid(
            name,
            "it must have letters, digits, - and _ only, at most 128",
        ))
    }

    /// A list with commas between.
    pub fn list(&self, name: &str) -> Vec<String> {
        let text = self.get(name).unwrap_or_default();
        let parts = text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty());
        parts.map(ToOwned::to_owned).collect()
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Parameters {
    fn from(pairs: [(&str, &str); N]) -> Self {
        let mut parameters = Self::default();
        for (name, value) in pairs {
            parameters.add(name, &Value::from(value));
        }
        parameters
    }
}

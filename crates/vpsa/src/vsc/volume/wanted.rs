//! What a Volume asks for, in the array's terms.

use std::collections::BTreeMap;

use stowage_api::quantity;
use stowage_api::vpsa::{VolumeFlags, VolumeSpec, VolumeType};

use crate::rest::api::Kind;

/// The longest name that the array takes.
const LONGEST_NAME: usize = 128;

const GB: i64 = 1 << 30;

/// What a Volume asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its name on the array.
    pub name: String,
    /// How large it is to be, in GB.
    pub gigabytes: u64,
    /// How it is reached.
    pub kind: Kind,
    /// Further parameters.
    pub options: BTreeMap<String, String>,
    /// What people say about it.
    pub comment: Option<String>,
}

impl Wanted {
    /// Reads a Volume; `class` are the options of its class, which its own replace. The error is for people.
    pub fn read(spec: &VolumeSpec, class: Option<&VolumeFlags>) -> Result<Self, String> {
        let name = spec.display_name.clone();
        let allowed =
            |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
        if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(allowed) {
            return Err(format!(
                "`displayName` is `{name}`: a VPSA takes 1 to {LONGEST_NAME} letters, digits, - and _"
            ));
        }
        let bytes = quantity::size(&spec.size.0).map_err(|error| format!("`size`: {error}"))?;
        let gigabytes = u64::try_from(bytes)
            .unwrap_or(0)
            .div_ceil(GB.unsigned_abs());
        if gigabytes == 0 {
            return Err("`size` must be more than 0".to_owned());
        }
        let kind = match &spec.volume_type {
            VolumeType::Nas => Kind::Nas,
            VolumeType::Block => Kind::Block,
            VolumeType::Other(word) => {
                return Err(format!("`volumeType` is `{word}`: it must be NAS or Block"));
            }
        };
        Ok(Self {
            name,
            gigabytes,
            kind,
            options: options(spec.flags.as_ref().or(class)),
            comment: spec.description.clone(),
        })
    }
}

/// Flags as parameters; a parameter that people wrote wins over a flag.
fn options(flags: Option<&VolumeFlags>) -> BTreeMap<String, String> {
    let Some(flags) = flags else {
        return BTreeMap::new();
    };
    let switches = [
        ("compress", flags.compress),
        ("dedupe", flags.dedupe),
        ("crypt", flags.encrypt),
    ];
    let on = switches.into_iter().filter(|(_, on)| *on);
    let mut options: BTreeMap<String, String> = on
        .map(|(name, _)| (name.to_owned(), "YES".to_owned()))
        .collect();
    options.extend(flags.extra.clone().unwrap_or_default());
    options
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(spec: Value) -> Result<Wanted, String> {
        let class = json!({"compress": true, "dedupe": false, "encrypt": false});
        let class: VolumeFlags = serde_json::from_value(class).unwrap();
        let spec: VolumeSpec = serde_json::from_value(spec).unwrap();
        Wanted::read(&spec, Some(&class))
    }

    #[test]
    fn sizes_are_rounded_up_and_own_options_replace_those_of_the_class() {
        let spec = json!({"displayName": "pvc-1", "size": "1500Mi", "volumeType": "Block"});
        let wanted = read(spec.clone()).unwrap();
        assert_eq!((wanted.gigabytes, wanted.kind), (2, Kind::Block));
        assert_eq!(
            wanted.options,
            BTreeMap::from([("compress".to_owned(), "YES".to_owned())])
        );
        let mut own = spec;
        own["flags"] = json!({"compress": false, "dedupe": false, "encrypt": true, "extra": {"crypt": "NO", "a": "b"}});
        let options = read(own).unwrap().options;
        assert_eq!(
            (options["crypt"].as_str(), options["a"].as_str()),
            ("NO", "b")
        );
        assert!(!options.contains_key("compress"));
    }

    #[test]
    fn what_an_array_would_not_take_is_refused() {
        for (spec, says) in [
            (json!({"displayName": "a b", "size": "1Gi"}), "displayName"),
            (json!({"displayName": "", "size": "1Gi"}), "displayName"),
            (json!({"displayName": "a", "size": "0"}), "more than 0"),
            (json!({"displayName": "a", "size": "many"}), "`size`"),
            (
                json!({"displayName": "a", "size": "1Gi", "volumeType": "Tape"}),
                "NAS or Block",
            ),
        ] {
            let error = read(spec).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}

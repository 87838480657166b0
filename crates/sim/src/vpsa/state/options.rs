//! Options of volumes, and what may be in them.

use std::collections::BTreeMap;

use super::{DataType, Parameters, Refusal, State};

/// What an option may be.
enum Form {
    Switch,
    Number,
    AnonymousId,
    Mask,
    Size,
    OneOf(&'static [&'static str]),
}

/// Options of every volume.
const ANY: &[(&str, Form)] = &[
    ("crypt", Form::Switch),
    ("dedupe", Form::Switch),
    ("compress", Form::Switch),
    ("attachpolicies", Form::Switch),
    ("thin", Form::Switch),
    // Means nothing for a disk, and is sent all the same.
    ("nfsrootsquash", Form::Switch),
];

/// Options of shares.
const NAS: &[(&str, Form)] = &[
    ("atimeupdate", Form::Switch),
    ("nfsallsquash", Form::Switch),
    ("nfsanonuid", Form::AnonymousId),
    ("nfsanongid", Form::AnonymousId),
    (
        "readaheadkb",
        Form::OneOf(&["16", "64", "128", "256", "512"]),
    ),
    ("autoexpand", Form::Switch),
    ("maxcapacity", Form::Size),
    ("autoexpandby", Form::Size),
    ("flcenabled", Form::Switch),
    ("alertmode", Form::Number),
    ("emergencymode", Form::Number),
    ("capacityhistory", Form::Number),
    ("smbonly", Form::Switch),
    ("smbguest", Form::Switch),
    ("smbwindowsacl", Form::Switch),
    ("smbfilecreatemask", Form::Mask),
    ("smbdircreatemask", Form::Mask),
    ("smbmaparchive", Form::Switch),
    ("smbaiosize", Form::OneOf(&["16384", "1"])),
    ("smbbrowseable", Form::Switch),
    ("smbhiddenfiles", Form::Switch),
    ("smbhideunreadable", Form::Switch),
    ("smbhideunwriteable", Form::Switch),
    ("smbhidedotfiles", Form::Switch),
    ("smbstoredosattributes", Form::Switch),
    ("smbenableoplocks", Form::Switch),
    (
        "smbencryptionmode",
        Form::OneOf(&["off", "desired", "required"]),
    ),
];

/// Parameters of a new volume that are not options.
const PLACES: [&str; 5] = ["name", "capacity", "pool", "block", "export_name"];

/// The options of a new volume, if all of them may be given to it.
pub fn check(
    state: &State,
    parameters: &Parameters,
    data_type: DataType,
) -> Result<BTreeMap<String, String>, Refusal> {
    let mut options = BTreeMap::new();
    for (name, value) in parameters.own() {
        if PLACES.contains(&name) {
            continue;
        }
        let form = |table: &'static [(&str, Form)]| {
            let row = table.iter().find(|(known, _)| *known == name);
            row.map(|(_, form)| form)
        };
        let form = match (form(ANY), form(NAS), data_type) {
            (Some(form), _, _) | (None, Some(form), DataType::Nas) => form,
            (None, Some(_), DataType::Block) => {
                return Err(Refusal::invalid(
                    name,
                    "it is not allowed for a block volume",
                ));
            }
            (None, None, _) => return Err(Refusal::invalid(name, "it is not known")),
        };
        form.check(name, value)?;
        options.insert(name.to_owned(), value.to_owned());
    }
    check_array(state, &options)?;
    Ok(options)
}

/// What this array cannot do.
fn check_array(state: &State, options: &BTreeMap<String, String>) -> Result<(), Refusal> {
    let is_on = |name: &str| options.get(name).is_some_and(|value| value == "YES");
    for name in ["compress", "dedupe"] {
        if is_on(name) && !state.vpsa().all_flash {
            return Err(Refusal::invalid(
                name,
                "it must not be used without an all-flash array",
            ));
        }
    }
    if is_on("crypt") && !state.vpsa().encryption {
        let reason = "an encryption password must be set on the array before";
        return Err(Refusal::invalid("crypt", reason));
    }
    if is_on("autoexpand") {
        for name in ["maxcapacity", "autoexpandby"] {
            if !options.contains_key(name) {
                return Err(Refusal::invalid(name, "it is required with autoexpand"));
            }
        }
    }
    Ok(())
}

impl Form {
    fn check(&self, name: &str, value: &str) -> Result<(), Refusal> {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let (fits, reason) = match self {
            Self::Switch => (["YES", "NO"].contains(&value), "it must be YES or NO"),
            Self::Number => (is_number(value), "it must be a number"),
            Self::AnonymousId => (
                is_number(value) && value.parse::<u32>().is_ok_and(|id| id > 0),
                "it must be a number greater than 0",
            ),
            Self::Mask => (
                value.len() == 4
                    && value.starts_with('0')
                    && value.bytes().all(|byte| (b'0'..=b'7').contains(&byte)),
                "it must have four octal digits, of which the first is 0",
            ),
            Self::Size => (
                is_number(value.strip_suffix('G').unwrap_or(value)),
                "it must be a whole number of GB",
            ),
            Self::OneOf(words) => (words.contains(&value), "it must be one of the known values"),
        };
        if fits {
            Ok(())
        } else {
            Err(Refusal::invalid(name, reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vpsa::state::testing::state;

    #[test]
    fn options_are_as_strict_as_the_array() {
        use DataType::{Block, Nas};
        let state = state();
        for (name, value, data_type, fits) in [
            ("crypt", "NO", Block, true),
            ("crypt", "YES", Block, false),
            ("compress", "YES", Nas, false),
            ("attachpolicies", "no", Nas, false),
            ("nfsrootsquash", "NO", Block, true),
            ("nfsanonuid", "65500", Nas, true),
            ("nfsanonuid", "0", Nas, false),
            ("nfsanonuid", "65500", Block, false),
            ("readaheadkb", "64", Nas, true),
            ("readaheadkb", "65", Nas, false),
            ("smbfilecreatemask", "0755", Nas, true),
            ("smbfilecreatemask", "755", Nas, false),
            ("smbencryptionmode", "desired", Nas, true),
            ("autoexpand", "YES", Nas, false),
            ("maxcapacity", "2000G", Nas, true),
            ("colour", "red", Nas, false),
        ] {
            let found = check(&state, &[(name, value)].into(), data_type);
            assert_eq!(found.is_ok(), fits, "{name}={value}: {found:?}");
        }
        let all = [
            ("autoexpand", "YES"),
            ("maxcapacity", "20G"),
            ("autoexpandby", "1G"),
        ];
        assert_eq!(check(&state, &all.into(), Nas).unwrap().len(), 3);
    }
}

//! Parameters and secrets from files. YAML, and therefore JSON too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::de::DeserializeOwned;

use crate::secrets::{Secrets, UnknownSecretKind};

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// Missing, unreadable, or not text.
    #[error("cannot read the file `{}` for {option}: {source}", path.display())]
    Unreadable {
        /// The option that names the file.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Something else than a map from text to text.
    #[error("the file `{}` for {option} is not a map of texts: {reason}; write `key: \"value\"` lines, or a JSON object", path.display())]
    Malformed {
        /// The option that names the file.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// What the parser said.
        reason: String,
    },
    /// As above. The parser's words are left out, because they quote the file.
    #[error("the file `{}` for --secrets is not a map of maps of texts{place}; write `CreateVolumeSecret:` and below it, indented, `key: \"value\"` lines", path.display())]
    MalformedSecrets {
        /// The file.
        path: PathBuf,
        /// Where, if that is known.
        place: String,
    },
    /// A kind of secret that no call has.
    #[error("the file `{}` for --secrets: {source}", path.display())]
    UnknownSecret {
        /// The file.
        path: PathBuf,
        /// Which.
        source: UnknownSecretKind,
    },
}

/// A map of parameters; an empty file is an empty map.
pub(crate) fn parameters(
    option: &'static str,
    path: Option<&Path>,
) -> Result<BTreeMap<String, String>, InputError> {
    let Some(path) = path else {
        return Ok(BTreeMap::new());
    };
    parse(&read(option, path)?).map_err(|error| InputError::Malformed {
        option,
        path: path.to_owned(),
        reason: one_line(&error),
    })
}

/// Secrets by call.
pub(crate) fn secrets(path: Option<&Path>) -> Result<Secrets, InputError> {
    let Some(path) = path else {
        return Ok(Secrets::default());
    };
    let file = parse(&read("--secrets", path)?).map_err(|error| InputError::MalformedSecrets {
        path: path.to_owned(),
        place: error
            .location()
            .map(|place| format!(" (line {}, column {})", place.line(), place.column()))
            .unwrap_or_default(),
    })?;
    Secrets::parse(file).map_err(|source| InputError::UnknownSecret {
        path: path.to_owned(),
        source,
    })
}

fn read(option: &'static str, path: &Path) -> Result<String, InputError> {
    fs::read_to_string(path).map_err(|source| InputError::Unreadable {
        option,
        path: path.to_owned(),
        source,
    })
}

fn parse<T: DeserializeOwned + Default>(text: &str) -> Result<T, serde_saphyr::Error> {
    let parsed: Option<T> = serde_saphyr::from_str(text)?;
    Ok(parsed.unwrap_or_default())
}

/// The parser's words without the picture of the file that it draws below them.
fn one_line(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        file
    }

    fn parsed(text: &str) -> Result<BTreeMap<String, String>, InputError> {
        parameters("--volume-parameters", Some(file(text).path()))
    }

    #[test]
    fn yaml_and_json_say_the_same() {
        let expected: BTreeMap<_, _> = [("type".to_owned(), "fast".to_owned())].into();
        assert_eq!(parsed("type: fast\n").unwrap(), expected);
        assert_eq!(parsed("{\"type\": \"fast\"}").unwrap(), expected);
        assert!(parsed("").unwrap().is_empty());
        assert!(parsed("# nothing yet\n").unwrap().is_empty());
        assert!(parameters("--volume-parameters", None).unwrap().is_empty());
    }

    #[test]
    fn a_malformed_file_is_named_with_a_remedy() {
        for text in [
            "- a\n- b\n",
            "a: [1, 2]\n",
            "a: {b: c}\n",
            "a: \"b\n",
            "just text",
        ] {
            let error = parsed(text).unwrap_err().to_string();
            assert!(error.contains("for --volume-parameters is not a map of texts"));
            assert!(error.contains("write `key: \"value\"` lines"), "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }

    #[test]
    fn a_missing_file_is_named_with_its_option() {
        let error = parameters("--snapshot-parameters", Some(Path::new("/missing")));
        let error = error.unwrap_err().to_string();
        assert!(
            error.starts_with("cannot read the file `/missing` for --snapshot-parameters: "),
            "{error}"
        );
    }

    #[test]
    fn complaints_about_secrets_do_not_quote_them() {
        for text in [
            "CreateVolumeSecret: hunter2\n",
            "CreateVolumeSecret:\n  password: [hunter2]\n",
            "CreateVolumeSecret:\n  password: \"hunter2\n",
            "hunter2",
        ] {
            let error = secrets(Some(file(text).path())).unwrap_err();
            assert!(error.to_string().contains("--secrets"), "{error}");
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("hunter2"), "{shown}");
        }
        let unknown = secrets(Some(file("Createvolumesecret: {}\n").path()));
        assert!(
            unknown
                .unwrap_err()
                .to_string()
                .contains("is not a kind of secret"),
        );
    }

    #[test]
    fn secrets_are_read_by_kind() {
        use crate::secrets::SecretKind;

        let file = file("CreateVolumeSecret:\n  password: hunter2\n  pin: \"0042\"\n");
        let secrets = secrets(Some(file.path())).unwrap();
        let sent = secrets.of(SecretKind::CreateVolume);
        assert_eq!(sent["password"], "hunter2");
        assert_eq!(sent["pin"], "0042");
    }
}

//! The keys of secrets, as a mounted Secret has them: one file each.

use std::io;
use std::path::{Path, PathBuf};

use secrecy::SecretString;

use crate::vsc::cipher::{Cipher, CipherError, Ciphers};

/// The key of access keys, under the name that Zadara's chart gives it.
const TOKENS: &str = "GLOBAL_ENCRYPTION_KEY";

/// The key of logins; nodes need no other.
const CHAP: &str = "CHAP_ENCRYPTION_KEY";

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The directory cannot be read.
    #[error("the keys in `{}` cannot be read: mount the Secret that holds them, or correct --keys", path.display())]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// There is none.
    #[error("`{}` has no key `{name}`: add 32 random letters and digits under this name to the Secret", path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
        /// Its name.
        name: &'static str,
    },
    /// It is not one.
    #[error(transparent)]
    Invalid(#[from] CipherError),
}

/// The keys of a controller. Without a key of their own logins have that of access keys, as with Zadara's driver.
pub fn of_controller(directory: &Path) -> Result<Ciphers, KeyError> {
    let tokens = keys(directory, TOKENS)?;
    let chap = match keys(directory, CHAP) {
        Err(KeyError::Missing { .. }) => tokens.clone(),
        keys => keys?,
    };
    Ok(Ciphers {
        tokens: Cipher::new(&tokens)?,
        chap: Cipher::new(&chap)?,
    })
}

/// The key of a node.
pub fn of_node(directory: &Path) -> Result<Cipher, KeyError> {
    let chap = match keys(directory, CHAP) {
        Err(missing @ KeyError::Missing { .. }) => keys(directory, TOKENS).map_err(|_| missing)?,
        keys => keys?,
    };
    Ok(Cipher::new(&chap)?)
}

/// The key of this name, and then older ones, whose names begin with it.
fn keys(directory: &Path, name: &'static str) -> Result<Vec<SecretString>, KeyError> {
    let path = || directory.to_owned();
    let unreadable = |source| KeyError::Unreadable {
        path: path(),
        source,
    };
    let mut names: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?.file_name();
        names.extend(
            entry
                .to_str()
                .filter(|it| it.starts_with(name))
                .map(str::to_owned),
        );
    }
    names.sort();
    if names.first().is_none_or(|first| first != name) {
        return Err(KeyError::Missing { path: path(), name });
    }
    let read = |name: &String| {
        let text = std::fs::read_to_string(directory.join(name)).map_err(unreadable)?;
        Ok(SecretString::from(text.trim()))
    };
    names.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_key_comes_first_and_what_is_missing_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, key: &str| {
            std::fs::write(directory.path().join(name), key).unwrap();
        };
        let none = of_controller(directory.path()).err().unwrap().to_string();
        assert!(none.contains("no key `GLOBAL_ENCRYPTION_KEY`"), "{none}");
        write("GLOBAL_ENCRYPTION_KEY_2025", &"o".repeat(32));
        write("GLOBAL_ENCRYPTION_KEY", &format!("{}\n", "n".repeat(32)));
        assert_eq!(keys(directory.path(), TOKENS).unwrap().len(), 2);
        assert!(of_controller(directory.path()).is_ok() && of_node(directory.path()).is_ok());
        write("CHAP_ENCRYPTION_KEY", "short");
        let short = of_node(directory.path()).err().unwrap().to_string();
        assert!(short.contains("exactly 32 bytes"), "{short}");
    }
}

//! Secrets in fields that others can read: AES-256-GCM, after the marker `AES2:`.
//!
//! What is encrypted is bound to the object it is in and to its field: copied elsewhere it cannot be read. Keys rotate: the
//! first key encrypts, all of them decrypt.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use secrecy::{ExposeSecret, SecretString};
use stowage_api::vpsa::{CIPHER, Concealed, FOREIGN_CIPHER};

/// Why a secret cannot be encrypted or decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CipherError {
    /// The key.
    #[error("the encryption key must have exactly 32 bytes: correct the Secret that holds it")]
    Key,
    /// Another driver encrypted it.
    #[error(
        "the secret was encrypted by another driver (`AES:`), whose key is not known: write it again in plain text"
    )]
    Foreign,
    /// It was encrypted with another key, or changed, or comes from another object.
    #[error(
        "the secret cannot be decrypted with any of the driver's keys: write it again in plain text"
    )]
    Unreadable,
    /// The machine has no random numbers.
    #[error("the machine has no random numbers to encrypt with")]
    Random,
}

/// Whose secret it is.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The name of the object.
    pub object: &'a str,
    /// The field.
    pub field: &'a str,
}

/// What a field holds.
#[derive(Clone, Debug)]
pub enum Held {
    /// Plain text, which somebody wrote.
    Plain(SecretString),
    /// Encrypted here.
    Encrypted(SecretString),
    /// Encrypted here with a key that only reads any more: it should be written again.
    Outdated(SecretString),
}

impl Held {
    /// The secret, however it was written.
    pub fn secret(self) -> SecretString {
        match self {
            Self::Plain(secret) | Self::Encrypted(secret) | Self::Outdated(secret) => secret,
        }
    }
}

/// Where the secret of an array's logins is.
pub const CHAP_FIELD: &str = "status.CHAPSecret";

/// The keys of a control plane: nodes have that of logins, and cannot read tokens with it.
pub struct Ciphers {
    /// For access keys of arrays.
    pub tokens: Cipher,
    /// For secrets of logins.
    pub chap: Cipher,
}

/// Encrypts and decrypts. It has no `Debug`: it holds keys.
pub struct Cipher {
    keys: Vec<LessSafeKey>,
}

impl Cipher {
    /// The first key encrypts; there must be one.
    pub fn new<'a>(keys: impl IntoIterator<Item = &'a SecretString>) -> Result<Self, CipherError> {
        let keys = keys.into_iter().map(|key| {
            let key = UnboundKey::new(&AES_256_GCM, key.expose_secret().as_bytes());
            key.map(LessSafeKey::new).map_err(|_| CipherError::Key)
        });
        let keys: Vec<LessSafeKey> = keys.collect::<Result<_, _>>()?;
        if keys.is_empty() {
            return Err(CipherError::Key);
        }
        Ok(Self { keys })
    }

    /// Encrypts a secret. Called twice: two texts, which mean the same.
    pub fn encrypt(
        &self,
        secret: &SecretString,
        place: Place<'_>,
    ) -> Result<Concealed, CipherError> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new()
            .fill(&mut nonce)
            .map_err(|_| CipherError::Random)?;
        let mut text = secret.expose_secret().as_bytes().to_vec();
        let key = self.keys.first().ok_or(CipherError::Key)?;
        let unique = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(unique, bound_to(place), &mut text)
            .map_err(|_| CipherError::Key)?;
        let bytes = [nonce.as_slice(), &text].concat();
        Ok(Concealed::from(format!(
            "{CIPHER}{}",
            STANDARD.encode(bytes)
        )))
    }

    /// Reads a field, whoever wrote it.
    pub fn read(&self, held: &Concealed, place: Place<'_>) -> Result<Held, CipherError> {
        let text = held.expose();
        if let Some(encoded) = text.strip_prefix(CIPHER) {
            return self.decrypt(encoded, place);
        }
        if text.starts_with(FOREIGN_CIPHER) {
            return Err(CipherError::Foreign);
        }
        Ok(Held::Plain(SecretString::from(text.trim())))
    }

    /// The text to store for a secret: the one that is there, if it means the same and the first key has written it.
    pub fn keep_or_encrypt(
        &self,
        stored: Option<&Concealed>,
        secret: &SecretString,
        place: Place<'_>,
    ) -> Result<Concealed, CipherError> {
        let same = |held: &Concealed| match self.read(held, place) {
            Ok(Held::Encrypted(known)) => known.expose_secret() == secret.expose_secret(),
            _ => false,
        };
        match stored.filter(|held| same(held)) {
            Some(held) => Ok(held.clone()),
            None => self.encrypt(secret, place),
        }
    }

    fn decrypt(&self, encoded: &str, place: Place<'_>) -> Result<Held, CipherError> {
        let bytes = STANDARD
            .decode(encoded)
            .map_err(|_| CipherError::Unreadable)?;
        let (nonce, sealed) = bytes
            .split_first_chunk::<NONCE_LEN>()
            .ok_or(CipherError::Unreadable)?;
        for (age, key) in self.keys.iter().enumerate() {
            let mut text = sealed.to_vec();
            let unique = Nonce::assume_unique_for_key(*nonce);
            if let Ok(opened) = key.open_in_place(unique, bound_to(place), &mut text) {
                let opened = str::from_utf8(opened).map_err(|_| CipherError::Unreadable)?;
                let held = if age == 0 {
                    Held::Encrypted
                } else {
                    Held::Outdated
                };
                return Ok(held(SecretString::from(opened)));
            }
        }
        Err(CipherError::Unreadable)
    }
}

fn bound_to(place: Place<'_>) -> Aad<Vec<u8>> {
    Aad::from(format!("{}/{}", place.object, place.field).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place<'_> = Place {
        object: "vpsa-1",
        field: "spec.token",
    };

    fn key(letter: &str) -> SecretString {
        letter.repeat(32).into()
    }

    fn cipher(letters: &[&str]) -> Cipher {
        let keys: Vec<SecretString> = letters.iter().map(|letter| key(letter)).collect();
        Cipher::new(&keys).unwrap()
    }

    fn read(cipher: &Cipher, held: &Concealed, place: Place<'_>) -> Result<String, CipherError> {
        cipher.read(held, place).map(|held| match held {
            Held::Plain(text) => format!("plain {}", text.expose_secret()),
            Held::Encrypted(text) => text.expose_secret().to_owned(),
            Held::Outdated(text) => format!("outdated {}", text.expose_secret()),
        })
    }

    #[test]
    fn what_is_encrypted_is_read_where_it_was_written_and_nowhere_else() {
        let cipher = cipher(&["a"]);
        let held = cipher.encrypt(&"TOKEN-1".into(), PLACE).unwrap();
        assert!(held.expose().starts_with("AES2:") && !held.expose().contains("TOKEN"));
        assert_eq!(read(&cipher, &held, PLACE).unwrap(), "TOKEN-1");
        let again = cipher.encrypt(&"TOKEN-1".into(), PLACE).unwrap();
        assert_ne!(held.expose(), again.expose());
        let elsewhere = Place {
            object: "vpsa-2",
            ..PLACE
        };
        assert_eq!(
            read(&cipher, &held, elsewhere),
            Err(CipherError::Unreadable)
        );
        let mut changed = held.expose().to_owned();
        changed.replace_range(10..11, if &changed[10..11] == "A" { "B" } else { "A" });
        let changed = read(&cipher, &changed.into(), PLACE);
        assert_eq!(changed, Err(CipherError::Unreadable));
    }

    #[test]
    fn plain_and_foreign_texts_are_told_apart() {
        let cipher = cipher(&["a"]);
        let plain = read(&cipher, &Concealed::from(" TOKEN-1\n".to_owned()), PLACE);
        assert_eq!(plain.unwrap(), "plain TOKEN-1");
        let foreign = read(&cipher, &Concealed::from("AES:abc".to_owned()), PLACE);
        assert_eq!(foreign, Err(CipherError::Foreign));
        let garbage = read(&cipher, &Concealed::from("AES2:?".to_owned()), PLACE);
        assert_eq!(garbage, Err(CipherError::Unreadable));
        assert!(Cipher::new(&["short".into()]).is_err() && Cipher::new(&[]).is_err());
    }

    #[test]
    fn a_new_key_reads_what_the_old_one_wrote_and_writes_it_again_and_once_only() {
        let held = cipher(&["a"]).encrypt(&"TOKEN-1".into(), PLACE).unwrap();
        let rotated = cipher(&["b", "a"]);
        assert_eq!(read(&rotated, &held, PLACE).unwrap(), "outdated TOKEN-1");
        assert!(read(&cipher(&["b"]), &held, PLACE).is_err());
        let again = rotated.keep_or_encrypt(Some(&held), &"TOKEN-1".into(), PLACE);
        let again = again.unwrap();
        assert_eq!(read(&cipher(&["b"]), &again, PLACE).unwrap(), "TOKEN-1");
        let kept = rotated.keep_or_encrypt(Some(&again), &"TOKEN-1".into(), PLACE);
        assert_eq!(kept.unwrap(), again);
        let new = rotated.keep_or_encrypt(Some(&held), &"TOKEN-2".into(), PLACE);
        assert_eq!(read(&rotated, &new.unwrap(), PLACE).unwrap(), "TOKEN-2");
    }
}

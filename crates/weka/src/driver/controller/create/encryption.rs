//! How a new filesystem is encrypted.

use crate::config::VolumeRules;
use crate::error::{EncryptionError, Error};
use crate::parameters::Encryption;
use crate::rest::Api;
use crate::rest::api::KeyOfFilesystem;
use crate::rest::wire::Kms;
use crate::secret::VaultAccess;
use crate::version::Capability;

const VAULT: &str = "HashiCorpVault";
const KMIP: &str = "KMIP";

/// Checks whether the cluster can encrypt as the class wants it. Returns the filesystem's own key, if it is to have one.
pub(super) async fn encryption(
    api: &Api,
    class: &Encryption,
    rules: &VolumeRules,
) -> Result<Option<KeyOfFilesystem>, Error> {
    let facts = api.facts().await?;
    if !facts.has(Capability::Encryption) {
        return Err(facts.too_old("an encrypted filesystem", "4.0").into());
    }
    let key = key(class, &api.client().credentials.vault);
    if key.is_some() && !facts.has(Capability::FilesystemKey) {
        let too_old = facts.too_old("a key for each filesystem", "4.4.1");
        return Err(too_old.into());
    }
    let kms = api.kms().await?;
    check(class, key.as_ref(), kms.as_ref(), rules.encrypt_without_kms)?;
    Ok(key)
}

/// The key that class or secret name; the class is asked first.
fn key(class: &Encryption, secret: &VaultAccess) -> Option<KeyOfFilesystem> {
    let identifier = class.key.clone().or_else(|| secret.key.clone())?;
    Some(KeyOfFilesystem {
        identifier,
        namespace: class.namespace.clone().or_else(|| secret.namespace.clone()),
        role_id: secret.role_id.clone(),
        secret_id: secret.secret_id.clone(),
    })
}

fn check(
    class: &Encryption,
    key: Option<&KeyOfFilesystem>,
    kms: Option<&Kms>,
    may_do_without: bool,
) -> Result<(), EncryptionError> {
    let kind = kms.map_or("", |kms| &kms.kind);
    if let Some(key) = key {
        let method = kms.map_or("", |kms| &kms.params.auth_method);
        // Some releases do not say how they log in.
        let by_role = method.is_empty() || method.to_lowercase().contains("role");
        if kind != VAULT || !by_role {
            let shown = if kind.is_empty() { "missing" } else { kind };
            return Err(EncryptionError::NoVault(shown.to_owned()));
        }
        if key.role_id.is_none() || key.secret_id.is_none() {
            return Err(EncryptionError::NoRole);
        }
    }
    match (class.without_kms, may_do_without) {
        (true, true) => Ok(()),
        (true, false) => Err(EncryptionError::WithoutKms),
        (false, _) if matches!(kind, VAULT | KMIP) => Ok(()),
        (false, _) => Err(EncryptionError::NoKms),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kms(kind: &str, method: &str) -> Kms {
        let kms = json!({ "kms_type": kind, "params": { "auth_method": method } });
        serde_json::from_value(kms).unwrap()
    }

    #[test]
    fn encryption_needs_a_kms_unless_both_class_and_flag_do_without() {
        let without = Encryption {
            without_kms: true,
            ..Encryption::default()
        };
        let with = Encryption::default();
        let word = |class: &Encryption, kms: Option<&Kms>, flag: bool| {
            check(class, None, kms, flag).err().map(|it| it.to_string())
        };
        assert!(word(&with, None, true).unwrap().contains("no KMS"));
        assert!(word(&with, Some(&kms("Local", "")), true).is_some());
        assert_eq!(word(&with, Some(&kms("KMIP", "")), false), None);
        assert_eq!(
            word(&with, Some(&kms("HashiCorpVault", "token")), false),
            None
        );
        assert_eq!(word(&without, None, true), None);
        let refused = word(&without, None, false).unwrap();
        assert!(refused.contains("--allowencryptionwithoutkms"), "{refused}");
    }

    #[test]
    fn a_key_of_its_own_needs_vault_and_a_role() {
        let class = Encryption {
            key: Some("of-class".to_owned()),
            ..Encryption::default()
        };
        let secret = VaultAccess {
            key: Some("of-secret".to_owned()),
            namespace: Some("team".to_owned()),
            role_id: Some("role".to_owned().into()),
            secret_id: Some("id".to_owned().into()),
        };
        assert!(key(&Encryption::default(), &VaultAccess::default()).is_none());
        assert_eq!(
            key(&Encryption::default(), &secret).unwrap().identifier,
            "of-secret"
        );
        let chosen = key(&class, &secret).unwrap();
        assert_eq!(chosen.identifier, "of-class");
        assert_eq!(chosen.namespace.as_deref(), Some("team"));
        let checked = |key: &KeyOfFilesystem, kms: &Kms| check(&class, Some(key), Some(kms), false);
        assert!(checked(&chosen, &kms("HashiCorpVault", "RoleId/SecretId")).is_ok());
        for other in [kms("KMIP", ""), kms("HashiCorpVault", "token")] {
            let refused = checked(&chosen, &other).unwrap_err();
            assert!(matches!(refused, EncryptionError::NoVault(_)), "{refused}");
        }
        let nobody = key(&class, &VaultAccess::default()).unwrap();
        let refused = checked(&nobody, &kms("HashiCorpVault", "")).unwrap_err();
        assert!(matches!(refused, EncryptionError::NoRole), "{refused}");
    }
}

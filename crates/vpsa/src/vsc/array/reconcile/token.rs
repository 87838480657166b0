//! Keeps the token of an array unreadable for those who can see the object.

use kube::ResourceExt as _;
use secrecy::SecretString;
use serde_json::Value;
use stowage_api::vpsa::{Concealed, Vpsa};
use stowage_kubernetes::json_patch::ObjectPatch;

use super::{Arrays, StepError};
use crate::vsc::array::applied::{Applied, LAST_APPLIED};
use crate::vsc::cipher::{Held, Place};
use crate::vsc::clients::TOKEN_FIELD;

impl Arrays {
    /// Whether a token stands somewhere in the object that is not encrypted, or not with the key that writes.
    pub(super) fn has_plain_token(&self, array: &Vpsa) -> bool {
        let name = array.name_any();
        let applied = Applied::of(array).and_then(|it| it.token());
        let mut tokens = array.spec.token.iter().chain(&applied);
        tokens.any(|token| self.plain_token(token, &name).is_some())
    }

    /// The token, if it is not encrypted, or not with the key that writes.
    fn plain_token(&self, token: &Concealed, name: &str) -> Option<SecretString> {
        match self.ciphers.tokens.read(token, token_of(name)) {
            Ok(Held::Plain(token) | Held::Outdated(token)) => Some(token),
            _ => None,
        }
    }

    /// Encrypts the token wherever it stands in plain text: in the object, and in what `kubectl apply` remembers of it.
    ///
    /// Called twice: it is encrypted.
    pub(super) async fn conceal(&self, array: &Vpsa) -> Result<Vpsa, StepError> {
        let name = array.name_any();
        let (mut patch, place) = (ObjectPatch::new(), token_of(&name));
        let mut token = array.spec.token.clone();
        if let Some(written) = &array.spec.token
            && let Some(plain) = self.plain_token(written, &name)
        {
            let concealed = self.ciphers.tokens.encrypt(&plain, place)?;
            let field = ["spec", "token"];
            patch = patch
                .test(field, Value::from(written.expose()))
                .set(field, Value::from(concealed.expose()));
            token = Some(concealed);
        }
        if let Some(applied) = Applied::of(array)
            && let Some(remembered) = applied.token()
            && let Some(plain) = self.plain_token(&remembered, &name)
        {
            let tokens = &self.ciphers.tokens;
            let concealed = tokens.keep_or_encrypt(token.as_ref(), &plain, place)?;
            let field = ["metadata", "annotations", LAST_APPLIED];
            patch = patch
                .test(
                    field,
                    Value::from(array.annotations()[LAST_APPLIED].as_str()),
                )
                .set(field, Value::from(applied.with_token(&concealed)));
        }
        Ok(self.context.writer.change(array, patch).await?)
    }
}

fn token_of(name: &str) -> Place<'_> {
    Place {
        object: name,
        field: TOKEN_FIELD,
    }
}

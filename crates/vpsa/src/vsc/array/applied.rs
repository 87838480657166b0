//! What `kubectl apply` remembers of the object it was given, in an annotation: the token, too.
//!
//! By it the next `apply` knows which fields it wrote and no longer has. So the token stays in it, encrypted: one that is left
//! out from then on still goes.

use kube::ResourceExt as _;
use serde_json::{Value, json};
use stowage_api::vpsa::{Concealed, Vpsa};

/// The annotation.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The object as it was last applied. It has no `Debug`: it may hold the token.
pub struct Applied(Value);

impl Applied {
    /// None if nobody applied the object, or nobody can read what is remembered of it.
    pub fn of(array: &Vpsa) -> Option<Self> {
        let text = array.annotations().get(LAST_APPLIED)?;
        serde_json::from_str(text).ok().map(Self)
    }

    /// Its token.
    pub fn token(&self) -> Option<Concealed> {
        let token = self.0.pointer("/spec/token")?.as_str()?;
        Some(Concealed::from(token.to_owned()))
    }

    /// What is remembered from now on: the same with this token in place of its own.
    pub fn with_token(mut self, token: &Concealed) -> String {
        if let Some(place) = self.0.pointer_mut("/spec/token") {
            *place = json!(token.expose());
        }
        // As kubectl writes it.
        format!("{}\n", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(remembered: &str) -> Vpsa {
        let object = json!({"apiVersion": "storage.zadara.com/v1", "kind": "VPSA",
            "metadata": {"name": "one", "annotations": {LAST_APPLIED: remembered}}, "spec": {}});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn the_token_is_exchanged_and_nothing_else() {
        let remembered =
            json!({"kind": "VPSA", "spec": {"token": "plain", "hostname": "h"}, "x": [1]});
        let applied = Applied::of(&array(&remembered.to_string())).unwrap();
        assert_eq!(applied.token().unwrap().expose(), "plain");
        let now = applied.with_token(&Concealed::from("AES2:x".to_owned()));
        let now: Value = serde_json::from_str(&now).unwrap();
        let expected =
            json!({"kind": "VPSA", "spec": {"token": "AES2:x", "hostname": "h"}, "x": [1]});
        assert_eq!(now, expected);
        let without = Applied::of(&array(r#"{"spec": {}}"#)).unwrap();
        assert!(without.token().is_none());
        assert!(Applied::of(&array("not JSON")).is_none());
    }
}

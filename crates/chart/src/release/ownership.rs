//! Whose an object is: Helm marks its own, and refuses to change what is not.

use serde_json::json;

use super::Kubectl;
use crate::error::{Error, Result};
use crate::manifest::Object;
use crate::render::Identity;

/// How Helm marks what is its own.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "Helm");
const RELEASE_NAME: &str = "meta.helm.sh/release-name";
const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";

impl Kubectl {
    /// An object of this name that is not of the release is somebody else's.
    pub(super) fn refuse_foreign(&self, object: &Object, of: &Identity) -> Result<()> {
        let Some(live) = self.get(object, &of.namespace)?.map(Object) else {
            return Ok(());
        };
        let owner = |annotation| live.annotation(annotation).unwrap_or_default().to_owned();
        if owner(RELEASE_NAME) == of.name && owner(RELEASE_NAMESPACE) == of.namespace {
            return Ok(());
        }
        Err(Error::Refused(format!(
            "{} exists and cannot be imported into the current release: invalid ownership metadata; annotation validation error: key \
             \"{RELEASE_NAME}\" must equal \"{}\": current value is \"{}\"",
            object.title(),
            of.name,
            owner(RELEASE_NAME)
        )))
    }

    /// A rollback takes nothing over, not even what has the marks of the release. Helm finds this out object by object, and has then
    /// changed those before; here nothing is.
    pub(super) fn refuse_present(&self, object: &Object, of: &Identity) -> Result<()> {
        if self.get(object, &of.namespace)?.is_none() {
            return Ok(());
        }
        Err(Error::Refused(format!(
            "no {} with the name \"{}\" found",
            object.kind(),
            object.name()
        )))
    }
}

/// The object with Helm's marks.
pub(super) fn owned(object: &Object, of: &Identity) -> Object {
    let mut owned = object.0.clone();
    let metadata = &mut owned["metadata"];
    metadata["labels"][MANAGED_BY.0] = json!(MANAGED_BY.1);
    metadata["annotations"][RELEASE_NAME] = json!(of.name);
    metadata["annotations"][RELEASE_NAMESPACE] = json!(of.namespace);
    Object(owned)
}

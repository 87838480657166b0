//! Parameters of a volume that can be changed later: those of a VolumeAttributesClass. Pure.

use std::collections::BTreeMap;

/// Whether reads and writes pass the page cache of the state directory's filesystem by.
const DIRECT_IO: &str = "directIO";
/// Names of claim and volume, which a sidecar may be configured to pass on.
const METADATA: &str = "csi.storage.k8s.io/";

/// What is to be changed; nothing where a parameter is not named.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mutable {
    pub(crate) direct_io: Option<bool>,
}

/// A parameter that means nothing here.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MutableError {
    #[error("mutable parameter `{0}` is not supported: use `{DIRECT_IO}`")]
    Unknown(String),
    #[error("mutable parameter `{DIRECT_IO}` is `{0}`: use `true` or `false`")]
    DirectIo(String),
}

impl TryFrom<&BTreeMap<String, String>> for Mutable {
    type Error = MutableError;

    fn try_from(parameters: &BTreeMap<String, String>) -> Result<Self, MutableError> {
        let mut mutable = Self::default();
        for (key, value) in parameters {
            match (key.as_str(), value.as_str()) {
                (DIRECT_IO, "true") => mutable.direct_io = Some(true),
                (DIRECT_IO, "false") => mutable.direct_io = Some(false),
                (DIRECT_IO, other) => return Err(MutableError::DirectIo(other.to_owned())),
                (key, _) if key.starts_with(METADATA) => {}
                (key, _) => return Err(MutableError::Unknown(key.to_owned())),
            }
        }
        Ok(mutable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(parameters: &[(&str, &str)]) -> Result<Option<bool>, MutableError> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let parameters: BTreeMap<_, _> = parameters.iter().map(owned).collect();
        Mutable::try_from(&parameters).map(|mutable| mutable.direct_io)
    }

    #[test]
    fn what_is_not_named_is_not_changed_and_what_is_unknown_is_refused() {
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[("directIO", "true")]), Ok(Some(true)));
        assert_eq!(read(&[("directIO", "false")]), Ok(Some(false)));
        assert_eq!(read(&[("csi.storage.k8s.io/pv/name", "x")]), Ok(None));
        let yes = MutableError::DirectIo("yes".to_owned());
        assert_eq!(read(&[("directIO", "yes")]), Err(yes));
        let iops = MutableError::Unknown("iops".to_owned());
        assert_eq!(read(&[("directIO", "true"), ("iops", "1")]), Err(iops));
    }
}

//! What becomes of an object that the server sends.

use kube::core::DeserializeGuard;
use serde::de::DeserializeOwned;

/// What a reader makes of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading<T> {
    /// It is kept.
    Of(T),
    /// It exists and is of no interest: what was known of it is forgotten.
    Other,
    /// It exists, and nobody can tell what it says, because of this. It is not gone: what was known of it stays.
    Unreadable(String),
}

impl<T> From<Option<T>> for Reading<T> {
    fn from(read: Option<T>) -> Self {
        read.map_or(Self::Other, Self::Of)
    }
}

/// Of custom resources one malformed object must not stop the whole watch, nor count as deleted.
pub fn guarded<K, T>(
    read: impl Fn(K) -> Option<T> + Send + 'static,
) -> impl Fn(DeserializeGuard<K>) -> Reading<T> + Send + 'static
where
    K: DeserializeOwned + 'static,
{
    move |guard| match guard.0 {
        Ok(object) => read(object).into(),
        Err(error) => Reading::Unreadable(error.error),
    }
}

//! Objects as the server sent them, of a kind that has a type: for those who compare or write back whole objects, which
//! a type would round off, and for objects that the type may not be able to read.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::DynamicObject;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

/// An object of kind `K` as the server sent it.
pub struct Raw<K> {
    /// The object.
    pub object: DynamicObject,
    kind: PhantomData<fn() -> K>,
}

impl<K: DeserializeOwned> Raw<K> {
    /// The object as its type, or why it cannot be read.
    pub fn typed(&self) -> Result<K, String> {
        let value = serde_json::to_value(&self.object).map_err(|error| error.to_string())?;
        serde_json::from_value(value).map_err(|error| error.to_string())
    }
}

impl<K> Clone for Raw<K> {
    fn clone(&self) -> Self {
        Self {
            object: self.object.clone(),
            kind: PhantomData,
        }
    }
}

impl<K> fmt::Debug for Raw<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object.fmt(formatter)
    }
}

impl<'de, K> Deserialize<'de> for Raw<K> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Self {
            object: DynamicObject::deserialize(from)?,
            kind: PhantomData,
        })
    }
}

impl<K: Resource<DynamicType = ()>> Resource for Raw<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind(kind: &()) -> Cow<'_, str> {
        K::kind(kind)
    }

    fn group(kind: &()) -> Cow<'_, str> {
        K::group(kind)
    }

    fn version(kind: &()) -> Cow<'_, str> {
        K::version(kind)
    }

    fn plural(kind: &()) -> Cow<'_, str> {
        K::plural(kind)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.object.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.object.metadata
    }
}

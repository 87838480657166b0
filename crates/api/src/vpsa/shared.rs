//! Parts that several kinds have.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::state::{CapacityMode, CloneSourceKind};
use crate::schema::{conditions, optional_text_map, read_text, read_text_map, text};

/// Fields that this version does not know.
pub type Unknown = BTreeMap<String, Value>;

/// Labels of nodes that say where they are, such as `topology.kubernetes.io/zone: a`.
pub type Segments = BTreeMap<String, String>;

/// A text that is a secret, or may be one: it is written to the API and nowhere else.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Concealed(#[serde(deserialize_with = "read_text")] String);

impl Concealed {
    /// The text, for those who need it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Concealed {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Concealed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

/// What a controller says of an object beside its state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Observed {
    /// The last generation that was put into effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What is so and what is not, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
}

/// Options of volumes on the array.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["compress", "dedupe", "encrypt"]))]
pub struct VolumeFlags {
    /// Compress data; needs an all-flash array.
    #[serde(default)]
    pub compress: bool,
    /// Keep equal data once; needs an all-flash array.
    #[serde(default)]
    pub dedupe: bool,
    /// Encrypt data.
    #[serde(default)]
    pub encrypt: bool,
    /// Further parameters of the array's call that creates a volume, as they are.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_text_map"
    )]
    #[schemars(schema_with = "optional_text_map")]
    pub extra: Option<BTreeMap<String, String>>,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// How much there is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["total", "available"]))]
pub struct Capacity {
    /// Everything.
    #[serde(default = "nothing", deserialize_with = "read_quantity")]
    pub total: Quantity,
    /// What is free.
    #[serde(default = "nothing", deserialize_with = "read_quantity")]
    pub available: Quantity,
    /// How full it is: `normal`, `alert`, `protected` or `emergency`. New volumes are made in `normal` only.
    #[serde(default)]
    pub mode: CapacityMode,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Default for Capacity {
    /// Nothing, of which nothing is used.
    fn default() -> Self {
        Self {
            total: nothing(),
            available: nothing(),
            mode: CapacityMode::Normal,
            unknown: Unknown::new(),
        }
    }
}

/// What a missing size means.
pub(super) fn nothing() -> Quantity {
    Quantity("0".to_owned())
}

/// What a volume was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["kind", "name"]))]
pub struct CloneSource {
    /// `Snapshot` or `Volume`.
    #[serde(default)]
    pub kind: CloneSourceKind,
    /// The name of that object.
    #[serde(default, deserialize_with = "read_text")]
    #[schemars(schema_with = "text")]
    pub name: String,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A quantity, which people may write as a number.
pub(super) fn read_quantity<'de, D: Deserializer<'de>>(from: D) -> Result<Quantity, D::Error> {
    Ok(read_optional_quantity(from)?.unwrap_or_else(nothing))
}

/// The same where it may be left out.
pub(super) fn read_optional_quantity<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Quantity>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Number(serde_json::Number),
    }
    let written: Option<Written> = Option::deserialize(from)?;
    Ok(written.map(|written| match written {
        Written::Text(text) => Quantity(text),
        Written::Number(number) => Quantity(number.to_string()),
    }))
}

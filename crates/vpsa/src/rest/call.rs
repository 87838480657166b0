//! One call.

use reqwest::Method;
use serde_json::{Map, Value};

/// One call. It has no `Debug`: parameters may be secrets.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) method: Method,
    /// Below `/api/`, without `.json`.
    pub(super) path: String,
    /// In the query of a GET, in the body of everything else.
    pub(super) parameters: Map<String, Value>,
    /// For messages: "refuses to ...".
    pub(super) doing: &'static str,
}

impl Call {
    pub(super) fn get(path: impl Into<String>, doing: &'static str) -> Self {
        Self::with(Method::GET, path, doing)
    }

    pub(super) fn post(path: impl Into<String>, doing: &'static str) -> Self {
        Self::with(Method::POST, path, doing)
    }

    pub(super) fn delete(path: impl Into<String>, doing: &'static str) -> Self {
        Self::with(Method::DELETE, path, doing)
    }

    fn with(method: Method, path: impl Into<String>, doing: &'static str) -> Self {
        Self {
            method,
            path: path.into(),
            parameters: Map::new(),
            doing,
        }
    }

    pub(super) fn set(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.parameters.insert(name.to_owned(), value.into());
        self
    }

    /// Switches are words on this API.
    pub(super) fn switch(self, name: &str, on: bool) -> Self {
        self.set(name, if on { "YES" } else { "NO" })
    }

    /// The same if there is a value.
    pub(super) fn maybe(self, name: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.set(name, value),
            None => self,
        }
    }

    /// Whether it only looks.
    pub(super) fn is_read(&self) -> bool {
        self.method == Method::GET
    }
}

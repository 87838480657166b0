//! The calls, one function each, for somebody who has a certain time.

mod array;
mod servers;
mod snapshots;
mod volumes;

use std::collections::HashSet;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use stowage_rest::Deadline;

pub use self::servers::{Access, Chap, NewServer};
pub use self::volumes::{Kind, NewVolume};
use super::call::Call;
use super::client::Client;
use super::envelope::Answer;
use super::error::ApiError;
use super::follow::Outcome;

/// Objects per page of a list.
const PAGE: usize = 500;

/// How often a list is read that changes meanwhile.
const MOST_READINGS: usize = 5;

/// An array, within the time that one caller has.
#[derive(Clone, Debug)]
pub struct Api {
    client: Arc<Client>,
    deadline: Deadline,
}

impl Api {
    pub(super) fn new(client: Arc<Client>, deadline: Deadline) -> Self {
        Self { client, deadline }
    }

    /// When the caller gives up.
    pub fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// A call that only looks at one object, which is under this name in the answer.
    async fn one<T: DeserializeOwned>(&self, call: Call, name: &str) -> Result<T, ApiError> {
        let doing = call.doing;
        match self.client.call(&call, self.deadline).await? {
            Answer::Done(fields) => field(fields, name, doing),
            Answer::Submitted => Err(nonsense(doing, "there is nothing to wait for")),
        }
    }

    /// The same where there may be no such object.
    async fn maybe<T: DeserializeOwned>(
        &self,
        call: Call,
        name: &str,
    ) -> Result<Option<T>, ApiError> {
        match self.one(call, name).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A whole list, page by page. An array that ignores pages and answers with everything is understood, too.
    ///
    /// Each page begins with the last entry of the page before: if it is another one by now, something was removed
    /// meanwhile and the next page would miss an entry, so the list is read again.
    async fn list<T: DeserializeOwned>(&self, call: Call, name: &str) -> Result<Vec<T>, ApiError> {
        let doing = call.doing;
        for _ in 0..MOST_READINGS {
            if let Some(all) = self.try_list(&call, name).await? {
                return all.into_iter().map(|entry| read(entry, doing)).collect();
            }
        }
        Err(nonsense(doing, "it changes faster than it can be read"))
    }

    /// The list, unless something was removed from it while it was read.
    async fn try_list(&self, call: &Call, name: &str) -> Result<Option<Vec<Value>>, ApiError> {
        let mut known: HashSet<String> = HashSet::new();
        let mut all: Vec<Value> = Vec::new();
        loop {
            let start = all.len().saturating_sub(1);
            let page = call.clone().set("start", start).set("limit", PAGE);
            let entries: Vec<Value> = self.one(page, name).await?;
            let length = entries.len();
            let joins = match (all.last(), entries.first()) {
                (Some(last), Some(first)) => identity(last) == identity(first),
                (Some(_), None) => false,
                (None, _) => true,
            };
            let before = all.len();
            for entry in entries {
                if known.insert(identity(&entry)) {
                    all.push(entry);
                }
            }
            // Not full, or without anything new on it: this was the last.
            let is_last = length != PAGE || all.len() == before;
            match (joins, is_last) {
                (true, true) => return Ok(Some(all)),
                (true, false) => {}
                // Everything again, from an array that does not know pages.
                (false, true) if length == before => return Ok(Some(all)),
                (false, _) => return Ok(None),
            }
        }
    }

    /// A call that changes something, and answers with the value of this field.
    async fn change<T: DeserializeOwned>(
        &self,
        call: Call,
        name: &str,
    ) -> Result<Outcome<T>, ApiError> {
        let doing = call.doing;
        match self.client.call(&call, self.deadline).await? {
            Answer::Done(fields) => field(fields, name, doing).map(Outcome::Done),
            Answer::Submitted => Ok(Outcome::Submitted),
        }
    }

    /// A call that changes something, and answers with nothing that matters.
    async fn act(&self, call: Call) -> Result<Outcome<()>, ApiError> {
        match self.client.call(&call, self.deadline).await? {
            Answer::Done(_) => Ok(Outcome::Done(())),
            Answer::Submitted => Ok(Outcome::Submitted),
        }
    }

    /// A call that removes something; what is not there is removed.
    async fn remove(&self, call: Call) -> Result<Outcome<()>, ApiError> {
        match self.act(call).await {
            Err(error) if error.is_not_found() => Ok(Outcome::Done(())),
            result => result,
        }
    }
}

/// What tells entries of a list apart.
fn identity(entry: &Value) -> String {
    match &entry["name"] {
        Value::String(name) => name.clone(),
        _ => entry.to_string(),
    }
}

fn field<T: DeserializeOwned>(
    mut fields: Map<String, Value>,
    name: &str,
    doing: &'static str,
) -> Result<T, ApiError> {
    match fields.remove(name) {
        Some(value) => read(value, doing),
        None => Err(nonsense(doing, &format!("it has no `{name}`"))),
    }
}

fn read<T: DeserializeOwned>(value: Value, doing: &'static str) -> Result<T, ApiError> {
    // Of what serde says only the kind of mistake: values may be secrets.
    serde_json::from_value(value).map_err(|error| nonsense(doing, &without_values(&error)))
}

/// What is wrong, without the value that is.
fn without_values(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.split_once("expected ") {
        Some((_, expected)) => format!("a value is not what it should be: expected {expected}"),
        None => text,
    }
}

fn nonsense(doing: &'static str, reason: &str) -> ApiError {
    ApiError::Malformed {
        doing,
        reason: reason.to_owned(),
    }
}

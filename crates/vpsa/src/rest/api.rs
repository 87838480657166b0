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

/// More pages than any list has.
const MOST_PAGES: usize = 10_000;

/// An array, within the time that one caller has.
#[derive(Clone, Debug)]
pub struct Api {
    client: Arc<Client>,
    deadline: Deadline,
    is_hurried: bool,
}

impl Api {
    pub(super) fn new(client: Arc<Client>, deadline: Deadline) -> Self {
        Self {
            client,
            deadline,
            is_hurried: false,
        }
    }

    /// The same for somebody who does not wait behind calls that the array answers none of.
    pub fn hurried(self) -> Self {
        Self {
            is_hurried: true,
            ..self
        }
    }

    async fn call(&self, call: &Call) -> Result<Answer, ApiError> {
        let _turn = self
            .client
            .turn(call, self.deadline, self.is_hurried)
            .await?;
        self.client.call(call, self.deadline).await
    }

    /// When the caller gives up.
    pub fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// A call that only looks at one object, which is under this name in the answer.
    async fn one<T: DeserializeOwned>(&self, call: Call, name: &str) -> Result<T, ApiError> {
        let doing = call.doing;
        match self.call(&call).await? {
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
    /// Each page begins with the last entry of the page before. If it begins with one that is not known, something was
    /// removed before it and entries between were passed over, so the next page begins further in front.
    async fn list<T: DeserializeOwned>(&self, call: Call, name: &str) -> Result<Vec<T>, ApiError> {
        let doing = call.doing;
        let mut known: HashSet<String> = HashSet::new();
        let mut all: Vec<T> = Vec::new();
        let (mut start, mut back) = (0_usize, 1);
        for _ in 0..MOST_PAGES {
            let page = call.clone().set("start", start).set("limit", PAGE);
            let entries: Vec<Value> = self.one(page, name).await?;
            let first = entries.first().map(identity);
            if start > 0 && first.is_none_or(|first| !known.contains(&first)) {
                start = start.saturating_sub(back);
                back *= 2;
                continue;
            }
            let (length, before) = (entries.len(), all.len());
            for entry in entries {
                if known.insert(identity(&entry)) {
                    all.push(read(entry, doing)?);
                }
            }
            // Not full, or nothing new where there should be: this was the last.
            if length != PAGE || (back == 1 && all.len() == before) {
                return Ok(all);
            }
            start += length - 1;
            back = 1;
        }
        Err(nonsense(doing, "it has no end"))
    }

    /// A call that changes something, and answers with the value of this field.
    async fn change<T: DeserializeOwned>(
        &self,
        call: Call,
        name: &str,
    ) -> Result<Outcome<T>, ApiError> {
        let doing = call.doing;
        match self.call(&call).await? {
            Answer::Done(fields) => field(fields, name, doing).map(Outcome::Done),
            Answer::Submitted => Ok(Outcome::Submitted),
        }
    }

    /// A call that changes something, and answers with nothing that matters.
    async fn act(&self, call: Call) -> Result<Outcome<()>, ApiError> {
        match self.call(&call).await? {
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

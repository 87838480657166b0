//! Lists by pages: `start` is how many are left out, `limit` how many are shown at most; none or 0 is as many as the
//! array shows at once.

use serde_json::Value;

use crate::vpsa::state::{Parameters, Refusal};

/// One page of a list.
pub struct Page {
    /// What is on it.
    pub items: Vec<Value>,
    /// How many there are on all pages.
    pub count: usize,
}

/// Cuts the page that is asked for out of a list.
pub fn cut(parameters: &Parameters, most: usize, items: Vec<Value>) -> Result<Page, Refusal> {
    let number = |name: &str| match parameters.get(name) {
        None => Ok(0),
        Some(text) => text
            .parse::<usize>()
            .map_err(|_| Refusal::invalid(name, "it must be a number")),
    };
    let (start, limit) = (number("start")?, number("limit")?);
    let limit = if limit == 0 { usize::MAX } else { limit };
    let count = items.len();
    let items = items.into_iter().skip(start).take(limit.min(most.max(1)));
    Ok(Page {
        items: items.collect(),
        count,
    })
}

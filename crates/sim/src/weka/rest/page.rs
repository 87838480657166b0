//! Lists by pages.

use serde_json::Value;

use super::ask::Parameters;
use crate::weka::core::Core;
use crate::weka::release::Feature;
use crate::weka::state::Refusal;

/// One page of a list.
pub struct Page {
    /// What is on it.
    pub items: Vec<Value>,
    /// Where the next page begins; empty if there is none.
    pub next_token: String,
}

/// Cuts the page that is asked for out of a list; items are in the order of their keys.
///
/// A token names the last key of the page before: what is added or removed meanwhile moves nothing.
pub fn cut(
    core: &Core,
    parameters: &Parameters,
    items: Vec<(String, Value)>,
) -> Result<Page, Refusal> {
    let paged = core.read(|state, _| state.cluster().release.has(Feature::QueryParameters));
    let size = if paged {
        core.knobs().page_size.max(1)
    } else {
        usize::MAX
    };
    let after = parameters.get("next_token").map(decode).transpose()?;
    let mut rest = items
        .into_iter()
        .filter(|(key, _)| after.as_ref().is_none_or(|after| key > after));
    let page: Vec<(String, Value)> = rest.by_ref().take(size).collect();
    let next_token = match (page.last(), rest.next()) {
        (Some((last, _)), Some(_)) => encode(last),
        _ => String::new(),
    };
    Ok(Page {
        items: page.into_iter().map(|(_, item)| item).collect(),
        next_token,
    })
}

fn encode(key: &str) -> String {
    key.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn decode(token: &str) -> Result<String, Refusal> {
    let invalid = || Refusal::Invalid(format!("next_token: `{token}` is not a valid token"));
    if token.is_empty() || !token.is_ascii() || !token.len().is_multiple_of(2) {
        return Err(invalid());
    }
    let bytes: Option<Vec<u8>> = (0..token.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&token[at..at + 2], 16).ok())
        .collect();
    bytes
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_leads_back_to_its_key_and_nothing_else_does() {
        assert_eq!(decode(&encode("uid/7ä")), Ok("uid/7ä".to_owned()));
        for token in ["", "a", "zz", "é", "ff"] {
            assert!(decode(token).is_err(), "{token}");
        }
    }
}

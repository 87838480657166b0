//! A text that is no longer short is stored compressed, inside of a JSON object that says so:
//!
//! ```json
//! {"version":2,"deflate":"<base64>"}
//! ```

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use serde::Deserialize;

use super::{Unreadable, VERSION};

/// A text of up to so many bytes is stored as it is, so that people can read it.
pub(in super::super) const PLAIN: usize = 8_000;
/// Of 1 to 10. All of the text is compressed for each write, so time counts.
const LEVEL: u8 = 3;
/// What may come out of a text that was tampered with.
const LARGEST: usize = 64 << 20;
/// Of what is longer than this the size is measured, not guessed.
const MEASURED: usize = 2_000;

#[derive(Deserialize)]
struct Packed {
    deflate: Option<String>,
}

/// The text to store.
pub(in super::super) fn pack(text: String) -> String {
    if text.len() <= PLAIN {
        return text;
    }
    let packed = BASE64.encode(compress_to_vec(text.as_bytes(), LEVEL));
    format!("{{\"version\":{VERSION},\"deflate\":\"{packed}\"}}")
}

/// The text that was stored compressed; none if it was not.
pub(super) fn unpack(text: &str) -> Result<Option<String>, Unreadable> {
    let Packed { deflate } = serde_json::from_str(text)?;
    let Some(deflate) = deflate else {
        return Ok(None);
    };
    let bytes = BASE64.decode(deflate);
    let bytes = bytes.map_err(|_| Unreadable::Packed("`deflate` is not base64"))?;
    let text = decompress_to_vec_with_limit(&bytes, LARGEST);
    let text = text.map_err(|_| Unreadable::Packed("`deflate` cannot be decompressed"))?;
    let text = String::from_utf8(text);
    let text = text.map_err(|_| Unreadable::Packed("`deflate` is not text"))?;
    Ok(Some(text))
}

/// What a part of a text adds to it once it is packed, or a little more.
pub(in super::super) fn weight(part: &str) -> usize {
    if part.len() > MEASURED {
        return compress_to_vec(part.as_bytes(), LEVEL).len() * 4 / 3;
    }
    part.len() / 2
}

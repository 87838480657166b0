//! From the text of `mountinfo` to lines.
//!
//! `36 35 98:0 /root /point rw,noatime shared:1 master:2 - ext4 /dev/source rw,errors=continue`: the number of
//! optional fields before the lone `-` varies, and every other field may be empty (a mount may have the empty name as
//! its source), so fields are separated by exactly one space.

use super::{Device, Line, MountInfoError, Span};

/// What the kernel appends to the root of a mount whose directory or file was removed.
const DELETED: &[u8] = b"//deleted";

/// Parses every line and undoes the escapes inside `text`.
pub(super) fn lines(text: &mut [u8]) -> Result<Vec<Line>, MountInfoError> {
    let mut lines = Vec::with_capacity(text.len() / 128);
    let mut start = 0;
    while start < text.len() {
        let length = text[start..]
            .iter()
            .position(|&byte| byte == b'\n')
            .unwrap_or(text.len() - start);
        let end = start + length;
        let Some(line) = line(text, start, end) else {
            let text = String::from_utf8_lossy(&text[start..end]).into_owned();
            return Err(MountInfoError::Malformed {
                line: lines.len() + 1,
                text,
            });
        };
        lines.push(line);
        start = end + 1;
    }
    Ok(lines)
}

fn line(text: &mut [u8], start: usize, end: usize) -> Option<Line> {
    let mut fields = Fields {
        text,
        next: start,
        end,
    };
    let id = fields.number()?;
    let parent = fields.number()?;
    let device = fields.device()?;
    let mut root = fields.unescaped()?;
    let point = fields.unescaped()?;
    let options = fields.span()?;
    let optional_fields = fields.until_dash()?;
    let kind = fields.unescaped()?;
    let source = fields.unescaped()?;
    // Very old kernels leave the last field out when it is empty.
    let super_options = fields.unescaped().unwrap_or(source.end..source.end);
    let root_deleted = text[root.start as usize..root.end as usize].ends_with(DELETED);
    if root_deleted {
        root.end -= u32::try_from(DELETED.len()).ok()?;
    }
    Some(Line {
        id,
        parent,
        device,
        root,
        root_deleted,
        point,
        options,
        optional_fields,
        kind,
        source,
        super_options,
    })
}

struct Fields<'a> {
    text: &'a mut [u8],
    next: usize,
    end: usize,
}

impl Fields<'_> {
    /// The next field; none after the last one.
    fn range(&mut self) -> Option<(usize, usize)> {
        if self.next > self.end {
            return None;
        }
        let rest = &self.text[self.next..self.end];
        let length = rest
            .iter()
            .position(|&byte| byte == b' ')
            .unwrap_or(rest.len());
        let range = (self.next, self.next + length);
        self.next = range.1 + 1;
        Some(range)
    }

    fn span(&mut self) -> Option<Span> {
        let (start, end) = self.range()?;
        span(start, end)
    }

    fn unescaped(&mut self) -> Option<Span> {
        let (start, end) = self.range()?;
        let length = unescape(&mut self.text[start..end]);
        span(start, start + length)
    }

    fn number(&mut self) -> Option<u64> {
        let (start, end) = self.range()?;
        number(&self.text[start..end])
    }

    fn device(&mut self) -> Option<Device> {
        let (start, end) = self.range()?;
        let field = &self.text[start..end];
        let colon = field.iter().position(|&byte| byte == b':')?;
        let major = u32::try_from(number(&field[..colon])?).ok()?;
        let minor = u32::try_from(number(&field[colon + 1..])?).ok()?;
        Some(Device { major, minor })
    }

    /// The optional fields, of which there may be none; the dash that ends them is skipped.
    fn until_dash(&mut self) -> Option<Span> {
        let start = self.next;
        loop {
            let (field, end) = self.range()?;
            if &self.text[field..end] == b"-" {
                return span(start, field.saturating_sub(1).max(start));
            }
        }
    }
}

fn span(start: usize, end: usize) -> Option<Span> {
    Some(u32::try_from(start).ok()?..u32::try_from(end).ok()?)
}

fn number(digits: &[u8]) -> Option<u64> {
    str::from_utf8(digits).ok()?.parse().ok()
}

/// Replaces every `\` and three octal digits by the byte they stand for and returns the new length.
fn unescape(field: &mut [u8]) -> usize {
    let Some(first) = field.iter().position(|&byte| byte == b'\\') else {
        return field.len();
    };
    let (mut read, mut write) = (first, first);
    while read < field.len() {
        if let Some(byte) = octal(&field[read..]) {
            field[write] = byte;
            read += 4;
        } else {
            field[write] = field[read];
            read += 1;
        }
        write += 1;
    }
    write
}

fn octal(escape: &[u8]) -> Option<u8> {
    let [
        b'\\',
        high @ b'0'..=b'3',
        middle @ b'0'..=b'7',
        low @ b'0'..=b'7',
        ..,
    ] = escape
    else {
        return None;
    };
    Some((high - b'0') << 6 | (middle - b'0') << 3 | (low - b'0'))
}

//! Text for a terminal: columns, wrapped lines. Pure.

use std::fmt::Write;

/// Names come from a server; what it sends must not steer the terminal.
pub fn printable(text: &str) -> String {
    let visible = |c: char| if c.is_control() && c != '\n' { '?' } else { c };
    text.chars().map(visible).collect()
}

/// Rows of cells under each other, two spaces apart, no spaces at the end of a line.
pub fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let widths: Vec<_> = (0..count)
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or_default()
        })
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            _ = write!(line, "{cell:<width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// `label` and then the words of `value`, broken between words and indented as deep as the label.
pub fn wrap(label: &str, value: &str, width: usize) -> String {
    let indent = label.chars().count();
    let mut text = label.to_owned();
    let mut used = indent;
    for word in value.split(' ') {
        let length = word.chars().count();
        if used > indent {
            if used + 1 + length > width {
                text.push('\n');
                text.push_str(&" ".repeat(indent));
                used = indent;
            } else {
                text.push(' ');
                used += 1;
            }
        }
        text.push_str(word);
        used += length;
    }
    text.push('\n');
    text
}

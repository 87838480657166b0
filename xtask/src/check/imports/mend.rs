//! Writes the imports of a file anew.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::{Import, check_scope, scopes};
use crate::check::sources::Source;

/// The file with its imports in order, if they were not and can be put in order: where a comment stands among them, a person
/// must say what it belongs to. Called twice: there is nothing left to do.
pub fn mended(source: &Source, crates: &BTreeSet<String>) -> Option<String> {
    let mut text = source.text.clone();
    let mut scopes = scopes(source, crates);
    // From the end of the file, so that what is above stays where it was.
    scopes.sort_by_key(|imports| Reverse(imports[0].bytes.start));
    for imports in scopes {
        let broken = !check_scope(source, &imports).is_empty();
        let first = imports.iter().position(Import::is_private);
        let last = imports.iter().rposition(Import::is_private);
        let Some((first, last)) = first.zip(last).filter(|_| broken) else {
            continue;
        };
        let imports = &imports[first..=last];
        if only_imports(source, imports) {
            let bytes = imports[0].bytes.start..imports[imports.len() - 1].bytes.end;
            text.replace_range(bytes, &written(imports));
        }
    }
    (text != source.text).then_some(text)
}

/// Whether nothing but empty lines is between them.
fn only_imports(source: &Source, imports: &[Import]) -> bool {
    let between = |pair: &[Import]| &source.text[pair[0].bytes.end..pair[1].bytes.start];
    imports
        .windows(2)
        .all(|pair| between(pair).trim().is_empty())
}

fn written(imports: &[Import]) -> String {
    let mut modules = BTreeMap::<_, Vec<&str>>::new();
    for import in imports {
        for (module, item) in &import.items {
            // Crates as such are not joined: each is a line of its own.
            let alone = if module.is_empty() { item.as_str() } else { "" };
            let key = (
                import.group,
                module.as_str(),
                &import.visibility,
                &import.attributes,
                alone,
            );
            modules.entry(key).or_default().push(item);
        }
    }
    let mut text = String::new();
    let mut last = None;
    for ((group, module, visibility, attributes, _), items) in modules {
        if last.is_some_and(|last| last != group) {
            text.push('\n');
        }
        last = Some(group);
        let path = match (module, items.as_slice()) {
            ("", [item]) => (*item).to_owned(),
            (module, ["self"]) => module.to_owned(),
            (module, [item]) => format!("{module}::{item}"),
            (module, items) => format!("{module}::{{{}}}", items.join(", ")),
        };
        text.push_str(&format!("{attributes}{visibility}use {path};\n"));
    }
    text.trim_end().to_owned()
}

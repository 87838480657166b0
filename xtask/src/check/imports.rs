//! One style of imports: one `use` per module, no path and no braces within its braces; the standard library, other crates and
//! our own code in three groups, in this order, with an empty line between two. Stable rustfmt does the rest: it sorts.

mod mend;

use std::cmp::Ordering;
use std::collections::BTreeSet;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Block, Item, ItemMod, ItemUse, Stmt, UseTree, Visibility};

pub use self::mend::mended;
use super::finding::Finding;
use super::sources::Source;

/// `crates` are those that the file's package knows; what is named otherwise is our own.
pub fn check(source: &Source, crates: &BTreeSet<String>) -> Vec<Finding> {
    let scopes = scopes(source, crates);
    let findings = scopes.iter().flat_map(|scope| check_scope(source, scope));
    findings.collect()
}

/// A `use`.
struct Import {
    /// Its bytes in the file, attributes included.
    bytes: std::ops::Range<usize>,
    first_line: usize,
    /// `#[cfg(unix)]` and the like.
    attributes: String,
    /// `pub `, `pub(crate) ` or nothing.
    visibility: String,
    group: Group,
    /// What it takes from which module; several modules only if it is nested.
    items: Vec<(String, String)>,
    is_nested: bool,
}

/// Where something comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Standard,
    Other,
    Own,
}

impl Import {
    fn of(source: &Source, crates: &BTreeSet<String>, item: &ItemUse) -> Self {
        let mut items = Vec::new();
        flatten(&item.tree, "", &mut items);
        let attributes = item.attrs.iter();
        let attributes = attributes.map(|it| source.text[it.span().byte_range()].to_owned() + "\n");
        Self {
            bytes: item.span().byte_range(),
            first_line: item.span().start().line,
            attributes: attributes.collect(),
            visibility: match &item.vis {
                Visibility::Inherited => String::new(),
                visibility => source.text[visibility.span().byte_range()].to_owned() + " ",
            },
            group: group(&item.tree, crates),
            items,
            is_nested: is_nested(&item.tree, false),
        }
    }

    /// Re-exports stand where they read best; what is private has its group.
    fn is_private(&self) -> bool {
        self.visibility.is_empty()
    }
}

fn group(tree: &UseTree, crates: &BTreeSet<String>) -> Group {
    let first = match tree {
        UseTree::Path(tree) => tree.ident.to_string(),
        UseTree::Name(tree) => tree.ident.to_string(),
        UseTree::Rename(tree) => tree.ident.to_string(),
        UseTree::Glob(_) | UseTree::Group(_) => String::new(),
    };
    match first.as_str() {
        "std" | "core" | "alloc" => Group::Standard,
        name if crates.contains(name) => Group::Other,
        _ => Group::Own,
    }
}

/// Whether braces hold a path or further braces.
fn is_nested(tree: &UseTree, in_braces: bool) -> bool {
    match tree {
        UseTree::Path(tree) => in_braces || is_nested(&tree.tree, false),
        UseTree::Group(group) => in_braces || group.items.iter().any(|it| is_nested(it, true)),
        UseTree::Name(_) | UseTree::Rename(_) | UseTree::Glob(_) => false,
    }
}

fn flatten(tree: &UseTree, module: &str, items: &mut Vec<(String, String)>) {
    let item = match tree {
        UseTree::Path(tree) => {
            let separator = if module.is_empty() { "" } else { "::" };
            return flatten(
                &tree.tree,
                &format!("{module}{separator}{}", tree.ident),
                items,
            );
        }
        UseTree::Group(group) => {
            return group.items.iter().for_each(|it| flatten(it, module, items));
        }
        UseTree::Name(tree) => tree.ident.to_string(),
        UseTree::Rename(tree) => format!("{} as {}", tree.ident, tree.rename),
        UseTree::Glob(_) => "*".to_owned(),
    };
    items.push((module.to_owned(), item));
}

/// The imports of every file, module and block that has some.
fn scopes(source: &Source, crates: &BTreeSet<String>) -> Vec<Vec<Import>> {
    let mut scopes = Scopes {
        source,
        crates,
        found: Vec::new(),
    };
    scopes.add(source.syntax.items.iter());
    scopes.visit_file(&source.syntax);
    scopes.found
}

struct Scopes<'a> {
    source: &'a Source,
    crates: &'a BTreeSet<String>,
    found: Vec<Vec<Import>>,
}

impl Scopes<'_> {
    fn add<'ast>(&mut self, items: impl Iterator<Item = &'ast Item>) {
        let imports = items.filter_map(|item| match item {
            Item::Use(item) => Some(Import::of(self.source, self.crates, item)),
            _ => None,
        });
        let imports: Vec<Import> = imports.collect();
        if !imports.is_empty() {
            self.found.push(imports);
        }
    }
}

impl<'ast> Visit<'ast> for Scopes<'_> {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if let Some((_, items)) = &module.content {
            self.add(items.iter());
        }
        visit::visit_item_mod(self, module);
    }

    fn visit_block(&mut self, block: &'ast Block) {
        self.add(block.stmts.iter().filter_map(|statement| match statement {
            Stmt::Item(item) => Some(item),
            _ => None,
        }));
        visit::visit_block(self, block);
    }
}

fn check_scope(source: &Source, imports: &[Import]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut report = |import: &Import, what: String| {
        findings.push(Finding::at(&source.path, import.first_line, what));
    };
    for (number, import) in imports.iter().enumerate() {
        if import.is_nested {
            let what = "a `use` has a path or braces within its braces: write one `use` per module";
            report(import, what.to_owned());
        }
        let module = |import: &Import| import.items.first().map(|(module, _)| module.clone());
        let same = |other: &&Import| {
            let (one, other) = (import, *other);
            module(one) == module(other)
                && (&one.visibility, &one.attributes) == (&other.visibility, &other.attributes)
        };
        let named = module(import).filter(|module| !module.is_empty());
        if named.is_some() && imports[..number].iter().any(|other| same(&other)) {
            let module = named.unwrap_or_default();
            report(
                import,
                format!("a second `use` of `{module}`: join the two"),
            );
        }
    }
    let private: Vec<&Import> = imports.iter().filter(|it| it.is_private()).collect();
    for pair in private.windows(2) {
        let (above, below) = (pair[0], pair[1]);
        let apart = source.text[above.bytes.end..below.bytes.start].contains("\n\n");
        match (above.group.cmp(&below.group), apart) {
            (Ordering::Greater, _) => {
                let order = "`std` comes first, then other crates, then our own code";
                report(below, format!("this `use` is in the wrong group: {order}"));
            }
            (Ordering::Less, false) => {
                report(
                    below,
                    "a new group of `use`s begins: put an empty line before it".to_owned(),
                );
            }
            (Ordering::Equal, true) => {
                report(
                    below,
                    "this `use` is apart from others of its group: put them together".to_owned(),
                );
            }
            _ => {}
        }
    }
    findings
}

#[cfg(test)]
mod tests;

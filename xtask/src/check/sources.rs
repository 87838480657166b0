//! The Rust files of the workspace, read and parsed once for all rules.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use proc_macro2::TokenStream;

/// A Rust file.
pub struct Source {
    /// Below the root of the workspace.
    pub path: PathBuf,
    pub text: String,
    pub tokens: TokenStream,
    pub syntax: syn::File,
}

impl Source {
    pub fn parse(path: impl Into<PathBuf>, text: String) -> anyhow::Result<Self> {
        let path = path.into();
        let what =
            |error: &dyn std::fmt::Display| anyhow!("cannot parse `{}`: {error}", path.display());
        let tokens: TokenStream = text.parse().map_err(|error| what(&error))?;
        let syntax = syn::parse2(tokens.clone()).map_err(|error| what(&error))?;
        Ok(Self {
            path,
            text,
            tokens,
            syntax,
        })
    }

    /// Whether it is part of a program or library, and not of its tests.
    pub fn is_production(&self) -> bool {
        let is_test = |part: &std::ffi::OsStr| part == "tests" || part == "tests.rs";
        !self.path.iter().any(is_test)
    }
}

/// The Rust files below `directory`, in the order of their names.
pub fn read(root: &Path, directory: &Path) -> anyhow::Result<Vec<Source>> {
    let mut files = Vec::new();
    find(directory, &mut files)
        .with_context(|| format!("cannot read `{}`", directory.display()))?;
    files.sort();
    let source = |file: PathBuf| {
        let text = fs::read_to_string(&file)
            .with_context(|| format!("cannot read `{}`", file.display()))?;
        Source::parse(file.strip_prefix(root).unwrap_or(&file), text)
    };
    files.into_iter().map(source).collect()
}

fn find(directory: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            find(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

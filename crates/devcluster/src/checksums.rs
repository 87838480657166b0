//! A cached binary is used only if it is still the one that was put there.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::{Doing, Error, Result};
use crate::places;

/// The list inside a sealed directory, in `sha256sum` format.
const LIST: &str = "SHA256SUMS";

/// Writes the checksums of all files below `directory`. A directory without the list is unfinished.
pub fn seal(directory: &Path) -> Result<()> {
    let mut list = String::new();
    for file in files_below(directory)? {
        let name = file.strip_prefix(directory).unwrap_or(&file);
        list.push_str(&format!("{}  {}\n", of_file(&file)?, name.display()));
    }
    places::write(&directory.join(LIST), list)
}

/// Whether `directory` was finished once. Says nothing about damage.
pub fn is_sealed(directory: &Path) -> bool {
    directory.join(LIST).is_file()
}

/// Compares every file with the list.
pub fn verify(directory: &Path) -> Result<()> {
    let path = directory.join(LIST);
    let list = fs::read_to_string(&path).doing(|| format!("cannot read `{}`", path.display()))?;
    for (expected, name) in list.lines().filter_map(|line| line.split_once("  ")) {
        let file = directory.join(name);
        if of_file(&file).ok().as_deref() != Some(expected) {
            return Err(Error::Refused(format!(
                "cached file `{}` is damaged or missing: remove `{}` and run again to make it anew",
                file.display(),
                directory.display()
            )));
        }
    }
    Ok(())
}

/// SHA-256 of a file, in hexadecimal.
pub fn of_file(path: &Path) -> Result<String> {
    let what = || format!("cannot read `{}`", path.display());
    let mut file = File::open(path).doing(what)?;
    let mut hash = Hashing::new(io::sink());
    io::copy(&mut file, &mut hash).doing(what)?;
    Ok(hash.finish().0)
}

/// SHA-256 of bytes, in hexadecimal.
pub fn of(bytes: &[u8]) -> String {
    let mut hash = Hashing::new(io::sink());
    hash.hash.update(bytes);
    hash.finish().0
}

/// A writer that hashes and counts what passes through it.
pub struct Hashing<W> {
    inner: W,
    hash: Sha256,
    bytes: u64,
}

impl<W: io::Write> Hashing<W> {
    /// Passes everything on to `inner`.
    pub fn new(inner: W) -> Self {
        Self {
            inner,
            hash: Sha256::new(),
            bytes: 0,
        }
    }

    /// The hash in hexadecimal, and the number of bytes.
    pub fn finish(self) -> (String, u64) {
        let hex = self
            .hash
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        (hex, self.bytes)
    }
}

impl<W: io::Write> io::Write for Hashing<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(buffer)?;
        self.hash.update(&buffer[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn files_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        let what = || format!("cannot read directory `{}`", next.display());
        for entry in fs::read_dir(&next).doing(what)? {
            let path = entry.doing(what)?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.file_name().is_some_and(|name| name != LIST) {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_or_missing_file_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("sub")).unwrap();
        let file = directory.path().join("sub/tool");
        fs::write(&file, "good").unwrap();
        assert!(!is_sealed(directory.path()));
        seal(directory.path()).unwrap();
        assert!(is_sealed(directory.path()));
        verify(directory.path()).unwrap();

        fs::write(&file, "evil").unwrap();
        let error = verify(directory.path()).unwrap_err().to_string();
        assert!(
            error.contains("sub/tool` is damaged") && error.contains("run again"),
            "{error}"
        );

        fs::remove_file(&file).unwrap();
        assert!(verify(directory.path()).is_err());
    }

    #[test]
    fn the_hash_is_sha256() {
        let mut hash = Hashing::new(io::sink());
        io::Write::write_all(&mut hash, b"abc").unwrap();
        let (hex, bytes) = hash.finish();
        assert_eq!(
            hex,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(bytes, 3);
    }
}

//! Archives that are the same bytes wherever they are made: sorted, without owners and times.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;
use devcluster::checksums;
use miniz_oxide::deflate::compress_to_vec;

/// Good enough: a higher one takes three times as long for a percent.
const LEVEL: u8 = 6;
/// Executable, or not.
const MODES: (u32, u32) = (0o755, 0o644);

/// Files by their path in an archive.
#[derive(Clone, Debug, Default)]
pub struct Files(BTreeMap<String, Vec<u8>>);

impl Files {
    /// One of this content.
    pub fn put(&mut self, path: impl Into<String>, content: impl Into<Vec<u8>>) {
        self.0.insert(path.into(), content.into());
    }

    /// Everything below a directory of the machine; links are followed.
    pub fn put_directory(&mut self, path: &str, from: &Path) -> anyhow::Result<()> {
        let what = || format!("cannot read `{}`", from.display());
        for entry in fs::read_dir(from).with_context(what)? {
            let entry = entry.with_context(what)?.path();
            let name = entry.file_name().unwrap_or_default().to_string_lossy();
            let inside = format!("{path}/{name}");
            if entry.is_dir() {
                self.put_directory(&inside, &entry)?;
            } else {
                let content = fs::read(&entry);
                self.put(
                    inside,
                    content.with_context(|| format!("cannot read `{}`", entry.display()))?,
                );
            }
        }
        Ok(())
    }

    /// Only those whose path will do.
    pub fn retain(&mut self, will_do: impl Fn(&str) -> bool) {
        self.0.retain(|path, _| will_do(path));
    }

    /// As `sha256sum` prints them.
    pub fn checksums(&self) -> String {
        let line =
            |(path, content): (&String, &Vec<u8>)| format!("{}  {path}\n", checksums::of(content));
        self.0.iter().map(line).collect()
    }

    /// The archive.
    pub fn tar(&self) -> anyhow::Result<Vec<u8>> {
        let mut tar = tar::Builder::new(Vec::new());
        for (path, content) in &self.0 {
            let mut header = tar::Header::new_gnu();
            header.set_mtime(0);
            header.set_uid(0);
            header.set_gid(0);
            header.set_size(content.len() as u64);
            let runs = content.starts_with(b"#!") || content.starts_with(b"\x7fELF");
            header.set_mode(if runs { MODES.0 } else { MODES.1 });
            tar.append_data(&mut header, path, content.as_slice())?;
        }
        Ok(tar.into_inner()?)
    }

    /// The archive, compressed.
    pub fn tar_gz(&self) -> anyhow::Result<Vec<u8>> {
        Ok(gzip(&self.tar()?))
    }
}

/// RFC 1952, without a name and without a time.
fn gzip(content: &[u8]) -> Vec<u8> {
    const UNKNOWN_SYSTEM: u8 = 255;
    let mut bytes = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, UNKNOWN_SYSTEM];
    bytes.extend(compress_to_vec(content, LEVEL));
    bytes.extend(crc32(content).to_le_bytes());
    #[allow(clippy::cast_possible_truncation, reason = "the format says so")]
    let length = content.len() as u32;
    bytes.extend(length.to_le_bytes());
    bytes
}

fn crc32(content: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    let mut table = [0_u32; 256];
    for (byte, entry) in (0_u32..).zip(table.iter_mut()) {
        let step = |it: u32| {
            if it & 1 == 1 {
                it >> 1 ^ POLYNOMIAL
            } else {
                it >> 1
            }
        };
        *entry = (0..8).fold(byte, |it, _| step(it));
    }
    let sum = content.iter().fold(u32::MAX, |sum, byte| {
        sum >> 8 ^ table[usize::from(sum.to_le_bytes()[0] ^ byte)]
    });
    !sum
}

#[cfg(test)]
mod tests {
    use devcluster::process::feed;

    use super::*;

    #[test]
    fn the_sum_is_the_one_everybody_knows() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn other_programs_read_it_and_it_is_always_the_same() {
        let mut files = Files::default();
        files.put("b/script", "#!/bin/sh\n");
        files.put("a", "x".repeat(100_000));
        let archive = files.tar_gz().unwrap();
        assert_eq!(archive, files.clone().tar_gz().unwrap());
        let mut tar = std::process::Command::new("tar");
        let listed = feed(
            tar.args(["--list", "--gzip", "--verbose", "--file=-"]),
            &archive,
        )
        .unwrap();
        let lines: Vec<_> = listed.lines().collect();
        assert_eq!(lines.len(), 2, "{listed}");
        assert!(
            lines[0].starts_with("-rw-r--r--") && lines[0].ends_with(" a"),
            "{listed}"
        );
        assert!(
            lines[1].starts_with("-rwxr-xr-x") && lines[1].ends_with(" b/script"),
            "{listed}"
        );
    }
}

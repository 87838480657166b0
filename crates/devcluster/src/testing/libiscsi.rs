//! An initiator that others wrote: libiscsi's tools, unpacked from Debian's packages into the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::debian::{Scratch, unpack};
use crate::error::{Doing, Result};
use crate::report::Report;
use crate::{checksums, places};

const PACKAGES: &[&str] = &[
    "libiscsi-bin",
    "libiscsi7",
    "libcunit1",
    "libibverbs1",
    "librdmacm1",
    "libnl-3-200",
    "libnl-route-3-200",
];

/// What is taken out of them.
const FILES: &[&str] = &[
    "usr/bin/iscsi-inq",
    "usr/bin/iscsi-ls",
    "usr/bin/iscsi-readcapacity16",
    "usr/bin/iscsi-test-cu",
    "usr/lib/x86_64-linux-gnu/libiscsi.so.7",
    "usr/lib/x86_64-linux-gnu/libcunit.so.1",
    "usr/lib/x86_64-linux-gnu/libibverbs.so.1",
    "usr/lib/x86_64-linux-gnu/librdmacm.so.1",
    "usr/lib/x86_64-linux-gnu/libnl-route-3.so.200",
    "lib/x86_64-linux-gnu/libnl-3.so.200",
];

/// A tool of libiscsi, such as `iscsi-ls`; fetched by the first who asks.
///
/// Called twice: it is there.
pub fn libiscsi(tool: &str) -> Result<Command> {
    let directory = ensure()?;
    let mut command = Command::new(directory.join(tool));
    command.env("LD_LIBRARY_PATH", directory);
    Ok(command)
}

fn ensure() -> Result<PathBuf> {
    let place = places::cache().join("libiscsi-1");
    let _lock = places::lock("libiscsi", || {})?;
    if checksums::is_sealed(&place) {
        return Ok(place);
    }
    let scratch = Scratch::new("libiscsi")?;
    let report = Report::silent(scratch.path().join("log"));
    unpack(PACKAGES, scratch.path(), &report)?;
    let next = scratch.path().join("next");
    places::make(&next)?;
    for file in FILES {
        let from = scratch.path().join("root").join(file);
        let to = next.join(Path::new(file).file_name().unwrap_or_default());
        fs::copy(&from, &to).doing(|| format!("cannot copy `{}`", from.display()))?;
    }
    checksums::seal(&next)?;
    scratch.become_directory(&next, &place)?;
    Ok(place)
}

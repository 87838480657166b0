//! The kernel's table of mounts (`/proc/self/mountinfo`), parsed and indexed.
//!
//! Whether something is mounted is answered from this table and never by touching the path: a hung mount must not
//! hang the question. All names are bytes, as in the kernel; the octal escapes of the file are undone.
//!
//! Of 10,000 mounts (1.4 MB of text) the kernel writes the table in 35 ms; it is parsed and indexed in 5 ms, a look-up
//! takes 0.1 us, and a table that has not changed since costs 0.5 us (release build, two busy cores). So whoever only
//! wants to know whether something is mounted asks [`Mounter::is_mounted`](super::mount::Mounter::is_mounted).

mod index;
mod parse;
mod reader;

use std::borrow::Cow;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use index::Index;
pub use reader::Reader;

/// The number of a device: of the disk, or the one the kernel invented for a filesystem without a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device {
    /// The driver's number.
    pub major: u32,
    /// The device's number at its driver.
    pub minor: u32,
}

impl Device {
    /// The number of the disk at this path, if it is one.
    pub fn of_disk(path: &Path) -> Option<Self> {
        use std::os::unix::fs::{FileTypeExt, MetadataExt};
        let metadata = std::fs::metadata(path).ok()?;
        let number = metadata.rdev();
        metadata.file_type().is_block_device().then(|| Self {
            major: rustix::fs::major(number),
            minor: rustix::fs::minor(number),
        })
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// Why there is no table.
#[derive(Debug, thiserror::Error)]
pub enum MountInfoError {
    /// The file cannot be read.
    #[error("cannot read the table of mounts")]
    Unreadable(#[source] io::Error),
    /// A line does not have the kernel's form.
    #[error("line {line} of the table of mounts is malformed: {text}")]
    Malformed {
        /// Its number, from 1.
        line: usize,
        /// The line itself.
        text: String,
    },
    /// It changed during every one of the attempts, on a kernel whose table may then lack lines.
    #[error("the table of mounts changed each of the {attempts} times it was read")]
    Unstable {
        /// How often it was read.
        attempts: usize,
    },
}

/// Types of mounts by NFS: of the kernel, and of clients by FUSE.
const NFS: [&str; 3] = ["nfs", "nfs4", "fuse.nfs"];

/// Where a field lies in the table's text.
type Span = Range<u32>;

#[derive(Debug)]
struct Line {
    id: u64,
    parent: u64,
    device: Device,
    root: Span,
    root_deleted: bool,
    point: Span,
    options: Span,
    optional_fields: Span,
    kind: Span,
    source: Span,
    super_options: Span,
}

/// All mounts that the process could see at one moment.
pub struct MountTable {
    text: Vec<u8>,
    lines: Vec<Line>,
    points: Index,
}

impl MountTable {
    /// Parses the text of a `mountinfo` file.
    pub fn parse(text: impl Into<Vec<u8>>) -> Result<Self, MountInfoError> {
        let mut text = text.into();
        let lines = parse::lines(&mut text)?;
        let field = |span: &Span| &text[span.start as usize..span.end as usize];
        let points = Index::build(&lines, |line| index::hash(field(&line.point)));
        Ok(Self {
            text,
            lines,
            points,
        })
    }

    /// All mounts in the kernel's order.
    pub fn iter(&self) -> impl Iterator<Item = Mount<'_>> {
        self.lines.iter().map(|line| Mount { table: self, line })
    }

    /// How many mounts there are.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there is no mount at all.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The mount that one sees at `point`: the topmost of those stacked there. No parent directory and no symbolic
    /// link is resolved here.
    pub fn at(&self, point: &Path) -> Option<Mount<'_>> {
        let stack: Vec<_> = self.all_at(point).collect();
        stack
            .iter()
            .find(|mount| !stack.iter().any(|other| other.parent() == mount.id()))
            .copied()
    }

    /// All mounts stacked at `point`.
    pub fn all_at<'a>(&'a self, point: &Path) -> impl Iterator<Item = Mount<'a>> {
        // A trailing slash makes no other path.
        let point = point.components().as_path();
        let hash = index::hash(point.as_os_str().as_bytes());
        let candidates = self.points.candidates(hash).map(|position| Mount {
            table: self,
            line: &self.lines[position],
        });
        candidates.filter(move |mount| mount.point() == point)
    }

    /// All mounts of the filesystem `device`, whatever they show of it. Looks at every mount.
    ///
    /// A btrfs has an invented number, not that of its disk.
    pub fn with_device(&self, device: Device) -> impl Iterator<Item = Mount<'_>> {
        self.iter().filter(move |mount| mount.device() == device)
    }

    /// The mount with this number. Looks at every mount.
    pub fn with_id(&self, id: u64) -> Option<Mount<'_>> {
        self.iter().find(|mount| mount.id() == id)
    }

    /// All mounts at `directory` or below it. Looks at every mount.
    pub fn under<'a>(&'a self, directory: &Path) -> impl Iterator<Item = Mount<'a>> {
        self.iter()
            .filter(move |mount| mount.point().starts_with(directory))
    }

    fn bytes(&self, span: &Span) -> &[u8] {
        &self.text[span.start as usize..span.end as usize]
    }
}

impl fmt::Debug for MountTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// One mount of a [`MountTable`].
#[derive(Clone, Copy)]
pub struct Mount<'a> {
    table: &'a MountTable,
    line: &'a Line,
}

impl<'a> Mount<'a> {
    /// Its number; another mount may get it after an unmount.
    pub fn id(&self) -> u64 {
        self.line.id
    }

    /// The number of the mount it is mounted on.
    pub fn parent(&self) -> u64 {
        self.line.parent
    }

    /// The filesystem it shows.
    pub fn device(&self) -> Device {
        self.line.device
    }

    /// What it shows of the filesystem: `/` or, for a bind, a path in it. Of NFS see [`Mount::export`].
    pub fn root(&self) -> &'a Path {
        self.path(&self.line.root)
    }

    /// By NFS: what it shows, as a path from the server's root.
    ///
    /// The kernel's client has `/` as the root of each of its mounts and appends the path below the export to the source,
    /// with one slash more if the export is in the server's own root filesystem. A client by FUSE has the source that it was given, and the path as the root.
    pub fn export(&self) -> Option<PathBuf> {
        NFS.iter().find(|kind| self.kind() == **kind)?;
        let source = self.source().as_bytes();
        // No address has a slash; names of directories may have colons.
        let host = source.windows(2).position(|pair| pair == b":/")?;
        let export = Path::new(OsStr::from_bytes(&source[host + 1..]));
        let below = self.root().components().skip(1);
        Some(export.components().chain(below).collect())
    }

    /// What it shows, as a path that is the same for all mounts of one device that show the same.
    pub fn shown(&self) -> Cow<'a, Path> {
        match self.export() {
            Some(export) => Cow::Owned(export),
            None => Cow::Borrowed(self.root()),
        }
    }

    /// Whether what it shows has been removed from the filesystem.
    pub fn root_deleted(&self) -> bool {
        self.line.root_deleted
    }

    /// Where it is mounted.
    pub fn point(&self) -> &'a Path {
        self.path(&self.line.point)
    }

    /// The type of the filesystem, such as `ext4` or `fuse.name`.
    pub fn kind(&self) -> &'a OsStr {
        self.field(&self.line.kind)
    }

    /// What it was mounted from: the path of a disk, `server:/export`, any word.
    pub fn source(&self) -> &'a OsStr {
        self.field(&self.line.source)
    }

    /// Whether the mount has this option (`ro`, `nosuid` ...). The filesystem may have others.
    pub fn has_option(&self, option: &str) -> bool {
        has(self.table.bytes(&self.line.options), option)
    }

    /// Whether the filesystem behind the mount has this option.
    pub fn has_super_option(&self, option: &str) -> bool {
        has(self.table.bytes(&self.line.super_options), option)
    }

    /// The filesystem's options, separated by commas.
    pub fn super_options(&self) -> &'a OsStr {
        self.field(&self.line.super_options)
    }

    /// Whether nothing can be written through this mount, by its own option or the filesystem's.
    pub fn read_only(&self) -> bool {
        self.has_option("ro") || self.has_super_option("ro")
    }

    /// The group of mounts that share what is mounted below this one.
    pub fn peer_group(&self) -> Option<u64> {
        self.optional_field(b"shared:")
    }

    /// The group from which this mount takes over what is mounted below.
    pub fn master_group(&self) -> Option<u64> {
        self.optional_field(b"master:")
    }

    fn optional_field(&self, tag: &[u8]) -> Option<u64> {
        let fields = self.table.bytes(&self.line.optional_fields);
        let value = fields
            .split(|&byte| byte == b' ')
            .find_map(|field| field.strip_prefix(tag))?;
        str::from_utf8(value).ok()?.parse().ok()
    }

    fn field(&self, span: &Span) -> &'a OsStr {
        OsStr::from_bytes(self.table.bytes(span))
    }

    fn path(&self, span: &Span) -> &'a Path {
        Path::new(self.field(span))
    }
}

impl fmt::Debug for Mount<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mount")
            .field("id", &self.id())
            .field("parent", &self.parent())
            .field("device", &self.device().to_string())
            .field("root", &self.root())
            .field("point", &self.point())
            .field("kind", &self.kind())
            .field("source", &self.source())
            .finish_non_exhaustive()
    }
}

fn has(options: &[u8], option: &str) -> bool {
    options
        .split(|&byte| byte == b',')
        .any(|one| one == option.as_bytes())
}

#[cfg(test)]
mod tests;

//! Reading the table while others change it.
//!
//! The kernel hands the file out a page at a time and lets the table change in between. It also reports, by `poll` on
//! the open file, whether anything was mounted, unmounted or remounted since its last report. So a reading is
//! clean if nothing was reported after it, and a clean reading is good until something is reported: as long as nothing
//! happens, a look at the table costs one `poll`.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{MountInfoError, MountTable};

/// How often a clean reading is tried for before a reading is taken as it is.
const CLEAN_ATTEMPTS: usize = 4;

/// How often it is tried for on kernels where a reading cannot be taken as it is.
const OLD_KERNEL_ATTEMPTS: usize = 200;

/// Since Linux 5.8 a reading contains each mount that existed all the time, whatever came and went meanwhile. Before,
/// an unmount could make it skip another, innocent line.
const KEEPS_ITS_PLACE: (u32, u32) = (5, 8);

/// Reads the table of mounts and keeps the last one for as long as it is true.
///
/// What the kernel does not report is as old as the last change that it reported: the propagation of a mount, and options
/// that a filesystem changed by itself (an ext4 that went read-only after an error).
pub struct Reader {
    path: PathBuf,
    state: Mutex<Option<State>>,
}

struct State {
    file: File,
    table: Option<Arc<MountTable>>,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            path: PathBuf::from("/proc/self/mountinfo"),
            state: Mutex::new(None),
        }
    }
}

impl Reader {
    /// The table as it is now. Blocks for some milliseconds if there are thousands of mounts and one changed.
    pub fn table(&self) -> Result<Arc<MountTable>, MountInfoError> {
        // Callers queue here: the first reads, the others find that nothing changed since.
        let mut state = self.state.lock();
        let state = match &mut *state {
            Some(state) => state,
            none => none.insert(State::open(&self.path)?),
        };
        state.table()
    }
}

impl State {
    fn open(path: &Path) -> Result<Self, MountInfoError> {
        let file = File::open(path).map_err(MountInfoError::Unreadable)?;
        Ok(Self { file, table: None })
    }

    fn table(&mut self) -> Result<Arc<MountTable>, MountInfoError> {
        if self.changed()? {
            self.table = None;
        }
        if let Some(table) = &self.table {
            return Ok(Arc::clone(table));
        }
        for attempt in 1.. {
            let text = self.text().map_err(MountInfoError::Unreadable)?;
            let clean = !self.changed()?;
            if clean || attempt >= CLEAN_ATTEMPTS && kernel_keeps_its_place() {
                let table = Arc::new(MountTable::parse(text)?);
                self.table = clean.then(|| Arc::clone(&table));
                return Ok(table);
            }
            if attempt >= OLD_KERNEL_ATTEMPTS {
                break;
            }
        }
        Err(MountInfoError::Unstable {
            attempts: OLD_KERNEL_ATTEMPTS,
        })
    }

    fn text(&mut self) -> io::Result<Vec<u8>> {
        let mut text = Vec::with_capacity(32 * 1024);
        self.file.seek(SeekFrom::Start(0))?;
        self.file.read_to_end(&mut text)?;
        Ok(text)
    }

    /// Whether the kernel reports a change since its last report, or since the file was opened.
    fn changed(&self) -> Result<bool, MountInfoError> {
        let mut files = [PollFd::new(&self.file, PollFlags::PRI)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let told = rustix::io::retry_on_intr(|| poll(&mut files, Some(&now)));
        told.map_err(|errno| MountInfoError::Unreadable(errno.into()))?;
        Ok(files[0]
            .revents()
            .intersects(PollFlags::PRI | PollFlags::ERR))
    }
}

fn kernel_keeps_its_place() -> bool {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    let mut numbers = release
        .split(|letter: char| !letter.is_ascii_digit())
        .map(str::parse);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        return false;
    };
    (major, minor) >= KEEPS_ITS_PLACE
}

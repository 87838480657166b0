//! Where things are on disk: a cache that survives, and one directory per cluster that does not.

use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::{Doing, Result, refused};

/// Downloads, built binaries, image blobs, logs of verbs. Safe to delete, slow to make again.
pub fn cache() -> PathBuf {
    base("XDG_CACHE_HOME", ".cache")
}

/// One directory per cluster.
pub fn clusters() -> PathBuf {
    base("XDG_STATE_HOME", ".local/state").join("clusters")
}

/// The log of a verb of `./x`; begins empty with each run.
pub fn verb_log(verb: &str) -> Result<PathBuf> {
    let logs = cache().join("logs");
    make(&logs)?;
    let log = logs.join(format!("{verb}.log"));
    File::create(&log).doing(|| format!("cannot write log `{}`", log.display()))?;
    Ok(log)
}

/// Makes a directory and its parents.
pub fn make(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory)
        .doing(|| format!("cannot make directory `{}`", directory.display()))
}

/// Removes a tree. Called twice: the second call finds nothing and succeeds.
pub fn remove(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).doing(|| format!("cannot remove `{}`", directory.display()))
        }
        _ => Ok(()),
    }
}

/// Writes a file, readable by its owner only, so that a reader sees the old or the new content, never half of it.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    let what = || format!("cannot write `{}`", path.display());
    let mut next =
        tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new("/"))).doing(what)?;
    next.write_all(content.as_ref()).doing(what)?;
    next.persist(path)
        .map_err(|failed| failed.error)
        .doing(what)?;
    Ok(())
}

/// Held while a cluster or the cache is being changed; given back when dropped, also by `kill -9`.
pub struct Lock {
    _file: File,
}

/// Waits for the lock `name`, saying so once if somebody else holds it.
pub fn lock(name: &str, waiting: impl FnOnce()) -> Result<Lock> {
    let locks = cache().join("locks");
    make(&locks)?;
    let path = locks.join(name);
    let what = || format!("cannot lock `{}`", path.display());
    let file = File::create(&path).doing(what)?;
    if file.try_lock().is_err() {
        waiting();
        file.lock().doing(what)?;
    }
    Ok(Lock { _file: file })
}

/// A cluster name becomes a directory, a cgroup and part of messages: keep it plain.
pub fn check_cluster_name(name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > 20 || !name.chars().all(plain) || name.starts_with('-') {
        return refused(format!(
            "`{name}` is not a valid cluster name: use 1 to 20 of a-z, 0-9 and `-`, not beginning with `-`"
        ));
    }
    Ok(())
}

fn base(variable: &str, below_home: &str) -> PathBuf {
    let directory = match env::var_os(variable) {
        Some(set) if Path::new(&set).is_absolute() => PathBuf::from(set),
        _ => PathBuf::from(env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(below_home),
    };
    directory.join("stowage")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_names_are_plain() {
        for good in ["dev", "a", "test-2", "0"] {
            assert!(check_cluster_name(good).is_ok(), "{good}");
        }
        for bad in ["", "Dev", "../x", "a/b", "-a", "a b", &"x".repeat(21)] {
            assert!(check_cluster_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_written_file_is_whole_and_private() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret.json");
        write(&path, "one").unwrap();
        write(&path, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}

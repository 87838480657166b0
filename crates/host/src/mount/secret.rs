//! Mounting with options that nobody may see.
//!
//! Command lines are readable for the whole machine. So `mount(8)` gets type, source and options as a table of its own
//! (`--fstab`) in a file without a name, which only this process holds open.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{MemfdFlags, memfd_create};

use super::{AS_WRITTEN, FsMount, MountError};
use crate::exec::{Exec, ExecError, Invocation, Output, tools};

pub(super) async fn mount(
    exec: &dyn Exec,
    mount: &FsMount,
    secret_options: &str,
) -> Result<(), MountError> {
    let table = table(mount, secret_options).map_err(|source| MountError::Refusal {
        doing: "mount",
        target: mount.target.clone(),
        source,
    })?;
    let place = format!("/proc/{}/fd/{}", std::process::id(), table.as_raw_fd());
    let mut invocation = Invocation::new(tools::MOUNT);
    if mount.names_its_source() {
        invocation = invocation.arg(AS_WRITTEN);
    }
    let invocation = invocation
        .arg("--fstab")
        .arg(place)
        .arg("--")
        .arg(&mount.target)
        .timeout(mount.timeout)
        .until_gone();
    let done = exec.run(invocation).await.and_then(Output::checked);
    drop(table);
    done.map(|_| ()).map_err(|source| MountError::Helper {
        target: mount.target.clone(),
        source: without(source, secret_options),
    })
}

fn table(mount: &FsMount, secret_options: &str) -> io::Result<File> {
    let mut file = File::from(memfd_create("mount", MemfdFlags::CLOEXEC)?);
    file.write_all(line(mount, secret_options).as_bytes())?;
    Ok(file)
}

fn line(mount: &FsMount, secret_options: &str) -> String {
    let mut options = mount.options.clone();
    options.push(secret_options.to_owned());
    let options = options.join(",");
    let fields = [
        mount.source.as_os_str(),
        mount.target.as_os_str(),
        OsStr::new(&mount.kind),
        OsStr::new(&options),
    ];
    let fields: Vec<_> = fields
        .iter()
        .map(|field| escape(field.as_bytes()))
        .collect();
    format!("{} 0 0\n", fields.join(" "))
}

/// What would end a field, a line or make a comment is an octal number. Any other byte may stay, but not all bytes are
/// text.
fn escape(field: &[u8]) -> String {
    let mut text = String::new();
    for &byte in field {
        match byte {
            b'!'..=b'~' if !matches!(byte, b'#' | b'\\') => text.push(char::from(byte)),
            // Writing to a string cannot fail.
            byte => drop(write!(text, "\\{byte:03o}")),
        }
    }
    text
}

/// A helper may repeat its options when it complains.
fn without(error: ExecError, secret: &str) -> ExecError {
    let values = secret
        .split(',')
        .filter_map(|option| Some(option.split_once('=')?.1));
    match error {
        ExecError::Failure { tool, exit, said } => ExecError::Failure {
            tool,
            exit,
            said: values
                .filter(|value| !value.is_empty())
                .fold(said, |said, value| said.replace(value, "***")),
        },
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;
    use crate::exec::{Exit, FakeExec};

    fn wekafs() -> FsMount {
        FsMount {
            kind: "wekafs".to_owned(),
            source: "my fs#1".into(),
            target: PathBuf::from("/mnt/a b"),
            options: vec!["acl".to_owned(), "writecache".to_owned()],
            timeout: Duration::from_secs(5),
        }
    }

    #[test]
    fn a_table_has_one_line_with_everything() {
        assert_eq!(
            line(&wekafs(), "token=abc"),
            "my\\040fs\\0431 /mnt/a\\040b wekafs acl,writecache,token=abc 0 0\n"
        );
    }

    #[tokio::test]
    async fn a_secret_is_in_the_table_and_neither_in_arguments_nor_in_errors() {
        let exec = FakeExec::new().with_answer(tools::MOUNT, |call| {
            let table = call.arguments()[2].clone();
            let text = std::fs::read_to_string(table).unwrap();
            assert!(text.ends_with(",token=s3cret 0 0\n"), "{text}");
            Ok(Output {
                stderr: b"mount.wekafs: bad option token=s3cret".to_vec(),
                exit: Exit::Code(32),
                ..Output::exited(tools::MOUNT, 0)
            })
        });
        let error = mount(&exec, &wekafs(), "token=s3cret").await.unwrap_err();
        let shown = format!("{error:?} {:?}", exec.calls());
        assert!(shown.contains("bad option token=***"), "{shown}");
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}

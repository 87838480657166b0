//! The files in which open-iscsi keeps the settings of sessions: `<records>/<target>/<ip>,<port>,<group>/<interface>`.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use stowage_host::blocking;

use super::session::Session;

/// Settings as the file has them: name and value. It has no `Debug`: a value may be a secret.
pub(super) type Settings = Vec<(&'static str, String)>;

/// Writes settings of a session. Called twice: the file says so.
pub(super) async fn write(records: &Path, session: &Session, settings: Settings) -> io::Result<()> {
    let (records, session) = (records.to_owned(), session.clone());
    blocking(move || {
        let file = find(&records.join(&session.target), &session)?;
        let text = fs::read_to_string(&file)?;
        // Where nobody takes it for a record, should this be the last that we do.
        let next = format!(".{},{}.stowage", session.target, session.portal);
        let next = records.join(next);
        let mut written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&next)?;
        written.write_all(with(&text, &settings).as_bytes())?;
        written.sync_all()?;
        fs::rename(next, file)
    })
    .await
}

/// The sessions that there are settings of, with or without a session.
pub(super) async fn all(records: &Path) -> Vec<Session> {
    let records = records.to_owned();
    blocking(move || {
        let mut sessions = Vec::new();
        for target in names(&records) {
            for portal in names(&records.join(&target)) {
                let mut parts = portal.split(',');
                let (Some(address), Some(port)) = (parts.next(), parts.next()) else {
                    continue;
                };
                let address = if address.contains(':') {
                    format!("[{address}]:{port}")
                } else {
                    format!("{address}:{port}")
                };
                for interface in names(&records.join(&target).join(&portal)) {
                    sessions.push(Session {
                        target: target.clone(),
                        portal: address.clone(),
                        interface,
                    });
                }
            }
        }
        sessions
    })
    .await
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// The file of a session; that of its portal with older versions.
fn find(portals: &Path, session: &Session) -> io::Result<PathBuf> {
    let portal = session.portal.as_str();
    let (address, port) = portal.rsplit_once(':').unwrap_or((portal, ""));
    let start = format!("{},{port},", address.trim_matches(['[', ']']));
    for entry in fs::read_dir(portals)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&start) {
            let path = entry.path();
            return Ok(if path.is_dir() {
                path.join(&session.interface)
            } else {
                path
            });
        }
    }
    Err(io::Error::new(
        io::ErrorKind::NotFound,
        format!(
            "{} has no record that begins with {start}",
            portals.display()
        ),
    ))
}

/// The text with these settings in place of others, before the line that ends the record.
fn with(text: &str, settings: &[(&'static str, String)]) -> String {
    let names = settings.iter().map(|(name, _)| format!("{name} "));
    let replaced: Vec<String> = names.collect();
    let is_kept = |line: &&str| !replaced.iter().any(|name| line.starts_with(name.as_str()));
    let is_end = |line: &&str| line.starts_with("# END");
    let lines: Vec<&str> = text.lines().filter(is_kept).collect();
    let (end, kept): (Vec<&str>, Vec<&str>) = lines.into_iter().partition(is_end);
    let own = settings.iter();
    let own: Vec<String> = own
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    let own = own.iter().map(String::as_str);
    kept.into_iter()
        .chain(own)
        .chain(end)
        .flat_map(|line| [line, "\n"])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_secret_replaces_the_one_before_and_nobody_else_can_read_it() {
        use std::os::unix::fs::PermissionsExt as _;

        let records = tempfile::tempdir().unwrap();
        let portal = records.path().join("iqn.a/10.0.0.1,3260,1");
        fs::create_dir_all(&portal).unwrap();
        let file = portal.join("zadara_10.0.0.1");
        let before = "# BEGIN RECORD 2.1\nnode.startup = manual\nnode.session.auth.password = none\n# END RECORD\n";
        fs::write(&file, before).unwrap();
        let session = Session::new("iqn.a", "10.0.0.1");
        for secret in ["one", "two", "two"] {
            let settings = vec![("node.session.auth.password", secret.to_owned())];
            write(records.path(), &session, settings).await.unwrap();
        }
        assert_eq!(
            fs::read_to_string(&file).unwrap(),
            "# BEGIN RECORD 2.1\nnode.startup = manual\nnode.session.auth.password = two\n# END RECORD\n"
        );
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(all(records.path()).await, [session]);
        let other = Session::new("iqn.a", "10.0.0.2");
        let missing = write(records.path(), &other, Vec::new()).await;
        assert!(missing.unwrap_err().to_string().contains("10.0.0.2,3260,"));
    }
}

//! The files in which open-iscsi keeps the settings of sessions.
//!
//! Which they are depends on its version and on what was there before (`idbm_rec_write` of its `usr/idbm.c`):
//! - `<records>/<target>/<ip>,<port>` where nobody said the group of the portal, as we do not: the interface is inside;
//! - `<records>/<target>/<ip>,<port>,<group>/<interface>` after a discovery, and from 2.1.9 on also beside one
//!   (`idbm_rec_write_old` there);
//! - `<records>/<target>/<ip>,<port>,<group>` as a file, with the interface inside, from long ago.
//!
//! There may be several of one session, and a login goes through all (`idbm_for_each_iface`), so all are written.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use stowage_host::blocking;

use super::session::Session;

/// Settings as the file has them: name and value. It has no `Debug`: a value may be a secret.
pub(super) type Settings = Vec<(&'static str, String)>;

/// In a record: the interface of its session.
const INTERFACE: &str = "iface.iscsi_ifacename";

/// A record of a session.
struct Record {
    session: Session,
    file: PathBuf,
}

/// Writes settings of a session. Called twice: the files say so.
pub(super) async fn write(records: &Path, session: &Session, settings: Settings) -> io::Result<()> {
    let (records, session) = (records.to_owned(), session.clone());
    blocking(move || {
        let of_target = of_target(&records, &session.target);
        let mut files = of_target.into_iter().filter(|it| it.session == session);
        let first = files.next().ok_or_else(|| missing(&records, &session))?;
        for Record { file, .. } in [first].into_iter().chain(files) {
            // Where nobody takes it for a record, should this be the last that we do.
            let next = format!(".{},{}.stowage", session.target, session.portal);
            write_at(&file, &records.join(next), &settings)?;
        }
        Ok(())
    })
    .await
}

/// Writes settings into a file, as a whole or not at all; `next` is where it begins.
fn write_at(file: &Path, next: &Path, settings: &Settings) -> io::Result<()> {
    let text = fs::read_to_string(file)?;
    let mut written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(next)?;
    written.write_all(with(&text, settings).as_bytes())?;
    written.sync_all()?;
    fs::rename(next, file)
}

fn missing(records: &Path, session: &Session) -> io::Error {
    let text = format!(
        "{} has no record of {} through interface {}",
        records.join(&session.target).display(),
        session.portal,
        session.interface
    );
    io::Error::new(io::ErrorKind::NotFound, text)
}

/// The sessions that there are settings of, with or without a session.
pub(super) async fn all(records: &Path) -> Vec<Session> {
    let records = records.to_owned();
    blocking(move || {
        let targets = names(&records).into_iter();
        let all = targets.flat_map(|target| of_target(&records, &target));
        all.map(|record| record.session).collect()
    })
    .await
}

/// The records of a target.
fn of_target(records: &Path, target: &str) -> Vec<Record> {
    let directory = records.join(target);
    let mut found = Vec::new();
    for name in names(&directory) {
        let Some(portal) = portal(&name) else {
            continue;
        };
        let place = directory.join(name);
        let mut add = |interface, file| {
            let (target, portal) = (target.to_owned(), portal.clone());
            let session = Session {
                target,
                portal,
                interface,
            };
            found.push(Record { session, file });
        };
        if place.is_dir() {
            for interface in names(&place) {
                let file = place.join(&interface);
                add(interface, file);
            }
        } else if let Ok(text) = fs::read_to_string(&place)
            && let Some(interface) = setting(&text, INTERFACE)
        {
            add(interface.to_owned(), place);
        }
    }
    found
}

/// `10.0.0.1:3260` of `10.0.0.1,3260` and of `10.0.0.1,3260,1`.
fn portal(name: &str) -> Option<String> {
    let mut parts = name.split(',');
    let (address, port) = (parts.next()?, parts.next()?);
    port.parse::<u16>().ok()?;
    Some(if address.contains(':') {
        format!("[{address}]:{port}")
    } else {
        format!("{address}:{port}")
    })
}

/// What a record says of something.
fn setting<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut settings = text.lines().filter_map(|line| line.split_once(" = "));
    let (_, value) = settings.find(|(its, _)| *its == name)?;
    Some(value.trim())
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
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
        assert!(missing.unwrap_err().to_string().contains("10.0.0.2:3260"));
    }

    /// What Debian's `iscsiadm` (2.1.8) wrote for `-m node -T iqn.x:y -p 127.0.0.1:3260 -I zadara_127.0.0.1 -o new`, shortened,
    /// and on a host whose `iscsid.conf` says `node.startup = automatic`.
    const WRITTEN: &str = "\
# BEGIN RECORD 2.1.8
node.name = iqn.x:y
node.tpgt = -1
node.startup = automatic
node.leading_login = No
iface.iscsi_ifacename = zadara_127.0.0.1
iface.prefix_len = 0
iface.transport_name = tcp
node.discovery_type = static
node.session.auth.authmethod = None
node.session.auth.chap_algs = MD5
node.session.timeo.replacement_timeout = 120
node.conn[0].address = 127.0.0.1
node.conn[0].port = 3260
# END RECORD
";

    #[tokio::test]
    async fn a_record_is_found_wherever_a_version_of_open_iscsi_puts_it_and_nobody_elses_is_touched()
     {
        let session = Session::new("iqn.x:y", "127.0.0.1");
        for ours in [
            &["127.0.0.1,3260"][..],
            &["127.0.0.1,3260,1/zadara_127.0.0.1"],
            &["127.0.0.1,3260,1"],
            &["127.0.0.1,3260", "127.0.0.1,3260,4/zadara_127.0.0.1"],
        ] {
            let records = tempfile::tempdir().unwrap();
            let target = records.path().join("iqn.x:y");
            let put = |name: &str, text: &str| {
                let file = target.join(name);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, text).unwrap();
            };
            for name in ours {
                put(name, WRITTEN);
            }
            let others = [
                "127.0.0.1,32600",
                "127.0.0.1,860,1/zadara_127.0.0.1",
                "127.0.0.1,3260,7/default",
            ];
            for name in others {
                put(name, WRITTEN);
            }
            let settings = vec![("node.startup", "manual".to_owned())];
            write(records.path(), &session, settings).await.unwrap();
            let text = |name: &str| fs::read_to_string(target.join(name)).unwrap();
            for name in ours {
                assert_eq!(
                    setting(&text(name), "node.startup"),
                    Some("manual"),
                    "{name}"
                );
                assert_eq!(text(name).lines().count(), WRITTEN.lines().count());
            }
            for name in others {
                assert_eq!(text(name), WRITTEN, "{name}");
            }
            let found = all(records.path()).await;
            let is_ours = |it: &&Session| **it == session;
            assert_eq!(
                found.iter().filter(is_ours).count(),
                ours.len(),
                "{found:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_flat_record_of_another_interface_is_not_ours() {
        let records = tempfile::tempdir().unwrap();
        let target = records.path().join("iqn.x:y");
        fs::create_dir_all(&target).unwrap();
        let other = WRITTEN.replace("zadara_127.0.0.1", "default");
        fs::write(target.join("127.0.0.1,3260"), &other).unwrap();
        let session = Session::new("iqn.x:y", "127.0.0.1");
        let settings = vec![("node.startup", "manual".to_owned())];
        let refused = write(records.path(), &session, settings).await.unwrap_err();
        assert!(
            refused.to_string().contains("interface zadara_127.0.0.1"),
            "{refused}"
        );
        assert_eq!(
            fs::read_to_string(target.join("127.0.0.1,3260")).unwrap(),
            other
        );
    }
}

//! The files in which open-iscsi keeps what it knows of targets, `<records>/<target>/<ip>,<port>,1/<interface>`, and of
//! interfaces, `<records>/../ifaces/<interface>`.
//!
//! A line per setting, `name = value`. Only root can read them: they hold secrets. Drivers may write secrets here so that
//! they are on no command line.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::command::{DEFAULT_INTERFACE, Place, Which};

/// What a new record says.
const DEFAULTS: &[(&str, &str)] = &[
    ("node.tpgt", "1"),
    ("node.startup", "manual"),
    ("node.session.auth.authmethod", "None"),
    ("node.session.timeo.replacement_timeout", "120"),
];

/// All records.
#[derive(Debug)]
pub struct Records {
    directory: PathBuf,
    interfaces: PathBuf,
    /// Held while a record is written or removed, as open-iscsi locks its database: commands for two portals of one target may
    /// run at the same time.
    changing: Mutex<()>,
}

/// The settings of one record. It has no `Debug`: one is a secret.
#[derive(Clone, Default)]
pub struct Record(BTreeMap<String, String>);

impl Record {
    /// A setting, if it is there and says something.
    pub fn get(&self, name: &str) -> Option<&str> {
        let value = self.0.get(name).map(String::as_str);
        value.filter(|value| !value.is_empty() && *value != "<empty>")
    }

    /// Changes a setting.
    pub fn set(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_owned(), value.to_owned());
    }

    /// User and secret, if it says that the target asks for them.
    pub fn chap(&self) -> Option<(String, String)> {
        if self.get("node.session.auth.authmethod") != Some("CHAP") {
            return None;
        }
        let value = |name| self.get(name).unwrap_or_default().to_owned();
        let user = value("node.session.auth.username");
        Some((user, value("node.session.auth.password")))
    }

    /// As `-o show` prints it: without secrets.
    pub fn shown(&self) -> String {
        let mut text = "# BEGIN RECORD 2.1\n".to_owned();
        for (name, value) in &self.0 {
            let value = if name.contains("password") {
                "********"
            } else {
                value
            };
            text.push_str(&format!("{name} = {value}\n"));
        }
        text.push_str("# END RECORD\n");
        text
    }
}

impl Records {
    /// Those in a directory.
    pub fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            interfaces: directory.with_file_name("ifaces"),
            changing: Mutex::default(),
        }
    }

    /// Makes an interface. Called twice: it is there.
    pub fn make_interface(&self, name: &str) -> io::Result<()> {
        fs::create_dir_all(&self.interfaces)?;
        let text = format!("iface.iscsi_ifacename = {name}\niface.transport_name = tcp\n");
        fs::write(self.interfaces.join(name), text)
    }

    /// Removes an interface; whether there was one.
    pub fn remove_interface(&self, name: &str) -> bool {
        fs::remove_file(self.interfaces.join(name)).is_ok()
    }

    /// Whether there is such an interface.
    pub fn has_interface(&self, name: &str) -> bool {
        name == DEFAULT_INTERFACE || self.interfaces.join(name).exists()
    }

    /// The places that have records, of those that are asked for.
    pub fn places(&self, which: &Which) -> Vec<Place> {
        let mut places = Vec::new();
        for target in entries(&self.directory) {
            for name in entries(&self.directory.join(&target)) {
                let Some(portal) = parse_portal(&name) else {
                    continue;
                };
                let interfaces = entries(&self.directory.join(&target).join(name));
                let place = |interface| Place {
                    target: target.clone(),
                    portal,
                    interface,
                };
                places.extend(interfaces.into_iter().map(place));
            }
        }
        places.retain(|place| which.includes(place));
        places.sort();
        places
    }

    /// A record.
    pub fn read(&self, place: &Place) -> io::Result<Record> {
        let text = fs::read_to_string(self.file(place))?;
        let settings = text.lines().filter(|line| !line.starts_with('#'));
        let settings = settings.filter_map(|line| line.split_once(" = "));
        Ok(Record(
            settings
                .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
                .collect(),
        ))
    }

    /// Makes a record with what is always the same. Called twice: it is as new again, as with open-iscsi.
    pub fn make(&self, place: &Place) -> io::Result<()> {
        let mut record = Record::default();
        for (name, value) in DEFAULTS {
            record.set(name, value);
        }
        record.set("node.name", &place.target);
        record.set("iface.iscsi_ifacename", &place.interface);
        record.set("node.conn[0].address", &place.portal.ip().to_string());
        record.set("node.conn[0].port", &place.portal.port().to_string());
        self.write(place, &record)
    }

    /// Writes a record, as a whole or not at all.
    pub fn write(&self, place: &Place, record: &Record) -> io::Result<()> {
        let _alone = self.changing.lock();
        let file = self.file(place);
        if let Some(directory) = file.parent() {
            fs::create_dir_all(directory)?;
        }
        // Beside its portal, where nobody takes it for an interface.
        let next = self.directory.join(format!("{}.new", place.target));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut written = options.open(&next)?;
        for (name, value) in &record.0 {
            writeln!(written, "{name} = {value}")?;
        }
        fs::rename(next, file)
    }

    /// Removes a record. Called twice: it is gone.
    pub fn remove(&self, place: &Place) -> io::Result<()> {
        let _alone = self.changing.lock();
        let directory = self.directory.join(&place.target);
        match fs::remove_file(self.file(place)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Others may have a record at another portal, or through another interface.
        let _ = fs::remove_dir(directory.join(portal_name(place.portal)));
        let _ = fs::remove_dir(directory);
        Ok(())
    }

    fn file(&self, place: &Place) -> PathBuf {
        let target = self.directory.join(&place.target);
        target
            .join(portal_name(place.portal))
            .join(&place.interface)
    }
}

fn entries(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect()
}

fn portal_name(portal: SocketAddr) -> String {
    format!("{},{},1", portal.ip(), portal.port())
}

fn parse_portal(name: &str) -> Option<SocketAddr> {
    let mut parts = name.split(',');
    let (ip, port) = (parts.next()?, parts.next()?);
    Some(SocketAddr::new(ip.parse().ok()?, port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::{slice, thread};

    use super::*;

    #[test]
    fn records_are_files_that_only_root_reads_and_show_no_secret() {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::new(directory.path());
        let place = Place {
            target: "iqn.a".to_owned(),
            portal: "[fd00::1]:3260".parse().unwrap(),
            interface: "nic".to_owned(),
        };
        records.make(&place).unwrap();
        assert_eq!(records.places(&Which::default()), slice::from_ref(&place));
        let mut record = records.read(&place).unwrap();
        assert!(record.chap().is_none());
        record.set("node.session.auth.authmethod", "CHAP");
        record.set("node.session.auth.username", "user");
        record.set("node.session.auth.password", "very-secret");
        records.write(&place, &record).unwrap();
        let record = records.read(&place).unwrap();
        assert_eq!(record.chap().unwrap().1, "very-secret");
        assert!(!record.shown().contains("very-secret"));
        let file = directory.path().join("iqn.a/fd00::1,3260,1/nic");
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        records.remove(&place).unwrap();
        records.remove(&place).unwrap();
        assert!(entries(directory.path()).is_empty());
    }

    #[test]
    fn two_portals_of_a_target_are_recorded_at_the_same_time() {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::new(directory.path());
        thread::scope(|scope| {
            for portal in ["10.0.0.1:3260", "10.0.0.2:3260"] {
                let place = Place {
                    target: "iqn.a".to_owned(),
                    portal: portal.parse().unwrap(),
                    interface: "nic".to_owned(),
                };
                let records = &records;
                scope.spawn(move || {
                    for _ in 0..500 {
                        records.make(&place).unwrap();
                        let address = place.portal.ip().to_string();
                        let record = records.read(&place).unwrap();
                        assert_eq!(record.get("node.conn[0].address"), Some(address.as_str()));
                        records.remove(&place).unwrap();
                    }
                });
            }
        });
        assert!(entries(directory.path()).is_empty());
    }
}

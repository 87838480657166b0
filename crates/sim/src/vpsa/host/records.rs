//! The files in which open-iscsi keeps what it knows of targets, and of interfaces, `<records>/../ifaces/<interface>`.
//!
//! As Debian's 2.1.8 has them: `<records>/<target>/<ip>,<port>,<group>/<interface>` if the group of the portal was said, as by a
//! discovery; `<records>/<target>/<ip>,<port>` if not. The latter is one for all interfaces, the last of which is inside.
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
    ("node.startup", "manual"),
    ("node.session.auth.authmethod", "None"),
    ("node.session.timeo.replacement_timeout", "120"),
];

/// In a record: the interface of its session.
const INTERFACE: &str = "iface.iscsi_ifacename";

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
                let file = self.directory.join(&target).join(name);
                let interfaces = match read(&file) {
                    Ok(record) => record
                        .get(INTERFACE)
                        .map(str::to_owned)
                        .into_iter()
                        .collect(),
                    Err(_) => entries(&file),
                };
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
        places.dedup();
        places
    }

    /// A record.
    pub fn read(&self, place: &Place) -> io::Result<Record> {
        read(&self.find(place)?)
    }

    /// Makes a record with what is always the same. Called twice: it is as new again, as with open-iscsi.
    pub fn make(&self, place: &Place, group: Option<u16>) -> io::Result<()> {
        let mut record = Record::default();
        for (name, value) in DEFAULTS {
            record.set(name, value);
        }
        record.set("node.name", &place.target);
        record.set("node.tpgt", &group.map_or(-1, i32::from).to_string());
        record.set(INTERFACE, &place.interface);
        record.set("node.conn[0].address", &place.portal.ip().to_string());
        record.set("node.conn[0].port", &place.portal.port().to_string());
        let flat = self.flat(place);
        let file = match group {
            Some(group) => {
                // It takes the place of the one without.
                let _ = fs::remove_file(&flat);
                self.grouped(place, group)
            }
            None => flat,
        };
        self.write_at(&file, place, &record)
    }

    /// Writes a record, as a whole or not at all.
    pub fn write(&self, place: &Place, record: &Record) -> io::Result<()> {
        self.write_at(&self.find(place)?, place, record)
    }

    fn write_at(&self, file: &Path, place: &Place, record: &Record) -> io::Result<()> {
        let _alone = self.changing.lock();
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
        while let Ok(file) = self.find(place) {
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            // Others may have a record at another portal, or through another interface.
            let target = self.directory.join(&place.target);
            for directory in file
                .ancestors()
                .skip(1)
                .take_while(|it| it.starts_with(&target))
            {
                let _ = fs::remove_dir(directory);
            }
        }
        Ok(())
    }

    /// The file of a record; the one without a group first, as open-iscsi looks for them.
    fn find(&self, place: &Place) -> io::Result<PathBuf> {
        let flat = self.flat(place);
        let is_ours = |record: Record| record.get(INTERFACE) == Some(place.interface.as_str());
        if read(&flat).is_ok_and(is_ours) {
            return Ok(flat);
        }
        let target = self.directory.join(&place.target);
        let portals = entries(&target).into_iter();
        let mut of_portal = portals.filter(|name| parse_portal(name) == Some(place.portal));
        let file = of_portal.find_map(|name| {
            Some(target.join(name).join(&place.interface)).filter(|it| it.is_file())
        });
        file.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn flat(&self, place: &Place) -> PathBuf {
        let (ip, port) = (place.portal.ip(), place.portal.port());
        let target = self.directory.join(&place.target);
        target.join(format!("{ip},{port}"))
    }

    fn grouped(&self, place: &Place, group: u16) -> PathBuf {
        let (ip, port) = (place.portal.ip(), place.portal.port());
        let target = self.directory.join(&place.target);
        target
            .join(format!("{ip},{port},{group}"))
            .join(&place.interface)
    }
}

fn read(file: &Path) -> io::Result<Record> {
    let text = fs::read_to_string(file)?;
    let settings = text.lines().filter(|line| !line.starts_with('#'));
    let settings = settings.filter_map(|line| line.split_once(" = "));
    Ok(Record(
        settings
            .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
            .collect(),
    ))
}

fn entries(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect()
}

fn parse_portal(name: &str) -> Option<SocketAddr> {
    let mut parts = name.split(',');
    let (ip, port) = (parts.next()?, parts.next()?);
    Some(SocketAddr::new(ip.parse().ok()?, port.parse().ok()?))
}

#[cfg(test)]
mod tests;

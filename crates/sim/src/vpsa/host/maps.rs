//! What `multipathd` does: a disk that several sessions lead to gets a device of its own, by which it is reached as long as one
//! of them works.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::{fs, io};

use parking_lot::Mutex;

use super::HostOptions;
use super::devices::{Device, Devices};
use super::disk::{Disk, Path};
use super::initiator::Printed;

/// One path to a disk.
#[derive(Clone, Copy)]
pub struct Way<'a> {
    /// What tells the disk from all others.
    pub wwid: &'a str,
    /// The disk by this path alone.
    pub disk: &'a Disk,
    /// The device of this path.
    pub device: &'a Device,
    /// It cannot be written.
    pub read_only: bool,
}

/// Disks with several paths. Without a directory for them nothing is made: no `multipathd` runs.
pub struct Maps {
    devices: Arc<Devices>,
    directory: Option<PathBuf>,
    known: Mutex<BTreeMap<String, Map>>,
}

/// A disk with several paths.
struct Map {
    name: String,
    disk: Arc<Disk>,
    device: Device,
}

impl Maps {
    /// Begins with nothing.
    pub fn start(options: &HostOptions, devices: Arc<Devices>) -> io::Result<Self> {
        if let Some(directory) = &options.mapper {
            fs::create_dir_all(directory)?;
        }
        Ok(Self {
            devices,
            directory: options.mapper.clone(),
            known: Mutex::default(),
        })
    }

    /// Paths came or went. A disk gets a device with its second path, and loses it with its last.
    pub fn follow(&self, ways: &[Way<'_>]) {
        let Some(directory) = &self.directory else {
            return;
        };
        let mut disks: BTreeMap<&str, Vec<Way<'_>>> = BTreeMap::new();
        for way in ways {
            disks.entry(way.wwid).or_default().push(*way);
        }
        let mut known = self.known.lock();
        let gone: Vec<String> = known
            .keys()
            .filter(|wwid| !disks.contains_key(wwid.as_str()))
            .cloned()
            .collect();
        for wwid in gone {
            if let Some(map) = known.remove(&wwid) {
                self.devices.let_go(map.device);
            }
        }
        for (wwid, ways) in disks {
            let paths: Vec<Path> = ways.iter().flat_map(|way| way.disk.paths()).collect();
            match known.get(wwid) {
                Some(map) => map.disk.set_paths(paths),
                None if ways.len() > 1 => {
                    let read_only = ways.iter().any(|way| way.read_only);
                    match self.make(directory.join(wwid), paths, read_only) {
                        Ok(map) => drop(known.insert(wwid.to_owned(), map)),
                        Err(error) => tracing::warn!(%error, wwid, "A disk has no map."),
                    }
                }
                None => {}
            }
        }
    }

    /// Takes all devices away, as when a machine stops.
    pub fn remove_all(&self) {
        for (_, map) in std::mem::take(&mut *self.known.lock()) {
            self.devices.remove(map.device);
        }
    }

    fn make(&self, link: PathBuf, paths: Vec<Path>, read_only: bool) -> io::Result<Map> {
        let name = link.file_name().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        let disk = Arc::new(Disk::by(paths));
        disk.rescan()?;
        let device = self.devices.add(Arc::clone(&disk), read_only, link)?;
        Ok(Map { name, disk, device })
    }

    /// Runs `multipath` or `multipathd`, whose languages have nothing in common.
    pub fn run(&self, arguments: &[String], ways: &[Way<'_>]) -> Printed {
        if self.directory.is_none() {
            return Printed::failed(1, "error -1 receiving packet");
        }
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["show", "paths", "raw", "format", format] => self.show(ways, format),
            ["resize", "map", name] => self.resize(name),
            ["-f", name] => self.flush(name),
            _ => Printed::failed(1, format!("`{}` is not simulated", words.join(" "))),
        }
    }

    /// A line for each path, as the format says: `%d` its device, `%m` its map, `%t` whether it works.
    fn show(&self, ways: &[Way<'_>], format: &str) -> Printed {
        let known = self.known.lock();
        let line = |way: &Way<'_>| {
            let map = known.get(way.wwid).map_or("[orphan]", |map| &map.name);
            let works = way.disk.paths().iter().all(Path::works);
            let line = format
                .replace("%d", &way.device.name())
                .replace("%m", map)
                .replace("%t", if works { "active" } else { "failed" });
            line + "\n"
        };
        Printed::said(ways.iter().map(line).collect())
    }

    fn resize(&self, name: &str) -> Printed {
        let known = self.known.lock();
        let mut maps = known.values().filter(|map| map.name == name);
        match maps.next().map(|map| self.devices.refresh(&map.device)) {
            Some(Ok(())) => Printed::said("ok\n".to_owned()),
            _ => Printed::said("fail\n".to_owned()),
        }
    }

    fn flush(&self, name: &str) -> Printed {
        let mut known = self.known.lock();
        let mut maps = known.iter().filter(|(_, map)| map.name == name);
        let Some((wwid, map)) = maps.next() else {
            return Printed::failed(1, format!("{name} is not a valid multipath map"));
        };
        if self.devices.is_used(&map.device) {
            return Printed::failed(1, format!("{name}: map in use"));
        }
        let wwid = wwid.clone();
        if let Some(map) = known.remove(&wwid) {
            self.devices.let_go(map.device);
        }
        Printed::default()
    }
}

//! Sessions: log in, find disks, log out; as `iscsiadm` says it, with its exit codes.

mod printed;
mod units;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;

pub use self::printed::Printed;
use self::printed::{code, refused};
use self::units::Units;
use super::HostOptions;
use super::command::{Command, Place, Which};
use super::disk::Link;
use super::records::{Record, Records};
use crate::iscsi::initiator::{Login, discover};

/// The initiator of a node.
pub struct Initiator {
    name: PathBuf,
    source: Option<IpAddr>,
    records: Records,
    runtime: Handle,
    /// Held for as long as a command runs: one at a time.
    sessions: Mutex<Sessions>,
    units: Units,
}

#[derive(Default)]
struct Sessions {
    last: u32,
    active: BTreeMap<u32, Active>,
}

struct Active {
    place: Place,
    link: Arc<Link>,
    units: units::Found,
}

impl std::fmt::Debug for Initiator {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Initiator").finish_non_exhaustive()
    }
}

impl Initiator {
    /// An initiator without sessions.
    pub fn start(options: &HostOptions, runtime: Handle) -> io::Result<Self> {
        Ok(Self {
            name: options.initiator_name.clone(),
            source: options.ip,
            records: Records::new(&options.records),
            runtime,
            sessions: Mutex::default(),
            units: Units::start(options)?,
        })
    }

    /// Ends all sessions without a word to the targets, and lets disks go.
    pub fn let_go(&self) {
        let mut sessions = self.sessions.lock();
        for (_, active) in std::mem::take(&mut sessions.active) {
            self.units.remove_all(&active.place, active.units);
        }
    }

    /// Runs one command; blocks.
    pub fn run(&self, arguments: &[String]) -> Printed {
        let command = match Command::parse(arguments) {
            Ok(command) => command,
            Err(error) => return Printed::failed(code::INVALID, error),
        };
        let done = match command {
            Command::Version => Ok(Printed::said("iscsiadm version 2.1.8\n".to_owned())),
            Command::Discover(portal) => Ok(self.discover(portal)),
            Command::New(place) => self.records.make(&place).map(|()| {
                let (target, portal) = (&place.target, place.portal);
                Printed::said(format!("New iSCSI node [tcp:[hw=,ip=,net_if=,iscsi_if=default] {portal},1 {target}] added\n"))
            }),
            Command::Delete(which) => self.each(&which, |place| self.records.remove(place)),
            Command::Update { which, name, value } => self.each(&which, |place| {
                let mut record = self.records.read(place)?;
                record.set(&name, &value);
                self.records.write(place, &record)
            }),
            Command::Show(which) => self.show(&which),
            Command::LogIn(which) => Ok(self.log_in_all(&which)),
            Command::LogOut(which) => Ok(self.log_out(&which)),
            Command::Rescan(which) => self.rescan(&which),
            Command::Sessions(which) => Ok(self.list(&which)),
        };
        done.unwrap_or_else(|error| Printed::failed(code::FAILED, format!("iscsiadm: {error}")))
    }

    /// `InitiatorName=iqn...` of the file.
    fn name(&self) -> Option<String> {
        let text = std::fs::read_to_string(&self.name).ok()?;
        let mut names = text
            .lines()
            .filter_map(|line| line.strip_prefix("InitiatorName="));
        names.next().map(|name| name.trim().to_owned())
    }

    fn each(&self, which: &Which, work: impl Fn(&Place) -> io::Result<()>) -> io::Result<Printed> {
        let places = self.records.places(which);
        if places.is_empty() {
            return Ok(Printed::failed(
                code::NOT_FOUND,
                "iscsiadm: No records found",
            ));
        }
        for place in places {
            work(&place)?;
        }
        Ok(Printed::default())
    }

    fn show(&self, which: &Which) -> io::Result<Printed> {
        let places = self.records.places(which);
        let one = which.target.is_some() && which.portal.is_some();
        match places.as_slice() {
            [] => Ok(Printed::failed(
                code::NOT_FOUND,
                "iscsiadm: No records found",
            )),
            [place] if one => Ok(Printed::said(self.records.read(place)?.shown())),
            several => Ok(Printed::said(lines(
                several.iter().map(|it| (it.portal, &it.target)),
            ))),
        }
    }

    fn discover(&self, portal: std::net::SocketAddr) -> Printed {
        let name = self.name().unwrap_or_default();
        let found = self.runtime.block_on(discover(portal, self.source, &name));
        let targets = match found {
            Ok(targets) => targets,
            Err(error) => {
                return refused(&error, "iscsiadm: Could not perform SendTargets discovery");
            }
        };
        let places: Vec<Place> = targets
            .into_iter()
            .flat_map(|(target, portals)| {
                let target = move |portal| Place {
                    target: target.clone(),
                    portal,
                };
                portals.into_iter().map(move |(portal, _)| target(portal))
            })
            .collect();
        if places.is_empty() {
            return Printed::failed(code::NOT_FOUND, "iscsiadm: No portals found");
        }
        for place in &places {
            let known = self.records.read(place).is_ok();
            if let (false, Err(error)) = (known, self.records.make(place)) {
                return Printed::failed(code::FAILED, format!("iscsiadm: {error}"));
            }
        }
        Printed::said(lines(places.iter().map(|it| (it.portal, &it.target))))
    }

    fn log_in_all(&self, which: &Which) -> Printed {
        let places = self.records.places(which);
        if places.is_empty() {
            return Printed::failed(code::NOT_FOUND, "iscsiadm: No records found");
        }
        let mut sessions = self.sessions.lock();
        places.iter().fold(Printed::default(), |printed, place| {
            printed.then(&self.log_in(&mut sessions, place))
        })
    }

    fn log_in(&self, sessions: &mut Sessions, place: &Place) -> Printed {
        if sessions.active.values().any(|it| it.place == *place) {
            let text = "iscsiadm: default: 1 session requested, but 1 already present.";
            return Printed::failed(code::SESSION_EXISTS, text);
        }
        let shown = shown(place);
        let could_not = format!("iscsiadm: Could not login to [iface: default, {shown}].");
        let Ok(record) = self.records.read(place) else {
            return Printed::failed(code::NOT_FOUND, could_not);
        };
        let login = Login {
            portal: place.portal,
            source: self.source,
            initiator: self.name().unwrap_or_default(),
            target: place.target.clone(),
            chap: record.chap(),
        };
        let link = match Link::log_in(login, patience(&record), self.runtime.clone()) {
            Ok(link) => Arc::new(link),
            Err(error) => return refused(&error, &could_not),
        };
        let mut active = Active {
            place: place.clone(),
            link,
            units: units::Found::default(),
        };
        if let Err(error) = self.units.scan(place, &active.link, &mut active.units) {
            tracing::warn!(%error, "Not every disk was found.");
        }
        sessions.last += 1;
        sessions.active.insert(sessions.last, active);
        Printed::said(format!(
            "Logging in to [iface: default, {shown}]\nLogin to [iface: default, {shown}] successful.\n"
        ))
    }

    fn log_out(&self, which: &Which) -> Printed {
        let mut sessions = self.sessions.lock();
        let ids = matching(&sessions, which);
        if ids.is_empty() {
            return Printed::failed(code::NOT_FOUND, "iscsiadm: No matching sessions found");
        }
        let mut printed = Printed::default();
        for id in ids {
            let Some(active) = sessions.active.remove(&id) else {
                continue;
            };
            self.units.remove_all(&active.place, active.units);
            active.link.log_out();
            let shown = format!("[sid: {id}, {}]", shown(&active.place));
            let text = format!("Logging out of session {shown}\nLogout of {shown} successful.\n");
            printed = printed.then(&Printed::said(text));
        }
        printed
    }

    fn rescan(&self, which: &Which) -> io::Result<Printed> {
        let mut sessions = self.sessions.lock();
        let ids = matching(&sessions, which);
        if ids.is_empty() {
            return Ok(Printed::failed(
                code::NOT_FOUND,
                "iscsiadm: No session found.",
            ));
        }
        let mut printed = Printed::default();
        for id in ids {
            let Some(active) = sessions.active.get_mut(&id) else {
                continue;
            };
            let Active { place, link, units } = active;
            self.units.scan(place, link, units)?;
            let text = format!("Rescanning session [sid: {id}, {}]\n", shown(place));
            printed = printed.then(&Printed::said(text));
        }
        Ok(printed)
    }

    fn list(&self, which: &Which) -> Printed {
        let sessions = self.sessions.lock();
        let ids = matching(&sessions, which);
        if ids.is_empty() {
            return Printed::failed(code::NOT_FOUND, "iscsiadm: No active sessions.");
        }
        let line = |id: &u32| {
            let Place { target, portal } = &sessions.active[id].place;
            format!("tcp: [{id}] {portal},1 {target} (non-flash)\n")
        };
        Printed::said(ids.iter().map(line).collect())
    }
}

fn matching(sessions: &Sessions, which: &Which) -> Vec<u32> {
    let active = sessions.active.iter();
    active
        .filter(|(id, it)| which.includes(&it.place) && which.session.is_none_or(|sid| sid == **id))
        .map(|(id, _)| *id)
        .collect()
}

fn lines<'a>(places: impl Iterator<Item = (std::net::SocketAddr, &'a String)>) -> String {
    places
        .map(|(portal, target)| format!("{portal},1 {target}\n"))
        .collect()
}

fn shown(place: &Place) -> String {
    let (ip, port) = (place.portal.ip(), place.portal.port());
    format!("target: {}, portal: {ip},{port}", place.target)
}

/// How long operations wait for a lost session.
fn patience(record: &Record) -> Duration {
    let seconds = record.get("node.session.timeo.replacement_timeout");
    Duration::from_secs(seconds.and_then(|it| it.parse().ok()).unwrap_or(120))
}

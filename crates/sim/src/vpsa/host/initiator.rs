//! Sessions: log in, find disks, log out; as `iscsiadm` says it, with its exit codes. Disks that several of them lead to
//! are for `multipath`.

mod known;
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
use self::printed::{code, refused, session};
use self::units::Units;
use super::HostOptions;
use super::command::{Command, Place, Which};
use super::devices::Devices;
use super::disk::Link;
use super::maps::{Maps, Way};
use super::records::{Record, Records};
use crate::iscsi::initiator::Login;

/// The initiator of a node.
pub struct Initiator {
    name: PathBuf,
    source: Option<IpAddr>,
    records: Records,
    runtime: Handle,
    /// Held for as long as a command runs: one at a time.
    sessions: Mutex<Sessions>,
    units: Units,
    maps: Maps,
}

#[derive(Default)]
struct Sessions {
    last: u32,
    active: BTreeMap<u32, Active>,
}

struct Active {
    place: Place,
    /// The name under which it logged in.
    initiator: String,
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
        let devices = Arc::new(Devices::start(options)?);
        Ok(Self {
            name: options.initiator_name.clone(),
            source: options.network.ip,
            records: Records::new(&options.records),
            runtime,
            sessions: Mutex::default(),
            units: Units::start(options, Arc::clone(&devices))?,
            maps: Maps::start(options, devices)?,
        })
    }

    /// Ends all sessions without a word to the targets, and lets disks go.
    pub fn let_go(&self) {
        let mut sessions = self.sessions.lock();
        self.maps.remove_all();
        for (id, active) in std::mem::take(&mut sessions.active) {
            self.units.remove_all(id, active.units);
        }
    }

    /// Runs `multipath` or `multipathd`; blocks.
    pub fn multipath(&self, arguments: &[String]) -> Printed {
        // Nothing comes or goes meanwhile.
        let sessions = self.sessions.lock();
        self.maps.run(arguments, &ways(&sessions))
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
            Command::New { place, group } => self.make_record(&place, group),
            Command::NewInterface(name) => self
                .records
                .make_interface(&name)
                .map(|()| Printed::said(format!("New interface {name} added\n"))),
            Command::DeleteInterface(name) => Ok(self.delete_interface(&name)),
            Command::Delete(which) => self.each(&which, |place| self.records.remove(place)),
            Command::Update { which, name, value } => self.each(&which, |place| {
                let mut record = self.records.read(place)?;
                record.set(&name, &value);
                self.records.write(place, &record)
            }),
            Command::Show(which) => self.show(&which),
            Command::LogIn(which) => Ok(self.log_in_all(&which)),
            Command::LogOut(which) => Ok(self.log_out(&which)),
            Command::Rescan(which) => Ok(self.rescan(&which)),
            Command::Sessions { which, detailed } => Ok(self.list(&which, detailed)),
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

    fn log_in_all(&self, which: &Which) -> Printed {
        let places = self.records.places(which);
        if places.is_empty() {
            return Printed::failed(code::NOT_FOUND, "iscsiadm: No records found");
        }
        let mut sessions = self.sessions.lock();
        let printed = places.iter().fold(Printed::default(), |printed, place| {
            printed.then(&self.log_in(&mut sessions, place))
        });
        self.maps.follow(&ways(&sessions));
        printed
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
        let initiator = login.initiator.clone();
        let link = match Link::log_in(login, patience(&record), self.runtime.clone()) {
            Ok(link) => Arc::new(link),
            Err(error) => return refused(&error, &could_not),
        };
        let mut active = Active {
            place: place.clone(),
            initiator,
            link,
            units: units::Found::default(),
        };
        sessions.last += 1;
        let id = sessions.last;
        let Active { link, units, .. } = &mut active;
        if let Err(error) = self.units.scan(id, place, link, units) {
            tracing::warn!(%error, "Not every disk was found.");
        }
        sessions.active.insert(id, active);
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
            // What stands on a path goes before the path.
            self.maps.follow(&ways(&sessions));
            self.units.let_go_all(id, active.units);
            active.link.log_out();
            let shown = format!("[sid: {id}, {}]", shown(&active.place));
            let text = format!("Logging out of session {shown}\nLogout of {shown} successful.\n");
            printed = printed.then(&Printed::said(text));
        }
        printed
    }

    fn rescan(&self, which: &Which) -> Printed {
        let mut sessions = self.sessions.lock();
        let ids = matching(&sessions, which);
        if ids.is_empty() {
            return Printed::failed(code::NOT_FOUND, "iscsiadm: No session found.");
        }
        let mut printed = Printed::default();
        for id in ids {
            let Some(active) = sessions.active.get_mut(&id) else {
                continue;
            };
            let Active {
                place, link, units, ..
            } = active;
            // The kernel has nothing to say about a session that is lost.
            if let Err(error) = self.units.scan(id, place, link, units) {
                tracing::warn!(%error, "A session was not looked through.");
            }
            let text = format!("Rescanning session [sid: {id}, {}]\n", shown(place));
            printed = printed.then(&Printed::said(text));
        }
        self.maps.follow(&ways(&sessions));
        printed
    }

    fn list(&self, which: &Which, detailed: bool) -> Printed {
        let sessions = self.sessions.lock();
        let ids = matching(&sessions, which);
        if ids.is_empty() {
            return Printed::failed(code::NOT_FOUND, "iscsiadm: No active sessions.");
        }
        let line = |id: &u32| {
            let Active {
                place, initiator, ..
            } = &sessions.active[id];
            session(*id, place, initiator, detailed)
        };
        Printed::said(ids.iter().map(line).collect())
    }
}

/// How disks are reached: by every session.
fn ways(sessions: &Sessions) -> Vec<Way<'_>> {
    let units = sessions.active.values().flat_map(|it| it.units.values());
    units
        .map(|unit| Way {
            wwid: &unit.wwid,
            disk: &unit.disk,
            device: &unit.device,
            read_only: unit.read_only,
        })
        .collect()
}

fn matching(sessions: &Sessions, which: &Which) -> Vec<u32> {
    let active = sessions.active.iter();
    active
        .filter(|(id, it)| which.includes(&it.place) && which.session.is_none_or(|sid| sid == **id))
        .map(|(id, _)| *id)
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

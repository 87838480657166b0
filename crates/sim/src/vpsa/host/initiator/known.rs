//! What is known of targets and interfaces, with or without a session.

use std::io;
use std::net::SocketAddr;

use super::Initiator;
use super::printed::{Printed, code, refused};
use crate::iscsi::initiator::discover;
use crate::vpsa::host::command::{DEFAULT_INTERFACE, Place, Which};

impl Initiator {
    pub(super) fn make_record(&self, place: &Place, group: Option<u16>) -> io::Result<Printed> {
        let Place {
            target,
            portal,
            interface,
        } = place;
        if !self.records.has_interface(interface) {
            let text = format!("iscsiadm: Could not read iface {interface} (6)");
            return Ok(Printed::failed(code::INVALID, text));
        }
        self.records.make(place, group)?;
        let (ip, port, group) = (portal.ip(), portal.port(), group.map_or(-1, i32::from));
        Ok(Printed::said(format!(
            "New iSCSI node [tcp:[hw=,ip=,net_if=,iscsi_if={interface}] {ip},{port},{group} {target}] added\n"
        )))
    }

    pub(super) fn delete_interface(&self, name: &str) -> Printed {
        let sessions = self.sessions.lock();
        if sessions
            .active
            .values()
            .any(|it| it.place.interface == name)
        {
            let text = format!("iscsiadm: Can not delete iface {name}, a session is using it");
            return Printed::failed(code::BUSY, text);
        }
        if self.records.remove_interface(name) {
            Printed::said(format!("{name} unbound and deleted.\n"))
        } else {
            let text = format!("iscsiadm: Could not read iface {name} (6)");
            Printed::failed(code::NOT_FOUND, text)
        }
    }

    pub(super) fn each(
        &self,
        which: &Which,
        work: impl Fn(&Place) -> io::Result<()>,
    ) -> io::Result<Printed> {
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

    pub(super) fn show(&self, which: &Which) -> io::Result<Printed> {
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

    pub(super) fn discover(&self, portal: SocketAddr) -> Printed {
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
                    interface: DEFAULT_INTERFACE.to_owned(),
                };
                portals.into_iter().map(move |(portal, _)| target(portal))
            })
            .collect();
        if places.is_empty() {
            return Printed::failed(code::NOT_FOUND, "iscsiadm: No portals found");
        }
        for place in &places {
            let known = self.records.read(place).is_ok();
            // Who is asked tells the group of each portal.
            if let (false, Err(error)) = (known, self.records.make(place, Some(1))) {
                return Printed::failed(code::FAILED, format!("iscsiadm: {error}"));
            }
        }
        Printed::said(lines(places.iter().map(|it| (it.portal, &it.target))))
    }
}

fn lines<'a>(places: impl Iterator<Item = (SocketAddr, &'a String)>) -> String {
    places
        .map(|(portal, target)| format!("{portal},1 {target}\n"))
        .collect()
}

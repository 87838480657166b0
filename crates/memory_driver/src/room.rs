//! How much space there is, and where.

use std::collections::BTreeMap;

use stowage_csi::proto::csi::{Topology, TopologyRequirement};
use tonic::Status;

const PLENTY: i64 = 1 << 40;

/// Space at a place. It is what the test says it is: volumes do not use it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// What `GetCapacity` answers; a larger volume is `RESOURCE_EXHAUSTED`.
    pub available: i64,
    /// The largest volume, if there is a limit; a larger one is `OUT_OF_RANGE`.
    pub largest_volume: Option<i64>,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            available: PLENTY,
            largest_volume: None,
        }
    }
}

/// Space everywhere, and at places that differ.
#[derive(Clone, Debug, Default)]
pub(super) struct Rooms {
    everywhere: Room,
    places: Vec<(BTreeMap<String, String>, Room)>,
}

impl Rooms {
    /// Empty segments mean everywhere.
    pub(super) fn set(&mut self, segments: BTreeMap<String, String>, room: Room) {
        if segments.is_empty() {
            self.everywhere = room;
            return;
        }
        self.places.retain(|(place, _)| *place != segments);
        self.places.push((segments, room));
    }

    /// The room at a place: of the last one set whose segments are all among those asked for.
    pub(super) fn at(&self, topology: Option<&Topology>) -> Room {
        let Some(topology) = topology else {
            return self.everywhere;
        };
        let is_inside = |place: &BTreeMap<String, String>| {
            place
                .iter()
                .all(|(key, value)| topology.segments.get(key) == Some(value))
        };
        let mut places = self.places.iter().rev();
        let found = places.find(|(place, _)| is_inside(place));
        found.map_or(self.everywhere, |(_, room)| *room)
    }

    /// Where a volume goes: the first place with room, in the order of preference.
    pub(super) fn choose(
        &self,
        wanted: Option<&TopologyRequirement>,
        size: i64,
    ) -> Result<Option<Topology>, Status> {
        let wanted = wanted
            .into_iter()
            .flat_map(|wanted| wanted.preferred.iter().chain(&wanted.requisite));
        let mut places = wanted.peekable();
        if places.peek().is_none() {
            return self.everywhere.fits(size).map(|()| None);
        }
        let mut full = None;
        for place in places {
            match self.at(Some(place)).fits(size) {
                Ok(()) => return Ok(Some(place.clone())),
                Err(status) => full = full.or(Some(status)),
            }
        }
        Err(full.unwrap_or_else(|| Status::resource_exhausted("there is no place")))
    }
}

impl Room {
    pub(super) fn fits(self, size: i64) -> Result<(), Status> {
        if self.largest_volume.is_some_and(|largest| size > largest) {
            return Err(Status::out_of_range(
                "no volume is that large in this place",
            ));
        }
        if size > self.available {
            return Err(Status::resource_exhausted("there is no room for it"));
        }
        Ok(())
    }
}

//! From where arrays are reached. Nothing here does anything.

use stowage_api::vpsa::{Segments, VolumeTopology, Vpsa};

use super::cluster::Cluster;

/// From where an array is reached, as it says or its class; empty is from everywhere.
pub fn places(cluster: &Cluster, array: &Vpsa) -> Vec<Segments> {
    if !array.spec.topology.is_empty() {
        return array.spec.topology.clone();
    }
    let class = &array.spec.vsc_storage_class_name;
    let class = cluster.classes.store().get(class);
    class.map_or_else(Vec::new, |it| it.object.spec.topology.clone())
}

/// Whether an array is reached by nodes with these labels.
pub fn is_reached(places: &[Segments], from: &Segments) -> bool {
    let has = |place: &Segments| {
        place
            .iter()
            .all(|(key, value)| from.get(key) == Some(value))
    };
    places.is_empty() || places.iter().any(has)
}

/// How well an array fits: the less, the better; not at all if none.
pub fn rank(places: &[Segments], wanted: Option<&VolumeTopology>) -> Option<usize> {
    let Some(VolumeTopology {
        requisite,
        preferred,
        ..
    }) = wanted
    else {
        return Some(0);
    };
    let first = preferred.iter().position(|from| is_reached(places, from));
    let is_allowed = match (requisite.is_empty(), preferred.is_empty()) {
        (false, _) => requisite.iter().any(|from| is_reached(places, from)),
        (true, false) => first.is_some(),
        (true, true) => true,
    };
    is_allowed.then(|| first.unwrap_or(preferred.len()))
}

/// As people read it: `zone=a, rack=1 or zone=b`.
pub fn shown(places: &[Segments]) -> String {
    let place = |place: &Segments| {
        let labels = place.iter().map(|(key, value)| format!("{key}={value}"));
        labels.collect::<Vec<_>>().join(", ")
    };
    places.iter().map(place).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(name: &str) -> Segments {
        [("zone", name), ("region", "r")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into()
    }

    fn only(name: &str) -> Segments {
        [("zone".to_owned(), name.to_owned())].into()
    }

    #[test]
    fn an_array_fits_where_it_is_reached_and_the_sooner_it_is_preferred_the_better() {
        let everywhere: &[Segments] = &[];
        let (a, b, both) = ([only("a")], [only("b")], [only("b"), only("a")]);
        let wanted = |requisite: &[&str], preferred: &[&str]| VolumeTopology {
            requisite: requisite.iter().map(|name| zone(name)).collect(),
            preferred: preferred.iter().map(|name| zone(name)).collect(),
            ..VolumeTopology::default()
        };
        for (places, topology, expected) in [
            (&a[..], None, Some(0)),
            (&a, Some(wanted(&[], &[])), Some(0)),
            (everywhere, Some(wanted(&["c"], &["c"])), Some(0)),
            (&a, Some(wanted(&["a", "b"], &["b", "a"])), Some(1)),
            (&b, Some(wanted(&["a", "b"], &["b", "a"])), Some(0)),
            (&both, Some(wanted(&["a"], &["a"])), Some(0)),
            (&b, Some(wanted(&["a", "b"], &["a"])), Some(1)),
            (&b, Some(wanted(&["a"], &[])), None),
            (&b, Some(wanted(&[], &["a"])), None),
        ] {
            assert_eq!(
                rank(places, topology.as_ref()),
                expected,
                "{places:?} {topology:?}"
            );
        }
        assert!(
            !is_reached(&a, &Segments::new()),
            "a node that says nothing"
        );
        assert_eq!(shown(&both), "zone=b or zone=a");
    }
}

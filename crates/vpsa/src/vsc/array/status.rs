//! What is said about a VPSA.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use stowage_api::quantity;
use stowage_api::vpsa::{ArrayVersion, Capacity, VpsaState, VpsaStatus};

use super::facts::{Facts, Room};
use crate::version::Version;
use crate::vsc::cipher::{CHAP_FIELD, Cipher, CipherError, Place};

/// What an array said, and how people want it to be used.
#[derive(Clone, Copy, Debug)]
pub struct Said<'a> {
    /// What it said.
    pub facts: &'a Facts,
    /// The pool that its class names, if it names one.
    pub pool: Option<&'a str>,
    /// Where its disks are reached, if people wrote that: it counts before what the array says.
    pub portals: &'a [String],
}

/// The status that goes with a state. What the array did not say this time stays as it was.
///
/// Called twice: the same.
pub fn status(
    before: &VpsaStatus,
    name: &str,
    state: VpsaState,
    said: Option<Said<'_>>,
    cipher: &Cipher,
) -> Result<VpsaStatus, CipherError> {
    let mut status = VpsaStatus {
        state,
        ..before.clone()
    };
    let Some(Said {
        facts,
        pool,
        portals,
    }) = said
    else {
        return Ok(status);
    };
    status.capacity = Some(capacity(facts.room(pool)));
    let mut counters = status.counters.take().unwrap_or_default();
    counters.pools = count(facts.pools.len());
    if let Some(content) = &facts.content {
        counters.snapshots = count(content.snapshots.len());
        counters.volumes = count(content.volumes.len());
    }
    status.counters = Some(counters);
    if let Some(controller) = &facts.controller {
        let version = controller.software_ver.clone();
        status.legacy_vpsa = version.parse::<Version>().ok().map(|it| it.is_legacy());
        status.version = Some(ArrayVersion {
            software_version: Some(version),
            ..ArrayVersion::default()
        });
        status.iqn = Some(controller.target.clone());
        status.portals = match portals {
            [] => facts.portals.clone(),
            written => written.to_vec(),
        };
        status.chap_user = Some(controller.vpsa_chap_user.clone());
    }
    if let Some(secret) = facts.chap_secret() {
        let place = Place {
            object: name,
            field: CHAP_FIELD,
        };
        let stored = before.chap_secret.as_ref();
        status.chap_secret = Some(cipher.keep_or_encrypt(stored, secret, place)?);
    }
    Ok(status)
}

fn capacity(room: Room) -> Capacity {
    Capacity {
        total: gigabytes(room.total),
        available: gigabytes(room.available),
        mode: room.mode,
        ..Capacity::default()
    }
}

/// Rounded down to whole GB: what is shown can be used.
fn gigabytes(gigabytes: f64) -> Quantity {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "arrays are smaller than 2^63 bytes"
    )]
    let whole = gigabytes.max(0.0).floor() as i64;
    Quantity(quantity::text(whole.saturating_mul(1 << 30)))
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;
    use serde_json::json;

    use super::*;
    use crate::vsc::array::facts::Content;

    #[test]
    fn what_the_array_says_is_shown_without_its_secret_and_a_second_time_the_same() {
        let cipher = Cipher::new(&[SecretString::from("k".repeat(32))]).unwrap();
        let pool = json!({"name": "pool-1", "capacity": "100.9", "available_capacity": 40, "mode": "alert"});
        let controller = json!({"state": "active", "software_ver": "22.06-sp1", "target": "iqn.t",
            "vpsa_chap_user": "user", "vpsa_chap_secret": "very-secret"});
        let facts = Facts {
            portals: vec!["10.0.0.1".to_owned()],
            controller: serde_json::from_value(controller).unwrap(),
            pools: vec![serde_json::from_value(pool).unwrap()],
            failed: Vec::new(),
            content: Some(Content {
                volumes: vec![serde_json::from_value(json!({"name": "volume-1"})).unwrap()],
                snapshots: Vec::new(),
                servers: Vec::new(),
            }),
        };
        let before = VpsaStatus::default();
        let ready = |before: &VpsaStatus, portals: &[String]| {
            let said = Said {
                facts: &facts,
                pool: None,
                portals,
            };
            status(before, "a", VpsaState::Ready, Some(said), &cipher).unwrap()
        };
        let first = ready(&before, &[]);
        let shown = serde_json::to_value(&first).unwrap();
        assert_eq!(
            shown["capacity"],
            json!({"total": "100Gi", "available": "40Gi", "mode": "alert"})
        );
        assert_eq!(
            shown["counters"],
            json!({"pools": 1, "snapshots": 0, "volumes": 1})
        );
        assert_eq!(
            (&shown["LegacyVPSA"], &shown["IQN"]),
            (&json!(true), &json!("iqn.t"))
        );
        assert!(!shown.to_string().contains("very-secret"));
        assert_eq!(first, ready(&first, &[]));
        assert_eq!(first.portals, ["10.0.0.1"]);
        let written = ["10.0.0.8".to_owned(), "10.0.0.9".to_owned()];
        assert_eq!(ready(&first, &written).portals, written);
        let away = status(&first, "a", VpsaState::Unreachable, None, &cipher).unwrap();
        assert_eq!(
            (away.state, away.capacity),
            (VpsaState::Unreachable, first.capacity)
        );
    }
}

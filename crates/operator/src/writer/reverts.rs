//! How often what somebody else changes is changed back: at once, unless they do it again and again.

use std::collections::HashMap;
use std::time::Duration;

use kube::api::DynamicObject;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::FIELD_MANAGER;
use super::error::WriteError;
use super::ownership::Key;

/// So often at once.
const BURST: u32 = 10;
/// After that, once in so long.
const PAUSE: Duration = Duration::from_secs(30);

/// What is left of each object's allowance.
#[derive(Default)]
pub(super) struct Reverts(Mutex<HashMap<Key, Allowance>>);

struct Allowance {
    left: u32,
    /// When one more was added last.
    since: Instant,
}

impl Reverts {
    /// Counts a change back, or says who makes it pointless.
    pub(super) fn admit(&self, key: &Key, live: &DynamicObject) -> Result<(), WriteError> {
        let now = Instant::now();
        let mut all = self.0.lock();
        // One whose allowance is full again says nothing.
        all.retain(|_, it| it.left + it.earned(now) < BURST);
        let allowance = all.entry(key.clone()).or_insert(Allowance {
            left: BURST,
            since: now,
        });
        let earned = allowance.earned(now);
        if earned > 0 {
            allowance.left = (allowance.left + earned).min(BURST);
            allowance.since = now;
        }
        if allowance.left == 0 {
            return Err(WriteError::Contested {
                key: key.clone(),
                by: last_writer(live),
            });
        }
        allowance.left -= 1;
        Ok(())
    }
}

impl Allowance {
    fn earned(&self, now: Instant) -> u32 {
        let passed = now.duration_since(self.since).as_secs() / PAUSE.as_secs();
        u32::try_from(passed).unwrap_or(u32::MAX)
    }
}

/// Who else wrote the object last, as far as the server knows.
fn last_writer(live: &DynamicObject) -> Option<String> {
    let writers = live.metadata.managed_fields.iter().flatten();
    let others = writers.filter(|it| {
        it.manager.as_deref() != Some(FIELD_MANAGER) && it.subresource.as_deref() != Some("status")
    });
    let last = others.max_by_key(|it| it.time.as_ref().map(|time| time.0));
    last.and_then(|it| it.manager.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::driver::Kind;

    #[tokio::test(start_paused = true)]
    async fn a_fight_is_given_up_and_gone_on_with_now_and_then() {
        let key = Key {
            kind: Kind::DaemonSet,
            namespace: Some("n".to_owned()),
            name: "d".to_owned(),
        };
        let other = Key {
            name: "other".to_owned(),
            ..key.clone()
        };
        let manager = |name: &str, second: u32| {
            json!({
                "manager": name, "operation": "Update", "apiVersion": "apps/v1",
                "time": format!("2026-01-01T00:00:{second:02}Z"),
            })
        };
        let fields = [
            manager("argocd", 1),
            manager("someone", 0),
            manager(FIELD_MANAGER, 2),
        ];
        let live = json!({"metadata": {"name": "d", "managedFields": fields}});
        let live: DynamicObject = serde_json::from_value(live).unwrap();
        let reverts = Reverts::default();
        for _ in 0..BURST {
            reverts.admit(&key, &live).unwrap();
        }
        let told = reverts.admit(&key, &live).unwrap_err().to_string();
        assert!(told.contains("`argocd`"), "{told}");
        reverts.admit(&other, &live).unwrap();
        tokio::time::advance(PAUSE).await;
        reverts.admit(&key, &live).unwrap();
        assert!(reverts.admit(&key, &live).is_err());
        tokio::time::advance(PAUSE * BURST).await;
        reverts.admit(&other, &live).unwrap();
        assert!(!reverts.0.lock().contains_key(&key), "forgotten");
    }
}

//! Intents of all kinds, the same ones in each run.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::SecretReference;
use stowage_sidecar::cluster::volume::ClaimKey;
use stowage_sidecar::intent::{
    AttributesClass, ClassFacts, FrozenTopology, Intent, Secrets, Segment, Source,
};

/// A plain intent.
pub(crate) fn intent(uid: &str) -> Intent {
    Intent {
        claim: ClaimKey {
            namespace: "shop".to_owned(),
            name: format!("claim-{uid}"),
            uid: uid.to_owned(),
        },
        volume: format!("pvc-{uid}"),
        bytes: 1 << 30,
        access_modes: vec!["ReadWriteOnce".to_owned()],
        csi_modes: vec![1],
        block: false,
        read_only: false,
        source: None,
        topology: None,
        class: Arc::new(ClassFacts {
            name: "fast".to_owned(),
            uid: "3f0c".to_owned(),
            reclaim_policy: "Delete".to_owned(),
            ..ClassFacts::default()
        }),
        attributes: None,
        secrets: Secrets::default(),
    }
}

/// One that takes about this much room: its letters are those of base64, by chance, so they cannot be compressed
/// below that.
pub(crate) fn large_intent(uid: &str, bytes: usize) -> Intent {
    let letters: Vec<char> = ('a'..='z')
        .chain('A'..='Z')
        .chain('0'..='9')
        .chain(['+', '/'])
        .collect();
    let mut dice = Dice(uid.bytes().map(u64::from).sum());
    let value = (0..bytes).map(|_| letters[dice.roll(64)]).collect();
    let parameters = BTreeMap::from([(uid.to_owned(), value)]);
    Intent {
        attributes: Some(AttributesClass {
            name: "gold".to_owned(),
            parameters,
        }),
        ..intent(uid)
    }
}

/// Chances from a seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// A number below `sides`.
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.roll(2) == 0).then(|| make(self))
    }

    fn text(&mut self) -> String {
        let letters: Vec<char> = "abc 019-./\"\\{}[]:,\n\tüß€😀\u{0}".chars().collect();
        let length = self.roll(12);
        (0..length)
            .map(|_| letters[self.roll(letters.len())])
            .collect()
    }

    fn map(&mut self) -> BTreeMap<String, String> {
        let length = self.roll(4);
        (0..length).map(|_| (self.text(), self.text())).collect()
    }

    fn secret(&mut self) -> SecretReference {
        SecretReference {
            name: self.maybe(Self::text),
            namespace: self.maybe(Self::text),
        }
    }

    fn class(&mut self) -> ClassFacts {
        ClassFacts {
            name: self.text(),
            uid: self.text(),
            parameters: self.map(),
            fs_type: self.text(),
            mount_options: (0..self.roll(3)).map(|_| self.text()).collect(),
            reclaim_policy: self.text(),
            extra_metadata: self.roll(2) == 0,
        }
    }

    fn topology(&mut self) -> Arc<[Segment]> {
        let length = self.roll(6);
        (0..length).map(|_| self.map()).collect()
    }

    /// Intents that share some of what they have.
    pub(crate) fn intents(&mut self, count: usize) -> Vec<Intent> {
        let classes: Vec<_> = (0..4).map(|_| Arc::new(self.class())).collect();
        let topologies: Vec<_> = (0..4).map(|_| self.topology()).collect();
        let numbers = 0..count;
        numbers
            .map(|number| Intent {
                claim: ClaimKey {
                    namespace: self.text(),
                    name: self.text(),
                    uid: format!("{number:05}{}", self.text()),
                },
                volume: self.text(),
                bytes: i64::try_from(self.roll(usize::MAX >> 34)).unwrap() << 20,
                access_modes: (0..self.roll(3)).map(|_| self.text()).collect(),
                csi_modes: (0..self.roll(3))
                    .map(|mode| i32::try_from(mode).unwrap())
                    .collect(),
                block: self.roll(2) == 0,
                read_only: self.roll(2) == 0,
                source: self.maybe(|dice| match dice.roll(2) {
                    0 => Source::Snapshot(dice.text()),
                    _ => Source::Volume(dice.text()),
                }),
                topology: self.maybe(|dice| {
                    let segments = Arc::clone(&topologies[dice.roll(4)]);
                    let first = dice.roll(segments.len().max(1));
                    FrozenTopology { segments, first }
                }),
                class: Arc::clone(&classes[self.roll(4)]),
                attributes: self.maybe(|dice| AttributesClass {
                    name: dice.text(),
                    parameters: dice.map(),
                }),
                secrets: Secrets {
                    provisioner: self.maybe(Self::secret),
                    controller_publish: self.maybe(Self::secret),
                    node_expand: self.maybe(Self::secret),
                    ..Secrets::default()
                },
            })
            .collect()
    }
}

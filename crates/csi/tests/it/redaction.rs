//! No message that carries secrets shows them, whatever is added to the protocol later.

use std::collections::BTreeSet;
use std::fmt::Debug;

use prost::{Message, encoding};
use stowage_csi::proto::{SERVICE_ACCOUNT_TOKENS, csi};

/// The table of the interface marks the fields that hold secrets.
const TABLE: &str = include_str!("wire.txt");

/// Name and number of the secret field, by message.
fn secret_fields() -> Vec<(&'static str, u32)> {
    TABLE
        .lines()
        .filter(|line| line.starts_with("field ") && line.ends_with(" secret"))
        .map(|line| {
            let parts: Vec<_> = line.split(' ').collect();
            let (message, _) = parts[1].split_once('.').expect("message and field");
            (message, parts[3].parse().expect("a number"))
        })
        .collect()
}

/// A message with one secret, made from bytes: the field's number comes from the table, not from our code.
fn with_secret<M: Message + Default>(number: u32) -> M {
    let mut entry = Vec::new();
    encoding::string::encode(1, &"user-key".to_owned(), &mut entry);
    encoding::string::encode(2, &"hunter2".to_owned(), &mut entry);
    let mut bytes = Vec::new();
    encoding::bytes::encode(number, &entry, &mut bytes);
    M::decode(&*bytes).expect("a message")
}

fn hides_its_secret<M: Message + Default + Debug>(number: u32) {
    let message: M = with_secret(number);
    assert!(message.encoded_len() > 16, "the secret arrived");
    for shown in [format!("{message:?}"), format!("{message:#?}")] {
        assert!(
            !shown.contains("hunter2") && !shown.contains("user-key"),
            "{shown}"
        );
        assert!(shown.contains("secrets: ***"), "{shown}");
    }
    assert!(format!("{:?}", M::default()).contains("secrets: {}"));
}

/// Runs the check for each type named, and gives their names back.
macro_rules! check_all {
    ($($message:ident),+ $(,)?) => {{
        let fields = secret_fields();
        let number = |name| {
            let found = fields.iter().find(|(message, _)| *message == name);
            found.unwrap_or_else(|| panic!("{name} is not in the table")).1
        };
        $(hides_its_secret::<csi::$message>(number(stringify!($message)));)+
        BTreeSet::from([$(stringify!($message)),+])
    }};
}

#[test]
fn every_message_with_secrets_hides_them() {
    let checked = check_all!(
        ControllerExpandVolumeRequest,
        ControllerModifyVolumeRequest,
        ControllerPublishVolumeRequest,
        ControllerUnpublishVolumeRequest,
        CreateSnapshotRequest,
        CreateVolumeGroupSnapshotRequest,
        CreateVolumeRequest,
        DeleteSnapshotRequest,
        DeleteVolumeGroupSnapshotRequest,
        DeleteVolumeRequest,
        GetMetadataAllocatedRequest,
        GetMetadataDeltaRequest,
        GetSnapshotRequest,
        GetVolumeGroupSnapshotRequest,
        ListSnapshotsRequest,
        NodeExpandVolumeRequest,
        NodePublishVolumeRequest,
        NodeStageVolumeRequest,
        ValidateVolumeCapabilitiesRequest,
    );
    let in_the_table: BTreeSet<_> = secret_fields()
        .iter()
        .map(|(message, _)| *message)
        .collect();
    assert_eq!(checked, in_the_table);
}

#[test]
fn everything_else_is_shown() {
    let request = csi::NodePublishVolumeRequest {
        volume_id: "vol-1".to_owned(),
        target_path: "/target".to_owned(),
        readonly: true,
        volume_context: [
            ("share".to_owned(), "a".to_owned()),
            (SERVICE_ACCOUNT_TOKENS.to_owned(), "hunter2".to_owned()),
        ]
        .into(),
        ..Default::default()
    };
    assert_eq!(
        format!("{request:?}"),
        "NodePublishVolumeRequest { volume_id: \"vol-1\", publish_context: {}, \
         staging_target_path: \"\", target_path: \"/target\", volume_capability: None, \
         readonly: true, secrets: {}, volume_context: \
         {\"csi.storage.k8s.io/serviceAccount.tokens\": \"***\", \"share\": \"a\"} }"
    );
}

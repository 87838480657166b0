//! Words that fields of these kinds take.
//!
//! A word that is not known is kept as it is: an object must be readable whoever wrote it, and be written back unchanged.

use crate::words::words;

words! {
    /// How a class of arrays is.
    ClassState: closed {
        /// Stored, and not looked at yet.
        Creating = "Creating",
        /// Usable, with or without members.
        Ready = "Ready",
        /// At least one member cannot be used.
        Failed = "Failed",
        /// Going.
        Deleting = "Deleting",
    }
}

words! {
    /// How an array is.
    VpsaState: closed {
        /// Stored; being checked and set up.
        Configuring = "Configuring",
        /// Volumes and snapshots that are there already are being taken note of.
        Importing = "Importing",
        /// May be used.
        Ready = "Ready",
        /// Does not fit the driver or its class.
        Incompatible = "Incompatible",
        /// Network, credentials or TLS: its true state is not known.
        Unreachable = "Unreachable",
        /// Pools, drives or volumes are unhealthy.
        Failed = "Failed",
        /// Going.
        Deleting = "Deleting",
    }
}

words! {
    /// How full an array is, as its pools judge; the later, the worse.
    CapacityMode {
        /// As full as it should be at most.
        Normal = "normal",
        /// Will be full soon.
        Alert = "alert",
        /// Nothing new is made.
        Protected = "protected",
        /// The oldest snapshots are being deleted.
        Emergency = "emergency",
    }
}

words! {
    /// How a volume is reached.
    VolumeType: closed {
        /// A share over NFS.
        Nas = "NAS",
        /// A disk over iSCSI.
        Block = "Block",
    }
}

words! {
    /// How a volume is.
    VolumeState {
        /// Stored; nothing is on an array yet.
        Creating = "Creating",
        /// Being made on the array.
        Provisioning = "Provisioning",
        /// Being copied on the array; may have no identity there yet.
        Cloning = "Cloning",
        /// Usable.
        Ready = "Ready",
        /// Being deleted on the array.
        Deleting = "Deleting",
        /// On the array, and not usable.
        Failed = "Failed",
    }
}

words! {
    /// How a volume is attached.
    AttachType {
        /// To an IP address.
        Nfs = "NFS",
        /// To an IQN.
        Iscsi = "ISCSI",
    }
}

words! {
    /// How an attachment is.
    AttachmentState {
        /// Stored; nothing is on the array yet.
        Creating = "Creating",
        /// The Server record is there.
        Attaching = "Attaching",
        /// Attached on the array; the node has to log in.
        IscsiLoginPending = "ISCSILoginPending",
        /// The node can mount it.
        Ready = "Ready",
        /// Being detached on the array.
        Detaching = "Detaching",
        /// Detached; the Server record goes if nobody needs it.
        Deleting = "Deleting",
        /// Not usable.
        Failed = "Failed",
    }
}

words! {
    /// Whether the node has a session with the array.
    IscsiStatus {
        /// It has none.
        Disconnected = "Disconnected",
        /// It has one.
        Active = "Active",
        /// It needs none.
        NotApplicable = "N/A (NAS)",
    }
}

words! {
    /// How a snapshot is.
    SnapshotState {
        /// Stored; nothing is on the array yet.
        Creating = "Creating",
        /// Being taken.
        TakingSnapshot = "TakingSnapshot",
        /// Usable.
        Ready = "Ready",
        /// Being deleted on the array.
        Deleting = "Deleting",
        /// On the array, and not usable.
        Failed = "Failed",
    }
}

words! {
    /// What a clone is made from.
    CloneSourceKind: closed {
        /// A Snapshot.
        Snapshot = "Snapshot",
        /// A Volume, as it is at that moment.
        Volume = "Volume",
    }
}

words! {
    /// What happens on the array when the object is deleted.
    DeletionPolicy: closed {
        /// It is deleted there, too.
        Delete = "Delete",
        /// It stays there.
        Retain = "Retain",
    }
}

//! Words that fields of these kinds take.

use crate::words::words;

words! {
    /// How a client is.
    ClientState {
        /// Not looked at yet.
        Init = "Init",
        /// Its containers are as they should be.
        Running = "Running",
        /// Its containers get another image.
        Upgrading = "Upgrading",
        /// Going.
        Destroying = "Destroying",
    }
}

words! {
    /// How a container is.
    ContainerState {
        /// Not looked at yet.
        Init = "Init",
        /// Its pod does not run yet.
        PodNotRunning = "PodNotRunning",
        /// Its pod runs, and is not ready yet.
        PodRunning = "PodRunning",
        /// It serves.
        Running = "Running",
        /// Its pod was ready, and is not any more.
        Unhealthy = "Unhealthy",
        /// Its pod was asked to stop and not to come back.
        Paused = "Paused",
        /// It waits until nothing is mounted.
        Draining = "Draining",
        /// Going, because it was deleted.
        Deleting = "Deleting",
        /// Going, because its client was deleted.
        Destroying = "Destroying",
    }
}

words! {
    /// What a container is for.
    ContainerMode {
        /// It mounts filesystems on its node.
        Client = "client",
    }
}

words! {
    /// What is to become of a container.
    DesiredState {
        /// It runs.
        Active = "active",
        /// Its pod is stopped.
        Paused = "paused",
        /// It goes with its client.
        Destroying = "destroying",
        /// It goes.
        Deleting = "deleting",
    }
}

words! {
    /// How containers get another image.
    UpgradeType {
        /// All of them, each as soon as nothing is mounted.
        AllAtOnce = "all-at-once",
        /// One after the other.
        Rolling = "rolling",
        /// When somebody deletes the pod.
        Manual = "manual",
        /// All of them, whatever is mounted.
        AllAtOnceForce = "all-at-once-force",
    }
}

words! {
    /// How a container gets its cores.
    CpuPolicy {
        /// As the node's hyper-threading suggests.
        Auto = "auto",
        /// Shared with others.
        Shared = "shared",
        /// Whole cores.
        Dedicated = "dedicated",
        /// Whole cores with both threads.
        DedicatedHt = "dedicated_ht",
        /// Those that `coreIds` lists.
        Manual = "manual",
    }
}

//! A driver in memory that is being served, and a folder for its sockets and paths.

use parking_lot::Mutex;
use stowage_csi::endpoint::Endpoint;
use stowage_memory_driver::{Expansion, Fault, MemoryDriver, Profile, Services, Serving};
use tempfile::TempDir;

/// How much a driver can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Full,
    /// Expands volumes only while nobody uses them.
    Offline,
    /// No controller, and a node that only publishes.
    NodeOnly,
}

impl Shape {
    fn profile(self) -> Profile {
        let full = Profile {
            nodes: ["node-1".to_owned()].into(),
            // Enough for cases that run at the same time.
            volumes_per_node: 8,
            groups: true,
            ..Profile::default()
        };
        match self {
            Self::Full => full,
            Self::Offline => Profile {
                expansion: Expansion::Offline,
                ..full
            },
            Self::NodeOnly => Profile {
                controller: vec![],
                node: vec![],
                topology: false,
                groups: false,
                expansion: Expansion::No,
                ..full
            },
        }
    }
}

pub struct Served {
    pub driver: MemoryDriver,
    pub folder: TempDir,
    sockets: Mutex<Vec<Serving>>,
}

impl Served {
    pub fn start(fault: Option<Fault>) -> Self {
        Self::start_as(Shape::Full, fault)
    }

    pub fn start_as(shape: Shape, fault: Option<Fault>) -> Self {
        let served = Self::prepare(shape, fault);
        served.listen("csi.sock", Services::All);
        served
    }

    /// A driver that does not listen yet.
    pub fn prepare(shape: Shape, fault: Option<Fault>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["staging", "target"] {
            std::fs::create_dir(folder.path().join(name)).expect("a folder in it");
        }
        let driver = MemoryDriver::new(shape.profile());
        if let Some(fault) = fault {
            driver.set(fault);
        }
        Self {
            driver,
            folder,
            sockets: Mutex::default(),
        }
    }

    /// Listens at one more socket.
    pub fn listen(&self, name: &str, services: Services) {
        let serving = self.driver.serve_only(&self.endpoint(name), services);
        let mut sockets = self.sockets.lock();
        sockets.push(serving.expect("a socket"));
    }

    pub fn endpoint(&self, name: &str) -> Endpoint {
        let path = self.folder.path().join(name);
        Endpoint::try_from(path.as_path()).expect("a short path")
    }

    pub fn path(&self, name: &str) -> String {
        let path = self.folder.path().join(name);
        path.to_str().expect("a plain path").to_owned()
    }

    /// What the driver still has, and what lies where volumes were.
    pub fn left(&self) -> Vec<String> {
        let mut left = self.driver.left();
        for name in ["staging", "target"] {
            let entries = std::fs::read_dir(self.folder.path().join(name)).expect("our folder");
            left.extend(entries.map(|entry| {
                let path = entry.expect("an entry").path();
                path.display().to_string()
            }));
        }
        left
    }
}

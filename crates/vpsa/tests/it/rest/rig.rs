//! An array, and a client that is let in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use stowage_sim::vpsa::control::{Fault, Trouble};
use stowage_sim::vpsa::{Array, Options};
use stowage_vpsa::rest::api::{Kind, NewServer, NewVolume};
use stowage_vpsa::rest::wire::Volume;
use stowage_vpsa::rest::{Api, Client, ClientOptions, Outcome, PoolId, ServerId, Trust};
use tempfile::TempDir;

pub struct Rig {
    pub array: Array,
    pub client: Arc<Client>,
    pub pool: PoolId,
    _directory: TempDir,
}

impl Rig {
    pub async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut Options)) -> Self {
        stowage_service::client::install_crypto_provider();
        let directory = tempfile::tempdir().unwrap();
        let mut options = Options::new(directory.path().join("data"));
        change(&mut options);
        let array = Array::start(options).await.unwrap();
        let client = client(&array, |_| {});
        Self {
            array,
            client,
            pool: "pool-00010001".parse().unwrap(),
            _directory: directory,
        }
    }

    pub fn api(&self) -> Api {
        self.client.within(Duration::from_secs(30))
    }

    pub fn new_volume<'a>(&'a self, name: &'a str, kind: Kind) -> NewVolume<'a> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        NewVolume {
            name,
            capacity: 10,
            pool: &self.pool,
            kind,
            options: &NONE,
        }
    }

    pub async fn volume(&self, name: &str, kind: Kind) -> Volume {
        let api = self.api();
        let made = api.create_volume(&self.new_volume(name, kind)).await;
        let id = done(made.unwrap());
        api.volume(&id).await.unwrap().unwrap()
    }

    pub async fn server(&self, name: &str, ip: &str) -> ServerId {
        let iqn = format!("iqn.2026-01.test:{name}");
        let new = NewServer {
            display_name: name,
            ip: Some(ip),
            iqn: Some(&iqn),
            chap: None,
        };
        done(self.api().create_server(&new).await.unwrap())
    }

    /// Waits until every fault has struck as often as it was to.
    pub async fn struck(&self) {
        while self.array.control().faults_left().await.unwrap() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The next requests that fit get into trouble.
    pub async fn fault(&self, method: &str, path: &str, times: u32, trouble: impl Into<Trouble>) {
        let fault = Fault {
            method: Some(method.to_owned()),
            path: Some(path.to_owned()),
            times: Some(times),
            trouble: trouble.into(),
            ..Fault::default()
        };
        self.array.control().add_fault(fault).await.unwrap();
    }
}

pub fn client(array: &Array, change: impl FnOnce(&mut ClientOptions)) -> Arc<Client> {
    let mut options = ClientOptions::new(
        array.hostname().parse().unwrap(),
        Trust::Plain,
        SecretString::from(array.access_key()),
    );
    change(&mut options);
    Arc::new(Client::new(options).unwrap())
}

/// What was told, if it was done at once.
pub fn done<T>(outcome: Outcome<T>) -> T {
    outcome.done().expect("it was submitted")
}

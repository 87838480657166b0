//! The fewest requests that could make a volume and delete it, by somebody who knows arrays, pools and names beforehand.

use std::collections::HashMap;

use anyhow::{Context, ensure};
use parking_lot::Mutex;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::stage::Arrays;

/// How many calls are under way on one array at a time: as many as the driver makes, which spares arrays that people use.
const CALLS: usize = 8;

/// A client of all arrays, which takes them in turns.
pub struct Bare {
    http: reqwest::Client,
    arrays: Vec<Target>,
    pool: String,
    made: Mutex<HashMap<String, String>>,
}

/// One array.
struct Target {
    url: String,
    access_key: String,
    calls: Semaphore,
}

impl Bare {
    pub async fn connect(arrays: &Arrays) -> anyhow::Result<Self> {
        let bare = Self {
            http: reqwest::Client::builder()
                .no_proxy()
                .tls_certs_only(std::iter::empty())
                .build()?,
            arrays: arrays
                .urls()
                .into_iter()
                .map(|(url, access_key)| Target {
                    url,
                    access_key,
                    calls: Semaphore::new(CALLS),
                })
                .collect(),
            pool: String::new(),
            made: Mutex::default(),
        };
        let pools = bare.call(0, Method::GET, "pools", json!(null)).await?;
        let pool = pools["pools"][0]["name"].as_str();
        Ok(Self {
            pool: pool.context("an array without a pool")?.to_owned(),
            ..bare
        })
    }

    /// Makes it, and looks where it is.
    pub async fn make(&self, number: usize, name: &str) -> anyhow::Result<()> {
        let volume = json!({"name": name, "capacity": "1G", "pool": self.pool, "block": "NO"});
        let made = self.call(number, Method::POST, "volumes", volume).await?;
        let id = made["vol_name"].as_str();
        let id = id.context("a volume without identity")?.to_owned();
        let path = format!("volumes/{id}");
        let found = self.call(number, Method::GET, &path, json!(null)).await?;
        ensure!(
            found["volume"]["nfs_export_path"].is_string(),
            "a share that is nowhere: {found}"
        );
        self.made.lock().insert(name.to_owned(), id);
        Ok(())
    }

    /// Deletes it, and takes it out of the recycle bin.
    pub async fn delete(&self, number: usize, name: &str) -> anyhow::Result<()> {
        let id = self.made.lock().remove(name).context("it was not made")?;
        let force = json!({"force": "YES"});
        let path = format!("volumes/{id}");
        self.call(number, Method::DELETE, &path, force).await?;
        let path = format!("volumes/{id}/delete_volume_from_recycle_bin");
        self.call(number, Method::DELETE, &path, json!(null))
            .await?;
        Ok(())
    }

    async fn call(
        &self,
        number: usize,
        method: Method,
        path: &str,
        body: Value,
    ) -> anyhow::Result<Value> {
        let array = &self.arrays[number % self.arrays.len()];
        let _turn = array.calls.acquire().await?;
        let url = format!("{}/{path}.json", array.url);
        let mut request = self.http.request(method, url);
        request = request.header("X-Access-Key", &array.access_key);
        if !body.is_null() {
            request = request.json(&body);
        }
        let answer: Value = request.send().await?.error_for_status()?.json().await?;
        let answer = &answer["response"];
        ensure!(
            answer["status"] == 0,
            "the array says no to {path}: {answer}"
        );
        Ok(answer.clone())
    }
}

//! The fewest requests that could make a volume and delete it, by somebody who knows arrays, pools and names beforehand.

use std::collections::HashMap;

use anyhow::{Context, ensure};
use parking_lot::Mutex;
use reqwest::Method;
use serde_json::{Value, json};

use super::stage::Arrays;

/// A client of all arrays, which takes them in turns.
pub struct Bare {
    http: reqwest::Client,
    arrays: Vec<(String, String)>,
    pool: String,
    made: Mutex<HashMap<String, String>>,
}

impl Bare {
    pub async fn connect(arrays: &Arrays) -> anyhow::Result<Self> {
        let bare = Self {
            http: reqwest::Client::builder()
                .no_proxy()
                .tls_certs_only(std::iter::empty())
                .build()?,
            arrays: arrays.urls(),
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
        let (url, key) = &self.arrays[number % self.arrays.len()];
        let url = format!("{url}/{path}.json");
        let mut request = self.http.request(method, url).header("X-Access-Key", key);
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

//! A cluster, and a client that says only what it is told to.

use reqwest::Method;
use serde_json::{Value, json};
use stowage_sim::weka::{Array, Options};
use tempfile::TempDir;

pub struct Rig {
    pub array: Array,
    pub data: TempDir,
}

impl Rig {
    pub async fn start(change: impl FnOnce(&mut Options)) -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut options = Options::new(data.path());
        change(&mut options);
        let array = Array::start(options).await.unwrap();
        Self { array, data }
    }

    /// Things take long enough to be seen on a busy machine.
    pub async fn slow() -> Self {
        let long = std::time::Duration::from_secs(2);
        Self::start(|options| {
            (options.creation_delay, options.removal_delay) = (long, long);
            options.quota_delay = long;
        })
        .await
    }

    pub async fn release(release: &str) -> Self {
        Self::start(|options| options.release = Some(release.parse().unwrap())).await
    }

    pub async fn admin(&self) -> Client {
        self.user("admin", "admin", "Root").await
    }

    pub async fn user(&self, name: &str, password: &str, org: &str) -> Client {
        Client::log_in(&self.array.url(), name, password, org).await
    }
}

#[derive(Clone)]
pub struct Client {
    url: String,
    http: reqwest::Client,
    pub token: String,
    pub refresh_token: String,
}

pub struct Reply {
    pub status: u16,
    pub body: Value,
}

impl Reply {
    pub fn data(&self) -> &Value {
        assert_eq!(self.status, 200, "{}", self.body);
        &self.body["data"]
    }

    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap()
    }

    pub fn names(&self) -> Vec<&str> {
        let items = self.data().as_array().unwrap();
        items.iter().map(|i| i["name"].as_str().unwrap()).collect()
    }
}

impl Client {
    pub fn anonymous(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            http: reqwest::Client::new(),
            token: String::new(),
            refresh_token: String::new(),
        }
    }

    pub async fn log_in(url: &str, name: &str, password: &str, org: &str) -> Self {
        let mut client = Self::anonymous(url);
        let body = json!({ "username": name, "password": password, "org": org });
        let reply = client.post("login", body).await;
        let text = |field: &str| reply.data()[field].as_str().unwrap().to_owned();
        client.token = text("access_token");
        client.refresh_token = text("refresh_token");
        client
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.call(Method::GET, path, None).await.unwrap()
    }

    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.call(Method::POST, path, Some(body)).await.unwrap()
    }

    pub async fn put(&self, path: &str, body: Value) -> Reply {
        self.call(Method::PUT, path, Some(body)).await.unwrap()
    }

    pub async fn delete(&self, path: &str) -> Reply {
        self.call(Method::DELETE, path, None).await.unwrap()
    }

    pub async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Reply, reqwest::Error> {
        let mut request = self.http.request(method, format!("{}/{path}", self.url));
        if !self.token.is_empty() {
            request = request.bearer_auth(&self.token);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await?;
        Ok(Reply {
            status: response.status().as_u16(),
            body: response.json().await?,
        })
    }

    pub async fn default_uid(&self) -> String {
        let reply = self.get("fileSystems?name=default").await;
        let found = reply.data().as_array().unwrap().iter();
        let default = found.into_iter().find(|f| f["name"] == "default").unwrap();
        default["uid"].as_str().unwrap().to_owned()
    }

    pub async fn create_filesystem(&self, name: &str) -> Reply {
        let body = json!({ "name": name, "group_name": "default", "total_capacity": 1 << 30 });
        self.post("fileSystems", body).await
    }
}

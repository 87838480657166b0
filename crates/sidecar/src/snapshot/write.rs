//! Reads and writes of contents. Upstream's role allows `get` and `patch`.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;
use kube::{Api, Client};
use serde::Deserialize;
use serde_json::{Value, json};
use stowage_api::snapshot::names::{ContentNames, GROUP_V1BETA1, YES};
use stowage_api::snapshot::{VolumeGroupSnapshotContent, VolumeSnapshotContent};
use stowage_kubernetes::json_patch::{ObjectPatch, PARAMS};
use stowage_kubernetes::object_error::{ObjectError, explain};
use stowage_kubernetes::served;

use crate::cluster::content::{Content, Kind};
use crate::cluster::wire::{ContentSpec, ContentStatus};

/// Reads and writes contents of one kind.
pub(super) struct Writer {
    kind: Kind,
    version: &'static str,
    driver: String,
    plural: String,
    api: Api<DynamicObject>,
}

impl Writer {
    pub(super) fn new(client: &Client, kind: Kind, version: &'static str, driver: &str) -> Self {
        let resource = match kind {
            Kind::Single => served::at::<VolumeSnapshotContent>(Some(version)),
            Kind::Group => served::at::<VolumeGroupSnapshotContent>(Some(version)),
        };
        Self {
            kind,
            version,
            driver: driver.to_owned(),
            api: Api::all_with(client.clone(), &resource),
            plural: resource.plural,
        }
    }

    fn names(&self) -> &'static ContentNames {
        self.kind.names()
    }

    /// For events.
    pub(super) fn reference(&self, content: &Content) -> ObjectReference {
        let (name, uid) = (&content.name, &content.uid);
        self.names().reference(self.version, name, uid)
    }

    pub(super) async fn read(&self, name: &str) -> Result<Content, ObjectError> {
        let found = self.api.get(name).await;
        self.content(found.map_err(explain("get", self.plural.clone()))?)
    }

    /// Writes down that a call may be under way. Called twice: it stays written down.
    pub(super) async fn mark(&self, content: &Content) -> Result<Content, ObjectError> {
        let key = self.names().being_created;
        let patch = ObjectPatch::of(&content.uid).set_annotation(content.annotated, key, YES);
        self.patch(content, patch).await
    }

    pub(super) async fn unmark(&self, content: &Content) -> Result<Content, ObjectError> {
        let patch = ObjectPatch::of(&content.uid).remove_annotation(self.names().being_created);
        self.patch(content, patch).await
    }

    /// Lets the content go. Called twice: the second finds it gone.
    pub(super) async fn release(&self, content: &Content) -> Result<(), ObjectError> {
        let finalizer = self.names().finalizer;
        let patch = ObjectPatch::of(&content.uid).remove_finalizer(&content.finalizers, finalizer);
        self.patch(content, patch).await.map(|_| ())
    }

    /// Replaces the status.
    pub(super) async fn set_status(
        &self,
        content: &Content,
        mut status: Value,
    ) -> Result<Content, ObjectError> {
        if self.version == GROUP_V1BETA1 {
            add_pairs(&mut status);
        }
        let patch = ObjectPatch::of(&content.uid).set(["status"], status);
        self.patch_status(content, patch).await
    }

    /// Adds an error to the status. A content that was never looked at has no status yet.
    pub(super) async fn set_error(
        &self,
        content: &Content,
        message: &str,
    ) -> Result<(), ObjectError> {
        let error = json!({ "time": Time(Timestamp::now()), "message": message });
        let known = content.state.handle.is_some() || content.state.error.is_some();
        let patch = ObjectPatch::of(&content.uid);
        let patch = if known {
            patch
                .set(["status", "error"], error)
                .set(["status", "readyToUse"], json!(false))
        } else {
            patch.set(["status"], json!({ "error": error, "readyToUse": false }))
        };
        self.patch_status(content, patch).await.map(|_| ())
    }

    async fn patch(&self, content: &Content, patch: ObjectPatch) -> Result<Content, ObjectError> {
        let done = self
            .api
            .patch(&content.name, &PARAMS, &patch.into_patch())
            .await;
        self.content(done.map_err(explain("patch", self.plural.clone()))?)
    }

    async fn patch_status(
        &self,
        content: &Content,
        patch: ObjectPatch,
    ) -> Result<Content, ObjectError> {
        let done = self
            .api
            .patch_status(&content.name, &PARAMS, &patch.into_patch())
            .await;
        let status = format!("{}/status", self.plural);
        self.content(done.map_err(explain("patch", status))?)
    }

    fn content(&self, object: DynamicObject) -> Result<Content, ObjectError> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Body {
            spec: ContentSpec,
            status: ContentStatus,
        }
        let body = Body::deserialize(object.data).map_err(ObjectError::unreadable)?;
        Content::read(
            self.kind,
            object.metadata,
            body.spec,
            body.status,
            &self.driver,
        )
        .ok_or_else(|| ObjectError::Gone(self.plural.clone().into()))
    }
}

/// Members as `v1beta1` has them. A server drops the field it does not know, and keeps the other.
fn add_pairs(status: &mut Value) {
    let members = status["volumeSnapshotInfoList"].as_array();
    let pair = |member: &Value| {
        json!({
            "volumeHandle": member["volumeHandle"],
            "snapshotHandle": member["snapshotHandle"],
        })
    };
    let pairs: Option<Vec<_>> = members.map(|members| members.iter().map(pair).collect());
    if let Some(pairs) = pairs {
        status["volumeSnapshotHandlePairList"] = pairs.into();
    }
}

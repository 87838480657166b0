//! Reads and writes of requests and contents. Patches name the uid: another object of the same name is left alone.

use kube::api::{DynamicObject, PostParams};
use kube::{Api, Client};
use serde_json::Value;
use stowage_api::snapshot::{
    VolumeGroupSnapshot, VolumeGroupSnapshotContent, VolumeSnapshot, VolumeSnapshotContent,
};
use stowage_kubernetes::answer::Answer;
use stowage_kubernetes::deletion::delete;
use stowage_kubernetes::json_patch::{ObjectPatch, PARAMS};
use stowage_kubernetes::object_error::{ObjectError, explain};
use stowage_kubernetes::served;

use crate::cluster::Scope;
use crate::content::Content;
use crate::request::{Kind, Request};

pub(crate) const CLAIMS: &str = "persistentvolumeclaims";
pub(crate) const VOLUMES: &str = "persistentvolumes";

/// Reads and writes.
#[derive(Clone)]
pub(crate) struct Writer {
    pub(crate) client: Client,
    pub(crate) scope: Scope,
}

impl Writer {
    fn requests(&self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        let version = Some(self.scope.version(kind));
        let resource = match kind {
            Kind::Single => served::at::<VolumeSnapshot>(version),
            Kind::Group => served::at::<VolumeGroupSnapshot>(version),
        };
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }

    fn contents(&self, kind: Kind) -> Api<DynamicObject> {
        let version = Some(self.scope.version(kind));
        let resource = match kind {
            Kind::Single => served::at::<VolumeSnapshotContent>(version),
            Kind::Group => served::at::<VolumeGroupSnapshotContent>(version),
        };
        Api::all_with(self.client.clone(), &resource)
    }

    /// Changes a request; `changes` come after the test of its uid.
    pub(crate) async fn change(
        &self,
        request: &Request,
        changes: ObjectPatch,
    ) -> Result<Request, ObjectError> {
        let api = self.requests(request.kind, &request.namespace);
        let patch = ObjectPatch::of(&request.uid).and(changes).into_patch();
        let written = api.patch(&request.name, &PARAMS, &patch).await;
        let written = written.map_err(explain("patch", requests(request.kind)))?;
        read_request(request.kind, written)
    }

    pub(crate) async fn set_status(
        &self,
        request: &Request,
        status: Value,
    ) -> Result<Request, ObjectError> {
        let api = self.requests(request.kind, &request.namespace);
        let patch = ObjectPatch::of(&request.uid)
            .set(["status"], status)
            .into_patch();
        let changed = api.patch_status(&request.name, &PARAMS, &patch).await;
        let changed = changed.map_err(explain("patch", status_of(requests(request.kind))))?;
        read_request(request.kind, changed)
    }

    /// Makes a request, or finds it made.
    pub(crate) async fn create_request(
        &self,
        kind: Kind,
        namespace: &str,
        object: &Value,
    ) -> Result<Request, ObjectError> {
        let api = self.requests(kind, namespace);
        let made = create(&api, object, requests(kind)).await?;
        read_request(kind, made)
    }

    /// Called twice: it is being deleted already, or gone.
    pub(crate) async fn delete_request(&self, request: &Request) -> Result<(), ObjectError> {
        let api = self.requests(request.kind, &request.namespace);
        let deleted = delete(&api, &request.name, &request.uid).await;
        deleted.map_err(explain("delete", requests(request.kind)))
    }

    /// Whether the server still has this very request.
    pub(crate) async fn exists(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<bool, ObjectError> {
        let found = self.requests(kind, namespace).get_opt(name).await;
        let found = found.map_err(explain("get", requests(kind)))?;
        Ok(found.is_some_and(|found| found.metadata.uid.as_deref() == Some(uid)))
    }

    pub(crate) async fn content(
        &self,
        kind: Kind,
        name: &str,
    ) -> Result<Option<Content>, ObjectError> {
        let found = self.contents(kind).get(name).await;
        match found.map_err(explain("get", contents(kind))) {
            Ok(object) => read_content(kind, object).map(Some),
            Err(ObjectError::Gone(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Changes a content; `changes` come after the test of its uid.
    pub(crate) async fn change_content(
        &self,
        content: &Content,
        changes: ObjectPatch,
    ) -> Result<Content, ObjectError> {
        let api = self.contents(content.kind);
        let patch = ObjectPatch::of(&content.uid).and(changes).into_patch();
        let written = api.patch(&content.name, &PARAMS, &patch).await;
        let written = written.map_err(explain("patch", contents(content.kind)))?;
        read_content(content.kind, written)
    }

    pub(crate) async fn set_content_status(
        &self,
        content: &Content,
        status: Value,
    ) -> Result<(), ObjectError> {
        let api = self.contents(content.kind);
        let patch = ObjectPatch::of(&content.uid)
            .set(["status"], status)
            .into_patch();
        let changed = api.patch_status(&content.name, &PARAMS, &patch).await;
        changed.map_err(explain("patch", status_of(contents(content.kind))))?;
        Ok(())
    }

    /// Makes a content, or finds it made.
    pub(crate) async fn create_content(
        &self,
        kind: Kind,
        object: &Value,
    ) -> Result<Content, ObjectError> {
        let made = create(&self.contents(kind), object, contents(kind)).await?;
        read_content(kind, made)
    }

    /// Called twice: it is being deleted already, or gone.
    pub(crate) async fn delete_content(&self, content: &Content) -> Result<(), ObjectError> {
        let api = self.contents(content.kind);
        let deleted = delete(&api, &content.name, &content.uid).await;
        deleted.map_err(explain("delete", contents(content.kind)))
    }
}

async fn create(
    api: &Api<DynamicObject>,
    object: &Value,
    kind: &'static str,
) -> Result<DynamicObject, ObjectError> {
    let object: DynamicObject =
        serde_json::from_value(object.clone()).map_err(ObjectError::unreadable)?;
    match api.create(&PostParams::default(), &object).await {
        Err(error) if Answer::of(&error) == Answer::Conflict => {
            let name = object.metadata.name.unwrap_or_default();
            api.get(&name).await.map_err(explain("get", kind))
        }
        made => made.map_err(explain("create", kind)),
    }
}

fn read_request(kind: Kind, object: DynamicObject) -> Result<Request, ObjectError> {
    let read = match kind {
        Kind::Single => object.try_parse().map(Request::read_single),
        Kind::Group => object.try_parse().map(Request::read_group),
    };
    let read = read.ok().flatten();
    read.ok_or_else(|| ObjectError::Conflict(requests(kind).into()))
}

fn read_content(kind: Kind, object: DynamicObject) -> Result<Content, ObjectError> {
    let read = match kind {
        Kind::Single => object.try_parse().map(Content::read_single),
        Kind::Group => object.try_parse().map(Content::read_group),
    };
    let read = read.ok().flatten();
    read.ok_or_else(|| ObjectError::Conflict(contents(kind).into()))
}

/// As roles name them.
fn requests(kind: Kind) -> &'static str {
    match kind {
        Kind::Single => "volumesnapshots",
        Kind::Group => "volumegroupsnapshots",
    }
}

fn contents(kind: Kind) -> &'static str {
    match kind {
        Kind::Single => "volumesnapshotcontents",
        Kind::Group => "volumegroupsnapshotcontents",
    }
}

fn status_of(kind: &str) -> String {
    format!("{kind}/status")
}

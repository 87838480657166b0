//! Reads and writes of requests and contents. Patches name the uid: another object of the same name is left alone.

use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams, Preconditions};
use kube::{Api, Client};
use serde_json::Value;
use stowage_api::snapshot::{
    VolumeGroupSnapshot, VolumeGroupSnapshotContent, VolumeSnapshot, VolumeSnapshotContent,
};
use stowage_kubernetes::answer::Answer;
use stowage_kubernetes::json_patch::{ObjectPatch, PARAMS};

use crate::content::Content;
use crate::failure::{Failure, explain};
use crate::request::{Kind, Request};

const REQUEST: &str = "the snapshot";
const CONTENT: &str = "the content";

/// Reads and writes.
#[derive(Clone)]
pub(crate) struct Writer {
    pub(crate) client: Client,
}

impl Writer {
    fn requests(&self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        let resource = match kind {
            Kind::Single => ApiResource::erase::<VolumeSnapshot>(&()),
            Kind::Group => ApiResource::erase::<VolumeGroupSnapshot>(&()),
        };
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }

    fn contents(&self, kind: Kind) -> Api<DynamicObject> {
        let resource = match kind {
            Kind::Single => ApiResource::erase::<VolumeSnapshotContent>(&()),
            Kind::Group => ApiResource::erase::<VolumeGroupSnapshotContent>(&()),
        };
        Api::all_with(self.client.clone(), &resource)
    }

    /// Changes a request; `changes` come after the test of its uid.
    pub(crate) async fn change(
        &self,
        request: &Request,
        changes: ObjectPatch,
    ) -> Result<Request, Failure> {
        let api = self.requests(request.kind, &request.namespace);
        let patch = ObjectPatch::of(&request.uid).and(changes).into_patch();
        let written = api.patch(&request.name, &PARAMS, &patch).await;
        read_request(request.kind, written.map_err(explain("patch", REQUEST))?)
    }

    pub(crate) async fn set_status(
        &self,
        request: &Request,
        status: Value,
    ) -> Result<Request, Failure> {
        let api = self.requests(request.kind, &request.namespace);
        let patch = ObjectPatch::of(&request.uid)
            .set(["status"], status)
            .into_patch();
        let changed = api.patch_status(&request.name, &PARAMS, &patch).await;
        read_request(request.kind, changed.map_err(explain("patch", REQUEST))?)
    }

    /// Makes a request, or finds it made.
    pub(crate) async fn create_request(
        &self,
        kind: Kind,
        namespace: &str,
        object: &Value,
    ) -> Result<Request, Failure> {
        let api = self.requests(kind, namespace);
        let made = create(&api, object, REQUEST).await?;
        read_request(kind, made)
    }

    /// Called twice: it is being deleted already, or gone.
    pub(crate) async fn delete_request(&self, request: &Request) -> Result<(), Failure> {
        let api = self.requests(request.kind, &request.namespace);
        delete(&api, &request.name, &request.uid, REQUEST).await
    }

    pub(crate) async fn content(&self, kind: Kind, name: &str) -> Result<Option<Content>, Failure> {
        let found = self.contents(kind).get(name).await;
        match found.map_err(explain("get", CONTENT)) {
            Ok(object) => read_content(kind, object).map(Some),
            Err(Failure::Gone(_)) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Changes a content; `changes` come after the test of its uid.
    pub(crate) async fn change_content(
        &self,
        content: &Content,
        changes: ObjectPatch,
    ) -> Result<Content, Failure> {
        let api = self.contents(content.kind);
        let patch = ObjectPatch::of(&content.uid).and(changes).into_patch();
        let written = api.patch(&content.name, &PARAMS, &patch).await;
        read_content(content.kind, written.map_err(explain("patch", CONTENT))?)
    }

    pub(crate) async fn set_content_status(
        &self,
        content: &Content,
        status: Value,
    ) -> Result<(), Failure> {
        let api = self.contents(content.kind);
        let patch = ObjectPatch::of(&content.uid)
            .set(["status"], status)
            .into_patch();
        let changed = api.patch_status(&content.name, &PARAMS, &patch).await;
        changed.map_err(explain("patch", CONTENT)).map(|_| ())
    }

    /// Makes a content, or finds it made.
    pub(crate) async fn create_content(
        &self,
        kind: Kind,
        object: &Value,
    ) -> Result<Content, Failure> {
        let made = create(&self.contents(kind), object, CONTENT).await?;
        read_content(kind, made)
    }

    /// Called twice: it is being deleted already, or gone.
    pub(crate) async fn delete_content(&self, content: &Content) -> Result<(), Failure> {
        let api = self.contents(content.kind);
        delete(&api, &content.name, &content.uid, CONTENT).await
    }
}

async fn create(
    api: &Api<DynamicObject>,
    object: &Value,
    what: &'static str,
) -> Result<DynamicObject, Failure> {
    let unreadable = |error| Failure::Server(Box::new(kube::Error::SerdeError(error)));
    let object: DynamicObject = serde_json::from_value(object.clone()).map_err(unreadable)?;
    match api.create(&PostParams::default(), &object).await {
        Err(error) if Answer::of(&error) == Answer::Conflict => {
            let name = object.metadata.name.unwrap_or_default();
            api.get(&name).await.map_err(explain("get", what))
        }
        made => made.map_err(explain("create", what)),
    }
}

async fn delete(
    api: &Api<DynamicObject>,
    name: &str,
    uid: &str,
    what: &'static str,
) -> Result<(), Failure> {
    let params = DeleteParams::default().preconditions(Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: None,
    });
    match api
        .delete(name, &params)
        .await
        .map_err(explain("delete", what))
    {
        Ok(_) | Err(Failure::Gone(_)) => Ok(()),
        Err(failure) => Err(failure),
    }
}

fn read_request(kind: Kind, object: DynamicObject) -> Result<Request, Failure> {
    let read = match kind {
        Kind::Single => object.try_parse().map(Request::read_single),
        Kind::Group => object.try_parse().map(Request::read_group),
    };
    read.ok().flatten().ok_or(Failure::Stale(REQUEST))
}

fn read_content(kind: Kind, object: DynamicObject) -> Result<Content, Failure> {
    let read = match kind {
        Kind::Single => object.try_parse().map(Content::read_single),
        Kind::Group => object.try_parse().map(Content::read_group),
    };
    read.ok().flatten().ok_or(Failure::Stale(CONTENT))
}

#![allow(missing_docs, unused)]
use k8s_openapi::api::core::v1::ObjectReference;
use tokio_util::sync::CancellationToken;
#[derive(Clone)]
pub struct Events;
impl Events {
    pub fn new(_: kube::Client, _: &str, _: &stowage_service::Metrics) -> Self {
        Self
    }
    pub fn normal(&self, _: ObjectReference, _: &'static str, _: impl Into<String>) {}
    pub fn warning(&self, _: ObjectReference, _: &'static str, _: impl Into<String>) {}
    pub async fn run(&self, stop: CancellationToken) {
        stop.cancelled().await
    }
}

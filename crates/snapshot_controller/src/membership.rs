//! Which single snapshots belong to which group.
//!
//! Members that are made here name their group as their owner from the start. Of those that somebody brought here their contents
//! tell: the driver says of which group a snapshot is. They get the same owner then.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};
use stowage_kubernetes::json_patch::ObjectPatch;

use crate::cluster::Cluster;
use crate::content::{Content, Origin};
use crate::failure::Failure;
use crate::request::{Kind, Request, by};
use crate::worker::Worker;

impl Cluster {
    /// The group that a single snapshot belongs to, if that is there.
    pub(crate) fn group_request(&self, request: &Request) -> Result<Option<Arc<Request>>, Failure> {
        let groups = self.requests.of(Kind::Group);
        if let Some(uid) = &request.group {
            let group = groups.store().get(uid);
            if group.is_none() && groups.is_unreadable(uid) {
                return Err(Failure::GroupUnreadable(uid.clone()));
            }
            return Ok(group);
        }
        let key = request.group_key();
        let named = key.and_then(|key| groups.store().in_group(&by::name(&key)).pop());
        Ok(named)
    }

    /// The members of a group: they go with it.
    pub(crate) fn members(&self, group: &Request) -> Vec<Arc<Request>> {
        let all = self.requests.of(Kind::Single).store();
        let mut members = all.in_group(&by::group(&group.uid));
        members.extend(all.in_group(&by::group_name(&group.key())));
        members
    }

    /// Snapshots that are not members of this group here, and lose their data with it. Of groups that were taken here there are
    /// none that nobody brought.
    pub(crate) fn others_with_members_of(&self, group: &Request, content: &Content) -> Vec<String> {
        if content.source != Origin::Existing || !content.goes_too() {
            return Vec::new();
        }
        let members = self.members(group);
        let is_member = |uid: &str| members.iter().any(|member| member.uid == uid);
        let requests = self.requests.of(Kind::Single).store();
        let mut others = Vec::new();
        for single in self.contents.of(Kind::Single).store().all() {
            if single.driver != content.driver || !stands_for_member(&single, content) {
                continue;
            }
            let owners = requests.in_group(&by::name(&single.owner));
            let mut owners = owners.iter().filter(|owner| single.is_of(owner));
            if owners.any(|owner| !is_member(&owner.uid)) {
                others.push(single.owner.clone());
            }
        }
        others.sort();
        others
    }
}

fn stands_for_member(single: &Content, group: &Content) -> bool {
    let of_group = single.state.group.is_some() && single.state.group == group.state.handle;
    of_group
        || single
            .snapshots()
            .any(|handle| group.snapshots().any(|member| member == handle))
}

impl Worker {
    /// Lets a member that was brought here name its group as its owner. Called twice: it does so already.
    pub(crate) async fn join_group(
        &self,
        request: &Request,
        content: &Content,
    ) -> Result<(), Failure> {
        if self.kind != Kind::Single || request.group.is_some() {
            return Ok(());
        }
        let mut named = request.clone();
        let group = &mut named.status.group;
        *group = group
            .take()
            .or_else(|| self.cluster.group_of(request, content));
        let group = self.cluster.group_request(&named)?;
        let Some(group) = group.filter(|group| !group.deleting) else {
            return Ok(());
        };
        let mut owners = request.owners.clone();
        owners.push(OwnerReference {
            api_version: self.scope.version(Kind::Group).to_owned(),
            kind: "VolumeGroupSnapshot".to_owned(),
            name: group.name.clone(),
            uid: group.uid.clone(),
            ..OwnerReference::default()
        });
        let place = ["metadata", "ownerReferences"];
        // The server leaves an empty list out.
        let known = match request.owners.as_slice() {
            [] => Value::Null,
            known => json!(known),
        };
        let patch = ObjectPatch::new()
            .test(place, known)
            .set(place, json!(owners));
        self.writer.change(request, patch).await?;
        Ok(())
    }
}

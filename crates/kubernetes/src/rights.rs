//! What this process may do, as the API server sees it.

use std::fmt;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client, Error};

/// A verb on a kind, in the whole cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Plural of the kind.
    pub resource: &'static str,
    /// Such as `watch`.
    pub verb: &'static str,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

impl Right {
    /// Whether this process has it. Everybody may ask that about themselves.
    pub async fn is_granted(self, client: &Client) -> Result<bool, Error> {
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    group: Some(self.group.to_owned()),
                    resource: Some(self.resource.to_owned()),
                    verb: Some(self.verb.to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let reviews = Api::<SelfSubjectAccessReview>::all(client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}

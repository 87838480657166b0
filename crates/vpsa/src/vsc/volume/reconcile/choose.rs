//! Which array a volume is to be on.

use kube::ResourceExt as _;
use stowage_api::quantity;
use stowage_api::vpsa::{ADOPTED, Volume, VolumeState, VolumeStatus, Vpsa, VpsaState};

use super::Volumes;
use crate::vsc::allocator::{Candidate, choose};
use crate::vsc::cluster::on_array;
use crate::vsc::error::StepError;
use crate::vsc::volume::wanted::Wanted;

impl Volumes {
    /// Chooses an array, and records it before anything is made there. A clone goes where its source is.
    ///
    /// Called twice: the first choice stays, because it is recorded.
    pub(super) async fn choose(
        &self,
        volume: &Volume,
        wanted: &Result<Wanted, String>,
    ) -> Result<(), StepError> {
        if let Some(place) = volume.annotations().get(ADOPTED) {
            return self.adopt(volume, place).await;
        }
        let gigabytes = wanted.as_ref().map_or(0, |wanted| wanted.gigabytes);
        let array = match self.source(volume)? {
            Some(source) => source.array,
            None => {
                let class = &volume.spec.vsc_storage_class_name;
                let members = self.context.cluster.members(class);
                let candidates: Vec<Candidate> = members
                    .iter()
                    .map(|it| self.candidate(&it.object))
                    .collect();
                #[expect(clippy::cast_precision_loss, reason = "no volume has 2^52 GB")]
                let size = gigabytes as f64;
                choose(self.allocator, class, &candidates, size)?
                    .name
                    .clone()
            }
        };
        let status = VolumeStatus {
            state: VolumeState::Creating,
            vpsa_id: array,
            ..volume.status.clone().unwrap_or_default()
        };
        self.context.writer.set_status(volume, &status).await?;
        Ok(())
    }

    /// Records where a volume is that was somebody else's. Called twice: it is recorded.
    async fn adopt(&self, volume: &Volume, place: &str) -> Result<(), StepError> {
        let (array, id) = place.rsplit_once('/').unwrap_or_default();
        let status = VolumeStatus {
            state: VolumeState::Provisioning,
            vpsa_id: array.to_owned(),
            id: id.to_owned(),
            ..volume.status.clone().unwrap_or_default()
        };
        self.context.writer.set_status(volume, &status).await?;
        Ok(())
    }

    fn candidate(&self, array: &Vpsa) -> Candidate {
        let status = array.status.clone().unwrap_or_default();
        let capacity = status.capacity.unwrap_or_default();
        #[expect(
            clippy::cast_precision_loss,
            reason = "a fraction of a GB does not matter"
        )]
        let gigabytes = |text: &str| quantity::size(text).unwrap_or(0) as f64 / f64::from(1 << 30);
        let volumes = self
            .context
            .cluster
            .volumes
            .store()
            .in_group(&on_array(&array.name_any()));
        let sizes = volumes.iter().map(|it| gigabytes(&it.object.spec.size.0));
        let counted = status.counters.map_or(0, |it| it.volumes);
        let added = array.metadata.creation_timestamp.as_ref();
        Candidate {
            name: array.name_any(),
            state: if array.metadata.deletion_timestamp.is_some() {
                VpsaState::Deleting
            } else {
                status.state
            },
            mode: capacity.mode,
            total: gigabytes(&capacity.total.0),
            available: gigabytes(&capacity.available.0),
            provisioned: sizes.sum(),
            // What was made since the array was last looked at counts, too.
            volumes: u32::try_from(counted)
                .unwrap_or(0)
                .max(u32::try_from(volumes.len()).unwrap_or(u32::MAX)),
            added: added.map_or(0, |time| time.0.as_second()),
        }
    }
}

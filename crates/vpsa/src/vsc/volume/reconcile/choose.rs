//! Which array a volume is to be on.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use stowage_api::quantity;
use stowage_api::vpsa::{
    ADOPTED, Volume, VolumeState, VolumeStatus, VolumeTopology, Vpsa, VpsaState,
};
use stowage_kubernetes::store::Cached as _;

use super::Volumes;
use crate::vsc::allocator::{Candidate, NoArray, choose};
use crate::vsc::array::Facts;
use crate::vsc::array::facts::Room;
use crate::vsc::cluster::{is_made, on_array};
use crate::vsc::error::StepError;
use crate::vsc::reserved::Promises;
use crate::vsc::topology::{places, rank, shown};
use crate::vsc::volume::wanted::Wanted;

impl Volumes {
    /// Chooses an array, and records it before anything is made there. A clone goes where its source is.
    ///
    /// Called twice: the first choice stays, because it is recorded.
    pub(super) async fn choose(
        &self,
        volume: &Volume,
        wanted: &Result<Wanted, String>,
    ) -> Result<Volume, StepError> {
        if let Some(place) = volume.annotations().get(ADOPTED) {
            return self.adopt(volume, place).await;
        }
        let gigabytes = wanted.as_ref().map_or(0, |wanted| wanted.gigabytes);
        let class = &volume.spec.vsc_storage_class_name;
        let topology = volume.spec.topology.as_ref();
        let source = self.source(volume)?;
        let (name, reserved) = (volume.name_any(), &self.context.reserved);
        let array = reserved.choose(&name, gigabytes, |promises| {
            if let Some(source) = source {
                self.check_place(class, &source.array, topology)?;
                return Ok::<_, StepError>(source.array);
            }
            let members = self.context.cluster.members(class);
            let candidates: Vec<Candidate> = members
                .iter()
                .map(|it| self.candidate(&it.object, topology, promises))
                .collect();
            #[expect(clippy::cast_precision_loss, reason = "no volume has 2^52 GB")]
            let size = gigabytes as f64;
            let chosen = choose(self.allocator, class, &candidates, size)?;
            Ok(chosen.name.clone())
        })?;
        let status = VolumeStatus {
            state: VolumeState::Creating,
            vpsa_id: array,
            asked: None,
            ..volume.status.clone().unwrap_or_default()
        };
        let written = self.context.writer.set_status(volume, &status).await;
        // What is written after all is known from the object.
        Ok(written.inspect_err(|_| reserved.release(&name))?)
    }

    /// Makes sure that the array is not to go. Otherwise the choice is taken back: another is made with the next look.
    ///
    /// An array goes once a list shows no volume on it. Whoever is not in that list has chosen it later, when it was to go
    /// already: that is seen here, before anything is made.
    pub(super) async fn check(&self, volume: &Volume) -> Result<(), StepError> {
        let before = volume.status.clone().unwrap_or_default();
        let name = before.vpsa_id.clone();
        let array: Option<Vpsa> = self.context.writer.read(&name).await?;
        if array.is_some_and(|it| it.metadata.deletion_timestamp.is_none()) {
            return Ok(());
        }
        let status = VolumeStatus {
            vpsa_id: String::new(),
            ..before
        };
        self.context.writer.set_status(volume, &status).await?;
        self.context.reserved.release(&volume.name_any());
        // Not at once: what is known of arrays may be behind, and the same would be chosen again.
        let text = format!("VPSA `{name}`, which was chosen for it, is being deleted");
        Err(StepError::Missing(text))
    }

    /// Writes down that the array is asked from now on. Called twice: it is written down.
    pub(super) async fn begin(&self, volume: &Volume) -> Result<Volume, StepError> {
        let status = VolumeStatus {
            state: if volume.spec.clone_source.is_some() {
                VolumeState::Cloning
            } else {
                VolumeState::Provisioning
            },
            asked: Some(Time(Timestamp::now())),
            ..volume.status.clone().unwrap_or_default()
        };
        Ok(self.context.writer.set_status(volume, &status).await?)
    }

    /// A copy is where its source is.
    fn check_place(
        &self,
        class: &str,
        array: &str,
        topology: Option<&VolumeTopology>,
    ) -> Result<(), StepError> {
        let kept = self.context.cluster.arrays.store().get(array);
        let places = kept.map(|it| places(&self.context.cluster, &it.object));
        let places = places.unwrap_or_default();
        if rank(&places, topology).is_some() {
            return Ok(());
        }
        let reason = format!(
            "{array}: its source is there, and it is reached only from nodes with {}",
            shown(&places)
        );
        Err(StepError::Allocation(NoArray::Refused {
            class: class.to_owned(),
            reasons: vec![reason],
        }))
    }

    /// Records where a volume is that was somebody else's. Called twice: it is recorded.
    async fn adopt(&self, volume: &Volume, place: &str) -> Result<Volume, StepError> {
        let (array, id) = place.rsplit_once('/').unwrap_or_default();
        let status = VolumeStatus {
            state: VolumeState::Provisioning,
            vpsa_id: array.to_owned(),
            id: id.to_owned(),
            ..volume.status.clone().unwrap_or_default()
        };
        Ok(self.context.writer.set_status(volume, &status).await?)
    }

    /// An array as somebody sees it who chooses now: what others were promised is not free, whether it is made or not.
    fn candidate(
        &self,
        array: &Vpsa,
        topology: Option<&VolumeTopology>,
        promises: &Promises,
    ) -> Candidate {
        let (name, cluster) = (array.name_any(), &self.context.cluster);
        let status = array.status.clone().unwrap_or_default();
        let room = self.room(array);
        let volumes = cluster.volumes.store().in_group(&on_array(&name));
        let in_gb = |volume: &Volume| gigabytes(&volume.spec.size);
        let provisioned: f64 = volumes.iter().map(|it| in_gb(&it.object)).sum();
        let taken: f64 = promises.of(&name).map(|(_, gigabytes)| gigabytes).sum();
        // Chosen by whoever led before.
        let inherited = volumes
            .iter()
            .filter(|it| !is_made(&it.object) && !promises.has(it.key()));
        let inherited: f64 = inherited.map(|it| in_gb(&it.object)).sum();
        let unseen = promises.of(&name).filter(|(volume, _)| {
            let kept = cluster.volumes.store().get(volume);
            !kept.is_some_and(|it| is_on(&it.object, &name))
        });
        let unseen: Vec<f64> = unseen.map(|(_, gigabytes)| gigabytes).collect();
        let counted = status.counters.map_or(0, |it| it.volumes);
        // What was made since the array was last looked at counts, too.
        let known = volumes.len().max(usize::try_from(counted).unwrap_or(0));
        let added = array.metadata.creation_timestamp.as_ref();
        let places = places(cluster, array);
        Candidate {
            state: if array.metadata.deletion_timestamp.is_some() {
                VpsaState::Deleting
            } else {
                status.state
            },
            mode: room.mode,
            total: room.total,
            available: (room.available - taken - inherited).max(0.0),
            refused: promises.refused(&name).cloned(),
            provisioned: provisioned + unseen.iter().sum::<f64>(),
            volumes: u32::try_from(known + unseen.len()).unwrap_or(u32::MAX),
            added: added.map_or(0, |time| time.0.as_second()),
            rank: rank(&places, topology),
            places,
            name,
        }
    }

    /// How much room an array last told of, for volumes of its class.
    fn room(&self, array: &Vpsa) -> Room {
        if let Some(pools) = self.context.pools.known(&array.name_any()) {
            let classes = self.context.cluster.classes.store();
            let class = classes.get(&array.spec.vsc_storage_class_name);
            let pool = class
                .as_ref()
                .and_then(|it| it.object.spec.pool_name.as_deref());
            return Facts::of_pools(pools).room(pool);
        }
        let capacity = array.status.as_ref().and_then(|it| it.capacity.clone());
        let capacity = capacity.unwrap_or_default();
        Room {
            total: gigabytes(&capacity.total),
            available: gigabytes(&capacity.available),
            mode: capacity.mode,
        }
    }
}

fn is_on(volume: &Volume, array: &str) -> bool {
    let status = volume.status.as_ref();
    status.is_some_and(|status| status.vpsa_id == array)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a fraction of a GB does not matter"
)]
fn gigabytes(size: &Quantity) -> f64 {
    quantity::size(&size.0).unwrap_or(0) as f64 / f64::from(1 << 30)
}

//! New keys, in the steps that the guide has, while a disk is in use.

use std::fs;
use std::path::Path;

use devcluster::isolated;
use serde_json::{Value, json};
use tonic::Code;

use crate::driver::life::write;
use crate::driver::rig::Rig;

const TOKENS: &str = "GLOBAL_ENCRYPTION_KEY";
const LOGINS: &str = "CHAP_ENCRYPTION_KEY";

impl Rig {
    /// Restarts the driver with these keys; of each pair the first writes.
    async fn restart_with(&mut self, tokens: &[&str], logins: &[&str]) {
        self.stop_driver().await;
        let keys = self.path("keys");
        fs::remove_dir_all(&keys).unwrap();
        fs::create_dir(&keys).unwrap();
        for (name, letters) in [(TOKENS, tokens), (LOGINS, logins)] {
            for (letter, end) in letters.iter().zip(["", "_OTHER"]) {
                fs::write(keys.join(format!("{name}{end}")), letter.repeat(32)).unwrap();
            }
        }
        self.start_driver();
    }

    /// The secrets of the array, as they are stored.
    async fn secrets(&self, holds: impl Fn(&[Value; 2]) -> bool) -> [Value; 2] {
        let of = |it: &Value| {
            [
                it["spec"]["token"].clone(),
                it["status"]["CHAPSecret"].clone(),
            ]
        };
        of(&self.until("vpsa", "one", |it| holds(&of(it))).await)
    }
}

isolated! {
    async fn keys_change_step_by_step_while_a_disk_is_in_use(directory: &Path) {
        let mut rig = Rig::start(directory, json!({"volumeType": "Block"})).await;
        let mut used = rig.create("pvc-1", 1, false, None).await.unwrap();
        let place = rig.publish(&mut used).await.unwrap();
        write(&place.join("file"), "before");
        let (old, stored) = (used.context.clone(), rig.secrets(|_| true).await);

        // Everybody can read what the new keys write.
        rig.restart_with(&["k", "n"], &["c", "m"]).await;
        write(&place.join("file"), "step 1");
        // From now on they write.
        rig.restart_with(&["n", "k"], &["m", "c"]).await;
        rig.secrets(|now| now[0] != stored[0] && now[1] != stored[1]).await;
        write(&place.join("file"), "step 2");
        // A node that is started anew is given what was written before.
        rig.unpublish(&used).await.unwrap();
        rig.attach(&mut used).await.unwrap();
        let new = std::mem::replace(&mut used.context, old.clone());
        assert_ne!(new["chapSecret"], old["chapSecret"]);
        rig.stage(&used).await.unwrap();

        // Attached anew it needs the old keys no more.
        rig.unpublish(&used).await.unwrap();
        let place = rig.publish(&mut used).await.unwrap();
        rig.restart_with(&["n"], &["m"]).await;
        assert_eq!(fs::read_to_string(place.join("file")).unwrap(), "step 2");
        rig.unpublish(&used).await.unwrap();
        rig.attach(&mut used).await.unwrap();
        let new = std::mem::replace(&mut used.context, old);
        let refused = rig.stage(&used).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        assert!(refused.message().contains("cannot be decrypted with any of the driver's keys"), "{refused}");
        used.context = new;
        let place = rig.publish(&mut used).await.unwrap();
        assert_eq!(fs::read_to_string(place.join("file")).unwrap(), "step 2");
        rig.unpublish(&used).await.unwrap();
        rig.delete(used).await;
        assert_eq!((rig.on_array().await, rig.sessions().await), ((0, 0, 0), 0));
        rig.stop_driver().await;
    }
}

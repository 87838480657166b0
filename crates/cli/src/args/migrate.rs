//! The command lines of migrations.

use clap::Subcommand;
use stowage_weka::migrate::MigrateArgs;

/// Bring volumes of an earlier installation up to date
#[derive(Debug, Subcommand)]
pub enum Migrate {
    // Boxed: it has many flags.
    WekaLegacy(Box<WekaLegacyArgs>),
}

/// Give Weka volumes from before there were quotas the quota that their capacity asks for
///
/// Volumes that were made without the API, or on a Weka release before 3.13, carry their capacity as an attribute of their
/// directory, and nobody enforces it. The command mounts the filesystem, sets a hard quota for each such directory and removes
/// the attribute. What has a quota already is skipped. Volumes may be in use meanwhile. It may be stopped at any time and run again: the
/// next run continues. Run it once for each filesystem, as root, on a machine that is connected to the Weka cluster.
///
/// The API of the cluster needs credentials: a Secret in a file (--secret-file), or the variables WEKA_USERNAME, WEKA_PASSWORD,
/// WEKA_ORG, WEKA_ENDPOINTS, WEKA_SCHEME and WEKA_CA_CERTIFICATE for what the file lacks.
///
/// The exit code is 0 if every directory was migrated or has a quota already, otherwise 1.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl get secret -n csi-wekafs csi-wekafs-api-secret -o yaml > secret.yaml
  stowage migrate weka-legacy default --secret-file secret.yaml --dry-run
  stowage migrate weka-legacy default --secret-file secret.yaml
  WEKA_USERNAME=csi WEKA_PASSWORD=$(cat password) stowage migrate weka-legacy default --endpoint-address 10.0.0.1:14000")]
pub struct WekaLegacyArgs {
    #[command(flatten)]
    pub migrate: MigrateArgs,
}

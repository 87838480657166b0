//! A Weka cluster of a release that serves HTTPS only, with a certificate of its own, and a secret that is neither with the
//! driver nor with the claims.

use devcluster::testing::Namespace;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use stowage_testing::Look;
use stowage_tests::{cluster, condition, eventually, get, text};

use super::claims::{MIB, Pod, ask};
use super::weka_array::{Array, Driver};
use super::weka_volumes::{ROLES, directory, wait_for_event};

/// The first release without HTTP.
const RELEASE: &str = "4.3.0";

/// The driver on the only node that is a client of the cluster.
const CHANGES: &str = r#"
  {"op": "add", "path": "/spec/driverPerNodeTemplate/spec/nodeSelector", "value": {"kubernetes.io/hostname": "node-b"}},
  {"op": "add", "path": "/spec/driverControllerTemplate/spec/nodeSelector", "value": {"kubernetes.io/hostname": "node-b"}}
"#;

/// Gives the array a certificate that is its own authority, as `openssl req -x509` makes it, for its address.
fn certify(array: &Array) -> String {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![array.address()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = params.self_signed(&key).unwrap().pem();
    std::fs::write(array.weka.data.join("server.pem"), &pem).unwrap();
    std::fs::write(array.weka.data.join("server.key"), key.serialize_pem()).unwrap();
    array.run(false);
    array.run(true);
    pem
}

/// The secret of the class, in the namespace of the secrets.
fn write_secret(secrets: &Namespace, address: &str, more: &str) {
    let manifest = format!(
        "\
apiVersion: v1
kind: Secret
metadata: {{name: weka}}
stringData:
  username: admin
  password: admin
  organization: Root
  endpoints: {address}:14000,{address}:14001
{more}"
    );
    secrets.apply(&manifest).unwrap();
}

fn apply_class(secrets: &Namespace, driver: &Driver) -> String {
    let name = format!("class-{}", secrets.name());
    let references = ROLES.map(|role| {
        let key = format!("  csi.storage.k8s.io/{role}-secret");
        format!("{key}-name: weka\n{key}-namespace: {}\n", secrets.name())
    });
    let manifest = format!(
        "\
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{name: {name}}}
provisioner: {}
allowVolumeExpansion: true
parameters:
  volumeType: dir/v1
  filesystemName: default
{}",
        driver.provisioner,
        references.concat()
    );
    secrets.apply(&manifest).unwrap();
    name
}

/// The operator says what it needs to grant the driver a secret of this namespace, and goes on when it has it.
fn let_operator_grant_secrets_of(secrets: &Namespace, driver: &Driver) {
    let to = format!("--namespace={}", secrets.name());
    let grant = [
        "create",
        "rolebinding",
        "csi-operator-secrets",
        "--clusterrole=csi-operator-secrets",
        "--serviceaccount=csi-operator:csi-operator",
        &to,
    ];
    eventually("the condition has the remedy", || {
        let look = Look::at(cluster().kubeconfig());
        let instance = look.get("csidriverdeployment", &driver.name, &driver.name)?;
        let said = text(&condition(&instance, "SyncSuccessful")?["message"]).to_owned();
        said.contains(&grant.join(" ")).then_some(())
    });
    cluster().kubectl(&grant).unwrap();
    driver.wait();
}

#[test]
fn a_cluster_with_https_only_is_used_with_a_secret_of_another_namespace() {
    let mut array = Array::named("weka-secure", "client", "stowage-sim-secure");
    array.weka.release = Some(RELEASE.to_owned());
    array.weka.node = Some("node-b".to_owned());
    array.weka.plain_http = false;
    array.apply();
    let certificate = certify(&array);
    let driver = Driver::named("csi-weka-secure", "secure.weka.io");
    driver.deploy(&array, CHANGES);
    driver.wait();
    let secrets = cluster().namespace("weka-secrets").unwrap();
    let namespace = cluster().namespace("weka-secure-pods").unwrap();
    let class = apply_class(&secrets, &driver);
    let address = array.address();
    let_operator_grant_secrets_of(&secrets, &driver);

    write_secret(&secrets, &address, "  scheme: http\n");
    ask(&namespace, "data", &class, 16 * MIB, false);
    wait_for_event(&namespace, "data", &["does not serve http"]);
    // The image knows authorities, but not this one.
    write_secret(&secrets, &address, "  scheme: https\n");
    wait_for_event(&namespace, "data", &["is not trusted", "caCertificate"]);
    let lines = certificate.lines().map(|line| format!("    {line}\n"));
    let trusting = format!(
        "  scheme: https\n  caCertificate: |\n{}",
        lines.collect::<String>()
    );
    write_secret(&secrets, &address, &trusting);
    directory(&namespace, "data");
    let mut writer = Pod::new("writer", "data", "echo safe > /data/file && cat /data/file");
    writer.place.clear();
    assert_eq!(writer.run(&namespace), "safe\n");
    let size = r#"{"spec": {"resources": {"requests": {"storage": "32Mi"}}}}"#;
    namespace
        .kubectl(&["patch", "pvc", "data", "-p", size])
        .unwrap();
    eventually("the claim has grown, with the same secret", || {
        let claim = get(&namespace, "pvc", "data")?;
        (claim["status"]["capacity"]["storage"] == "32Mi").then_some(())
    });
    namespace.kubectl(&["delete", "pvc", "data"]).unwrap();
    namespace
        .kubectl(&["delete", "storageclass", &class])
        .unwrap();
}

//! The rights of the control plane: those of the sample, and no more.

use devcluster::testing::ApiServer;

const SAMPLE: &str = include_str!("../../../../../deploy/samples/vpsa.yaml");

/// Who the control plane is.
pub const ACCOUNT: &str = "system:serviceaccount:csi-vpsa:csi-vpsa";

/// Where the sample is, and with it the lease and Secrets that name no namespace.
pub const NAMESPACE: &str = "csi-vpsa";

/// What the operator grants for the sidecar beside it, and the control plane needs, too.
const LEASES: [&[&str]; 2] = [
    &[
        "create",
        "role",
        "leases",
        "--verb=get,create,update,patch",
        "--resource=leases.coordination.k8s.io",
    ],
    &[
        "create",
        "rolebinding",
        "leases",
        "--role=leases",
        "--serviceaccount=csi-vpsa:csi-vpsa",
    ],
];

/// Gives the account of the control plane what the sample gives it, and no more.
pub fn grant(server: &ApiServer) {
    let documents = SAMPLE.split("\n---\n");
    let rights = documents.filter(|it| !it.contains("kind: CSIDriverDeployment"));
    let rights: Vec<&str> = rights.collect();
    let apply = ["apply", "-f", "-"];
    server
        .kubectl_with_input(&apply, &rights.join("\n---\n"))
        .unwrap();
    for role in LEASES {
        let place = format!("--namespace={NAMESPACE}");
        server.kubectl(&[role, &[place.as_str()]].concat()).unwrap();
    }
}

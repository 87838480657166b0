# The driver for Zadara's VPSAs. Its custom resources come first (kubectl apply -f deploy/crds/storage.zadara.com.yaml), and so
# does the Secret with its keys, which neither this file nor the operator makes or deletes:
#   kubectl create namespace csi-vpsa
#   key() { head -c 4096 /dev/urandom | tr -dc A-Za-z0-9 | head -c 32; }
#   kubectl -n csi-vpsa create secret generic csi-vpsa-keys --from-literal=GLOBAL_ENCRYPTION_KEY=$(key) --from-literal=CHAP_ENCRYPTION_KEY=$(key)
# Arrays, classes and a claim: examples/vpsa.
apiVersion: v1
kind: Namespace
metadata:
  name: {{ .Values.drivers.vpsa.namespace }}
---
{{ include "stowage.vpsa" (dict "root" . "driver" .Values.drivers.vpsa) }}
---
{{ include "stowage.vpsa.rights" (dict "root" . "driver" .Values.drivers.vpsa) }}

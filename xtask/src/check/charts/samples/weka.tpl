# The Weka driver. Every node it runs on needs a Weka client; give the template a nodeSelector where only some have one.
# Where anything may be mounted by NFS (--usenfs, --allownfsfailback), both templates need hostNetwork: true and dnsPolicy:
# ClusterFirstWithHostNet: a mount goes with the network in which it was made. Secrets and storage classes: examples/.
apiVersion: v1
kind: Namespace
metadata:
  name: {{ .Values.drivers.weka.namespace }}
---
# Lets the operator grant the driver the secrets of this namespace that its classes name. Others need the same in theirs.
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: csi-operator-secrets
  namespace: {{ .Values.drivers.weka.namespace }}
{{ include "stowage.roleRef" (dict "kind" "ClusterRole" "name" "csi-operator-secrets") }}
{{ include "stowage.operatorSubject" . }}
---
{{ include "stowage.weka" (dict "root" . "driver" .Values.drivers.weka) }}
---
{{ include "stowage.weka.rights" (dict "root" . "driver" .Values.drivers.weka) }}

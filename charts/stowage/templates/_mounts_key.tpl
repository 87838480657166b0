{{/* The right to the key with which the operator asks nodes what is mounted: a Role of its own namespace, and its binding. */}}
{{- define "stowage.mountsKeyRole" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "stowage.labels" (dict "root" .root "name" "csi-operator") | nindent 4 }}
rules:
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [csi-operator-mounts-key]
  verbs: [get]
# A right to create cannot be limited to a name.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "stowage.labels" (dict "root" .root "name" "csi-operator") | nindent 4 }}
{{ include "stowage.roleRef" (dict "kind" "Role" "name" .name) }}
{{ include "stowage.operatorSubject" .root }}
{{- end }}

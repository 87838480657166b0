{{/* The hooks of a release. Definitions and instances are not objects of the release: Helm never changes a definition that is there,
could not apply an instance before its definition, and would remove the operator together with what only the operator can clean up.

  before install, upgrade, rollback   definitions are put in place, never older ones over newer ones
  after them                          instances of the release are applied; those that it no longer has are deleted
  before uninstall                    instances are deleted, and it waits until the operator has cleaned up

Rights exist only while a hook runs. */}}

{{- define "stowage.setup.events" -}}
pre-install,pre-upgrade,pre-rollback,post-install,post-upgrade,post-rollback,pre-delete
{{- end }}

{{/* Metadata of a hook's object. */}}
{{- define "stowage.setup.metadata" -}}
metadata:
  name: {{ .name }}
  {{- with index . "namespace" }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "stowage.labels" (dict "root" .root "name" "setup") | nindent 4 }}
  annotations:
    helm.sh/hook: {{ index . "events" | default (include "stowage.setup.events" .root) }}
    helm.sh/hook-weight: {{ .weight | quote }}
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* A role of the hooks, with its rules, and its binding. */}}
{{- define "stowage.setup.role" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
{{ include "stowage.setup.metadata" (dict "root" .root "name" .name "namespace" (index . "namespace") "weight" 0) }}
rules:
{{ .rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
{{ include "stowage.setup.metadata" (dict "root" .root "name" .name "namespace" (index . "namespace") "weight" 1) }}
{{ include "stowage.roleRef" (dict "kind" .kind "name" .name) }}
subjects:
- kind: ServiceAccount
  name: {{ .root.Release.Name }}-setup
  namespace: {{ .root.Release.Namespace }}
{{- end }}

{{/* Definitions that the release needs, as arguments. */}}
{{- define "stowage.setup.groups" -}}
- --group=driver-deployments
{{- if .Values.wekaClients.enabled }}
- --group=weka
{{- end }}
{{- if .Values.drivers.vpsa.enabled }}
- --group=vpsa
{{- end }}
{{- if .Values.snapshotController.enabled }}
- --group=snapshots
- --group=group-snapshots
{{- end }}
{{- end }}

{{- define "stowage.setup.job" -}}
apiVersion: batch/v1
kind: Job
{{ include "stowage.setup.metadata" (dict "root" .root "name" (printf "%s-setup-%s" .root.Release.Name .name) "namespace" .root.Release.Namespace "events" .events "weight" 10) }}
spec:
  # It tries again by itself; what is left then needs a person.
  backoffLimit: 0
  activeDeadlineSeconds: {{ .root.Values.setup.timeoutSeconds }}
  template:
    metadata:
      labels:
        {{- include "stowage.labels" (dict "root" .root "name" "setup") | nindent 8 }}
    spec:
      serviceAccountName: {{ .root.Release.Name }}-setup
      restartPolicy: Never
      {{- with include "stowage.pullSecrets" .root }}
      {{- . | nindent 6 }}
      {{- end }}
      nodeSelector:
        kubernetes.io/os: linux
        {{- with .root.Values.setup.nodeSelector }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .root.Values.setup.tolerations }}
      tolerations:
      {{- toYaml . | nindent 6 }}
      {{- end }}
      {{- include "stowage.restrictedPod" .root | nindent 6 }}
      containers:
      - name: setup
        image: {{ include "stowage.image" .root }}
        imagePullPolicy: {{ .root.Values.image.pullPolicy }}
        args:
        - setup
        - {{ .name }}
        {{- .args | nindent 8 }}
        # What went wrong is in the status of the pod.
        terminationMessagePolicy: FallbackToLogsOnError
        resources:
          requests:
            cpu: 10m
            memory: 16Mi
        {{- include "stowage.restrictedContainer" .root | nindent 8 }}
{{- end }}

{{/* It gives up, and says why, before Helm does. */}}
{{- define "stowage.setup.removal" -}}
- --release={{ .Release.Namespace }}/{{ .Release.Name }}
- --timeout={{ sub (.Values.setup.timeoutSeconds | int) 20 }}s
{{- if .Values.operator.enabled }}
- --operator
{{- end }}
{{- end }}

{{- define "stowage.setup.clusterRules" -}}
# A right to create cannot be limited to names.
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [create]
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames:
  {{- .Files.Get "files/definitions.yaml" | trim | nindent 2 }}
  verbs: [get, patch]
- apiGroups: [csidriver.storage.openshift.io]
  resources: [csidriverdeployments]
  verbs: [list, create, patch, delete]
- apiGroups: [weka.weka.io]
  resources: [wekaclients, wekacontainers]
  verbs: [list]
{{- end }}

{{- define "stowage.setup.releaseRules" -}}
- apiGroups: [""]
  resources: [configmaps]
  verbs: [list]
{{- end }}

{{/* The Secret with the keys is made where it is missing. */}}
{{- define "stowage.setup.keyRules" -}}
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [{{ .Values.drivers.vpsa.keySecretName }}]
  verbs: [get]
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
{{- end }}

{{/* Shared by all templates. Names of the operator's objects do not depend on the release: there is one operator in a cluster. */}}

{{- define "stowage.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "stowage.labels" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/part-of: stowage
{{- end }}

{{- define "stowage.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* What the restricted profile of pod security asks of a pod, and of its containers. */}}
{{- define "stowage.restrictedPod" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{- define "stowage.restrictedContainer" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{/* The operator's account, as the subject of a binding. */}}
{{- define "stowage.operatorSubject" -}}
subjects:
- kind: ServiceAccount
  name: csi-operator
  namespace: {{ .Release.Namespace }}
{{- end }}

{{- define "stowage.roleRef" -}}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name }}
{{- end }}

{{/* One instance of the operator's kind: what the chart says, and what `spec` adds or puts in its place. */}}
{{- define "stowage.instance" -}}
{{- $instance := include .template . }}
{{- if .driver.spec }}
{{- toYaml (mergeOverwrite ($instance | fromYaml) (dict "spec" .driver.spec)) }}
{{- else }}
{{- $instance }}
{{- end }}
{{- end }}

{{/* Instances reach the cluster by the hook `setup`: it finds them by the label. Helm itself could not apply them before their
definition exists, which is so when a release of another chart is upgraded to this one. */}}
{{- define "stowage.instanceConfigMap" -}}
{{- include "stowage.refuseForeignInstance" (dict "root" .root "instance" (include "stowage.instance" . | fromYaml)) -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .root.Release.Name }}-instance-{{ .key }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "stowage.labels" (dict "root" .root "name" .key) | nindent 4 }}
    stowage.dev/instances-of: {{ .root.Release.Name }}
data:
  instance.yaml: |
    {{- include "stowage.instance" . | nindent 4 }}
{{- end }}

{{/* An instance of this name that somebody else made: refused before anything changes. The hook refuses it, too, for those who render a
chart without a cluster. Helm cannot look up a kind that the cluster does not have. */}}
{{- define "stowage.refuseForeignInstance" -}}
{{- $namespace := .instance.metadata.namespace }}
{{- $name := .instance.metadata.name }}
{{- if lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "csidriverdeployments.csidriver.storage.openshift.io" }}
{{- with lookup "csidriver.storage.openshift.io/v1alpha1" "CSIDriverDeployment" $namespace $name }}
{{- $labels := index .metadata "labels" | default dict }}
{{- $release := index $labels "stowage.dev/release" }}
{{- $of := index $labels "stowage.dev/release-namespace" }}
{{- if not (and (eq ($release | default "") $.root.Release.Name) (eq ($of | default "") $.root.Release.Namespace)) }}
{{- fail (printf "CSIDriverDeployment %s/%s exists and is not of this release: delete it, choose another name, or hand it over by `kubectl --namespace %s label csidriverdeployment %s --overwrite stowage.dev/release=%s stowage.dev/release-namespace=%s`" $namespace $name $namespace $name $.root.Release.Name $.root.Release.Namespace) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "stowage.instanceNamespace" -}}
{{ .driver.namespace | default .root.Release.Namespace }}
{{- end }}

{{/* A ClusterRole for an account of a driver, by a binding of the same name. */}}
{{- define "stowage.grant" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .name }}
{{ include "stowage.roleRef" (dict "kind" "ClusterRole" "name" .name) }}
subjects:
- kind: ServiceAccount
  name: {{ .account }}
  namespace: {{ .namespace }}
{{- end }}

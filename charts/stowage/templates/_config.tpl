{{/* The operator's configuration: `operator.config`, and below `csi` and `wekaClients` the values of these names. */}}
{{- define "stowage.operatorConfig" -}}
{{- $config := deepCopy .Values.operator.config }}
{{- $csi := include "stowage.csiConfig" . | fromYaml }}
{{- if $csi }}
{{- $config = mergeOverwrite $config (dict "csi" $csi) }}
{{- end }}
{{- if .Values.wekaClients.config }}
{{- $config = mergeOverwrite $config (dict "wekaClients" .Values.wekaClients.config) }}
{{- end }}
{{- if .Values.imagePullSecrets }}
{{- $names := list }}
{{- range .Values.imagePullSecrets }}{{ $names = append $names .name }}{{ end }}
{{- $config = mergeOverwrite (dict "imagePullSecrets" $names) $config }}
{{- end }}
{{- if $config }}
{{- toYaml $config }}
{{- else }}
{{- .Files.Get "files/config-example.yaml" | trim }}
{{- end }}
{{- end }}

{{/* What of `csi` is not the default. */}}
{{- define "stowage.csiConfig" -}}
{{- $csi := dict }}
{{- if .Values.csi.installationEnabled }}
{{- $csi = mergeOverwrite $csi (dict "installationEnabled" true "namespace" .Values.csi.namespace) }}
{{- end }}
{{- range $name := list "driverVersion" "image" "provisionerImage" "attacherImage" "livenessProbeImage" "resizerImage" "snapshotterImage" "registrarImage" }}
{{- with index $.Values.csi $name }}{{ $csi = mergeOverwrite $csi (dict $name .) }}{{ end }}
{{- end }}
{{- $csi = mergeOverwrite $csi .Values.csi.config }}
{{- if $csi }}{{ toYaml $csi }}{{ end }}
{{- end }}

{{/* Whether the release brings the namespace of Weka's driver: not where it is there already, such as with WEKA's own operator, and not of this release. Helm would refuse it. */}}
{{- define "stowage.makesCsiNamespace" -}}
{{- $found := lookup "v1" "Namespace" "" .Values.csi.namespace }}
{{- if eq .Values.csi.namespace .Release.Namespace -}}
false
{{- else if not $found -}}
true
{{- else -}}
{{- $annotations := index $found.metadata "annotations" | default dict }}
{{- $name := index $annotations "meta.helm.sh/release-name" | default "" }}
{{- $namespace := index $annotations "meta.helm.sh/release-namespace" | default "" }}
{{- and (eq $name .Release.Name) (eq $namespace .Release.Namespace) }}
{{- end }}
{{- end }}

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

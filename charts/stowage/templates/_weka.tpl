{{/* The instance of the driver for Weka: for the values `drivers.weka`, and for those of the chart `csi-wekafsplugin`, which are the same. */}}
{{- define "stowage.weka" -}}
{{- $driver := .driver }}
{{- $ours := not $driver.images.csidriver }}
{{- /* `off` without quotes is false in YAML 1.1. */}}
{{- $selinux := ternary "off" ($driver.selinuxSupport | toString) (eq ($driver.selinuxSupport | toString) "false") -}}
apiVersion: csidriver.storage.openshift.io/v1alpha1
kind: CSIDriverDeployment
metadata:
  name: {{ $driver.name }}
  namespace: {{ include "stowage.instanceNamespace" . }}
spec:
  driverName: {{ $driver.csiDriverName }}
  driverSocket: /csi/csi.sock
  nodeUpdateStrategy: Rolling
  # Mounts live in the kernel and need no driver: deleting this resource removes the driver although volumes exist.
  uninstallPolicy: Force
  {{- if $driver.node.livenessProbeEnabled }}
  probePeriodSeconds: 30
  {{- end }}
  {{- if ne $driver.kubeletPath "/var/lib/kubelet" }}
  kubeletRootDir: {{ $driver.kubeletPath }}
  {{- end }}
  # Whatever the driver mounted stays mounted without its pods: two of them, for claims that are made meanwhile.
  controllerReplicas: {{ $driver.controller.replicas }}
  {{- with $driver.legacyVolumeSecretName }}
  # For volumes whose class names no secret.
  driverSecrets:
  - secretName: {{ . }}
    mountPath: /legacy-volume-access
  {{- end }}
  {{- include "stowage.weka.sidecars" . | trim | nindent 2 }}
  csiDriver:
    spec:
      attachRequired: true
      podInfoOnMount: true
      fsGroupPolicy: {{ $driver.pluginConfig.fsGroupPolicy }}
      volumeLifecycleModes: [Persistent]
  driverPerNodeTemplate:
    {{- include "stowage.weka.nodeTemplate" (dict "root" .root "driver" $driver "labelled" (eq $selinux "enforced")) | nindent 4 }}
  {{- if eq $selinux "mixed" }}
  # Nodes with the label run these pods; all others, those without the label and those where it is not "true" included, run those of
  # driverPerNodeTemplate.
  nodeVariants:
  - name: selinux
    nodeLabel:
      key: {{ $driver.selinuxNodeLabel }}
      value: "true"
    template:
      {{- include "stowage.weka.nodeTemplate" (dict "root" .root "driver" $driver "labelled" true) | nindent 6 }}
  {{- end }}
  driverControllerTemplate:
    metadata:
      labels:
        app: csi-wekafs-controller
        component: csi-wekafs-controller
        {{- with $driver.controller.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      {{- $affinity := include "stowage.weka.controllerAffinity" $driver | fromYaml }}
      {{- with include "stowage.weka.placement" (dict "root" .root "driver" $driver "of" $driver.controller "affinity" $affinity "tolerations" $driver.controllerPluginTolerations) | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      containers:
      - name: wekafs
        {{- include "stowage.weka.image" . | trim | nindent 8 }}
        args:
        {{- include "stowage.weka.args" (dict "driver" $driver "ours" $ours "mode" "controller" "of" $driver.controller "labelled" (eq $selinux "enforced")) | trim | nindent 8 }}
        env:
        {{- include "stowage.weka.env" (dict "driver" $driver "mode" "controller") | trim | nindent 8 }}
        {{- with include "stowage.weka.resources" $driver.controller.resources | fromYaml }}
        resources:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        # It mounts filesystems to make directories in them.
        securityContext:
          privileged: true
        {{- if eq $selinux "enforced" }}
        {{- include "stowage.weka.selinuxMount" . | nindent 8 }}
      {{- include "stowage.weka.selinuxVolume" . | nindent 6 }}
        {{- end }}
  {{- with $driver.storageClasses }}
  storageClassTemplates:
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with $driver.snapshotClasses }}
  volumeSnapshotClassTemplates:
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* The pod of a node; with `labelled` its mounts have a label. */}}
{{- define "stowage.weka.nodeTemplate" -}}
{{- $driver := .driver -}}
metadata:
  labels:
    app: csi-wekafs-node
    component: csi-wekafs-node
    {{- with $driver.node.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- with include "stowage.weka.placement" (dict "root" .root "driver" $driver "of" $driver.node "affinity" ($driver.node.affinity | default $driver.affinity) "tolerations" $driver.nodePluginTolerations) | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  containers:
  - name: wekafs
    {{- include "stowage.weka.image" . | trim | nindent 4 }}
    args:
    {{- include "stowage.weka.args" (dict "driver" $driver "ours" (not $driver.images.csidriver) "mode" "node" "of" $driver.node "labelled" .labelled) | trim | nindent 4 }}
    env:
    {{- include "stowage.weka.env" (dict "driver" $driver "mode" "node") | trim | nindent 4 }}
    {{- with include "stowage.weka.resources" $driver.node.resources | fromYaml }}
    resources:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    # It mounts. Whole filesystems are mounted in its own container, where no other pod sees them: no volume for these.
    securityContext:
      privileged: true
    {{- if .labelled }}
    {{- include "stowage.weka.selinuxMount" . | nindent 4 }}
  {{- include "stowage.weka.selinuxVolume" . | nindent 2 }}
    {{- end }}
{{- end }}

{{/* Requests and limits of the driver's container: WEKA's chart has them by container. */}}
{{- define "stowage.weka.resources" -}}
{{- index . "wekafs" | default (omit . "wekafs") | toYaml }}
{{- end }}

{{- define "stowage.weka.selinuxMount" -}}
# mount(8) takes labels away where it sees no SELinux, and it looks here. Not read-only: it would see none.
volumeMounts:
- name: selinux
  mountPath: /sys/fs
{{- end }}

{{- define "stowage.weka.selinuxVolume" -}}
volumes:
- name: selinux
  hostPath:
    path: /sys/fs
    type: Directory
{{- end }}

{{/* What is mounted twice on one machine must have the same label, and with `mixed` controllers label nothing. */}}
{{- define "stowage.weka.controllerAffinity" -}}
{{- with .controller.affinity | default .affinity }}
{{- toYaml . }}
{{- else }}
{{- if eq (.selinuxSupport | toString) "mixed" }}
nodeAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 100
    preference:
      matchExpressions:
      - key: {{ .selinuxNodeLabel }}
        operator: NotIn
        values: ["true"]
{{- end }}
{{- end }}
{{- end }}

{{/* Our image, or another driver's. */}}
{{- define "stowage.weka.image" -}}
{{- with .driver.images.csidriver }}
image: {{ . }}{{ with $.driver.images.csidriverTag | default $.driver.csiDriverVersion }}:{{ . }}{{ end }}
{{- else }}
image: {{ include "stowage.image" .root }}
{{- end }}
{{- end }}

{{/* Ours, unless the image of one of the Kubernetes project's is given. */}}
{{- define "stowage.weka.sidecars" -}}
{{- $names := dict "attachersidecar" "attacherImage" "provisionersidecar" "provisionerImage" "resizersidecar" "resizerImage" "snapshottersidecar" "snapshotterImage" "registrarsidecar" "driverRegistrarImage" "livenessprobesidecar" "livenessProbeImage" }}
{{- $images := dict }}
{{- range $value, $field := $names }}
{{- with index $.driver.images $value }}{{ $images = mergeOverwrite $images (dict $field .) }}{{ end }}
{{- end }}
{{- if $images }}
containerImages:
  {{- toYaml $images | nindent 2 }}
sidecars:
  mode: Upstream
  run: [Provisioner, Attacher, Resizer, Snapshotter]
  {{- if not (kindIs "invalid" .driver.logLevel) }}
  logLevel: {{ .driver.logLevel }}
  {{- end }}
  containers:
    provisioner:
      extraArgs: [--extra-create-metadata]
{{- else }}
# Volumes know their claims: for metrics, and for mount options by annotation.
sidecars:
  {{- if not (kindIs "invalid" .driver.logLevel) }}
  logLevel: {{ .driver.logLevel }}
  {{- end }}
  containers:
    controller:
      extraArgs: [--extra-create-metadata]
{{- end }}
{{- end }}

{{/* Where pods run. */}}
{{- define "stowage.weka.placement" -}}
{{- $protocol := .driver.pluginConfig.mountProtocol }}
{{- if or .driver.hostNetwork $protocol.useNfs $protocol.allowNfsFailback }}
# Mounts by NFS outlive the pod only in the network of the node.
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
{{- with .driver.imagePullSecret }}
imagePullSecrets:
- name: {{ . }}
{{- end }}
{{- if not (kindIs "invalid" .driver.priorityClassName) }}
priorityClassName: {{ .driver.priorityClassName | quote }}
{{- end }}
{{- with merge (deepCopy .of.nodeSelector) .driver.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with concat .driver.globalPluginTolerations .tolerations }}
tolerations:
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* What the driver's container is told. Flags that say what is the default anyway are left out. */}}
{{- define "stowage.weka.args" -}}
{{- $driver := .driver }}
{{- $config := $driver.pluginConfig }}
{{- $controller := eq .mode "controller" }}
{{- if .ours }}
- driver
- weka
- --mode={{ .mode }}
{{- else }}
- --csimode={{ .mode }}
{{- end }}
- --drivername={{ $driver.csiDriverName }}
- --endpoint=unix:///csi/csi.sock
- --nodeid=$(KUBE_NODE_NAME)
{{- if not (kindIs "invalid" $driver.logLevel) }}
- --v={{ $driver.logLevel }}
{{- end }}
{{- if $driver.useJsonLogging }}
- {{ ternary "--log-format=json" "--usejsonlogging" .ours }}
{{- end }}
{{- if ne $driver.dynamicProvisionPath "csi-volumes" }}
- --dynamic-path={{ $driver.dynamicProvisionPath }}
{{- end }}
{{- if and .ours $driver.legacyVolumeSecretName }}
- --legacyvolumesecretname={{ $driver.legacyVolumeSecretName }}
{{- end }}
{{- if $controller }}
{{- include "stowage.weka.controllerArgs" . }}
{{- else }}
{{- if $config.manageNodeTopologyLabels }}
- --managenodetopologylabels
{{- end }}
{{- if or (not .ours) (ne (.of.maxConcurrentRequests | int) 16) }}
- --concurrency.nodePublishVolume={{ .of.maxConcurrentRequests }}
{{- end }}
{{- end }}
{{- include "stowage.weka.commonArgs" . }}
{{- if .labelled }}
# Mounts are labelled: container_t may use them where the policy of selinux/ is installed and switched on.
- --selinux-support
{{- end }}
{{- end }}

{{- define "stowage.weka.controllerArgs" -}}
{{- $config := .driver.pluginConfig }}
{{- $allowed := $config.allowedOperations }}
{{- if .ours }}
{{- range .driver.earlierDynamicProvisionPaths }}
- --earlier-dynamic-path={{ . }}
{{- end }}
{{- end }}
{{- if $allowed.autoCreateFilesystems }}
# Classes without `filesystemName` make filesystems.
- --allowautofscreation
{{- end }}
{{- if $allowed.autoExpandFilesystems }}
# Filesystems grow for volumes that are larger than all of them.
- --allowautofsexpansion
{{- end }}
{{- if $allowed.snapshotDirectoryVolumes }}
- {{ ternary "--allowsnapshotsofdirectoryvolumes" "--allowsnapshotsoflegacyvolumes" .ours }}
{{- end }}
{{- if $allowed.snapshotVolumesWithoutQuotaEnforcement }}
- --alwaysallowsnapshotvolumes
{{- end }}
{{- if $allowed.enforceDirVolTotalCapacity }}
- --enforcedirvoltotalcapacity
{{- end }}
{{- if not $allowed.keepThinProvisioningRatioOnExpand }}
- --keepthinprovisioningratioonexpand=false
{{- end }}
{{- if $config.waitForObjectDeletion }}
- --waitforobjectdeletion
{{- end }}
{{- if $config.skipGarbageCollection }}
- --skipgarbagecollection
{{- end }}
{{- if $config.setOwnershipOnDynamicFilesystems }}
- --setownershipondynamicfilesystems
{{- end }}
{{- if $config.encryption.allowEncryptionWithoutKms }}
- --allowencryptionwithoutkms
{{- end }}
{{- if or (not .ours) (ne (.of.maxConcurrentRequests | int) 16) }}
{{- range list "createVolume" "deleteVolume" "expandVolume" "createSnapshot" "deleteSnapshot" }}
- --concurrency.{{ . }}={{ $.of.maxConcurrentRequests }}
{{- end }}
{{- end }}
{{- if .ours }}
{{- if .driver.metrics.enabled }}
# Of several controllers one reads condition and figures of all volumes.
- --enablemetricsserverleaderelection
{{- if .driver.metrics.backfillMissingQuotas }}
- --backfillmissingquotas
{{- end }}
{{- else }}
- --advertisevolumehealthsupport=false
{{- end }}
{{- end }}
{{- end }}

{{- define "stowage.weka.commonArgs" -}}
{{- $config := .driver.pluginConfig }}
{{- $naming := $config.objectNaming }}
{{- $protocol := $config.mountProtocol }}
{{- if ne $naming.volumePrefix "csivol-" }}
- --newvolumeprefix={{ $naming.volumePrefix }}
{{- end }}
{{- if ne $naming.snapshotPrefix "csisnp-" }}
- --newsnapshotprefix={{ $naming.snapshotPrefix }}
{{- end }}
{{- if ne $naming.seedSnapshotPrefix "csisnp-seed-" }}
- --seedsnapshotprefix={{ $naming.seedSnapshotPrefix }}
{{- end }}
{{- if $config.allowInsecureHttps }}
- --allowinsecurehttps
{{- end }}
{{- if $config.allowMountOptionOverrides }}
- --allowmountoptionoverrides
{{- end }}
{{- range $config.mutuallyExclusiveMountOptions }}
- --mutuallyexclusivemountoptions={{ . }}
{{- end }}
{{- if ne (.of.grpcRequestTimeoutSeconds | int) 30 }}
- --grpcrequesttimeoutseconds={{ .of.grpcRequestTimeoutSeconds }}
{{- end }}
{{- if $protocol.useNfs }}
- --usenfs
{{- end }}
{{- if $protocol.allowNfsFailback }}
- --allownfsfailback
{{- end }}
{{- with $protocol.interfaceGroupName }}
- --interfacegroupname={{ . }}
{{- end }}
{{- with $protocol.clientGroupName }}
- --clientgroupname={{ . }}
{{- end }}
{{- if ne ($protocol.nfsProtocolVersion | toString) "4.1" }}
- --nfsprotocolversion={{ $protocol.nfsProtocolVersion }}
{{- end }}
{{- with $protocol.wekafsContainerName }}
- --wekafscontainername={{ . }}
{{- end }}
{{- end }}

{{- define "stowage.weka.env" -}}
{{- if eq .mode "controller" }}
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      apiVersion: v1
      fieldPath: metadata.namespace
{{- end }}
- name: KUBE_NODE_NAME
  valueFrom:
    fieldRef:
      apiVersion: v1
      fieldPath: spec.nodeName
- name: KUBE_NODE_IP_ADDRESS
  valueFrom:
    fieldRef:
      apiVersion: v1
      fieldPath: status.hostIP
{{- end }}

{{/* For the labels that say on which nodes volumes of this driver can be used. */}}
{{- define "stowage.weka.rights" -}}
# For the labels that say on which nodes volumes of this driver can be used.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .driver.name }}-node-labels
rules:
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, patch]
---
{{ include "stowage.grant" (dict "name" (printf "%s-node-labels" .driver.name) "account" (printf "%s-node" .driver.name) "namespace" (include "stowage.instanceNamespace" .)) }}
{{- end }}

{{/* Everything that a release has of the driver. */}}
{{- define "stowage.weka.objects" -}}
{{- $context := dict "root" .root "key" "weka" "template" "stowage.weka" "driver" .driver }}
{{ include "stowage.instanceConfigMap" $context }}
{{- if .driver.pluginConfig.manageNodeTopologyLabels }}
---
{{ include "stowage.weka.rights" $context }}
{{- end }}
{{- end }}

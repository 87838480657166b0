{{/* The instance of the driver for VPSAs. */}}
{{- define "stowage.vpsa" -}}
apiVersion: csidriver.storage.openshift.io/v1alpha1
kind: CSIDriverDeployment
metadata:
  name: {{ .driver.name }}
  namespace: {{ include "stowage.instanceNamespace" . }}
spec:
  driverName: {{ .driver.plugin.provisioner }}
  driverSocket: /csi/csi.sock
  nodeUpdateStrategy: Rolling
  # Mounts live in the kernel and need no driver: deleting this resource removes the driver although volumes exist.
  uninstallPolicy: Force
  probePeriodSeconds: 30
  # Volumes stay mounted without the driver's pods, and I/O goes on: two of them, for claims that are made meanwhile.
  controllerReplicas: {{ .driver.plugin.controllerReplicas }}
  csiDriver:
    spec:
      attachRequired: true
      podInfoOnMount: false
      fsGroupPolicy: File
      volumeLifecycleModes: [Persistent]
  driverPerNodeTemplate:
    {{- with .driver.labels }}
    metadata:
      labels:
        {{- toYaml . | nindent 8 }}
    {{- end }}
    spec:
      # iscsiadm and the NFS client are those of the host: open-iscsi and nfs-common must be installed on the nodes.
      hostPID: true
      tolerations:
      - operator: Exists
      containers:
      - name: vpsa
        image: {{ include "stowage.image" .root }}
        args:
        - driver
        - vpsa
        - --mode=node
        - --drivername={{ .driver.plugin.provisioner }}
        - --endpoint=unix:///csi/csi.sock
        - --host-process=1
        - --keys=/etc/stowage/keys
        {{- with .driver.plugin.storageNetwork }}
        - --storage-network={{ . }}
        {{- end }}
        {{- if ne .driver.iscsiRecords "/etc/iscsi/nodes" }}
        - --iscsi-records={{ .driver.iscsiRecords }}
        {{- end }}
        {{- with include "stowage.vpsa.common" . | trim }}
        {{- . | nindent 8 }}
        {{- end }}
        env:
        - name: CSI_NODE_NAME
          valueFrom:
            fieldRef:
              apiVersion: v1
              fieldPath: spec.nodeName
        {{- if not .driver.plugin.storageNetwork }}
        # Where arrays see this node; where the storage network is another one, set --storage-network instead.
        - name: CSI_NODE_IP
          valueFrom:
            fieldRef:
              apiVersion: v1
              fieldPath: status.hostIP
        {{- end }}
        # The default is a file in /dev, which is the host's here.
        terminationMessagePath: /run/termination-log
        securityContext:
          privileged: true
        volumeMounts:
        - name: dev
          mountPath: /dev
        - name: keys
          mountPath: /etc/stowage/keys
          readOnly: true
      volumes:
      - name: dev
        hostPath:
          path: /dev
          type: Directory
      # Nodes have the key of logins only, and a second one while keys change.
      - name: keys
        secret:
          secretName: {{ .driver.keySecretName }}
          optional: true
          items:
          - key: CHAP_ENCRYPTION_KEY
            path: CHAP_ENCRYPTION_KEY
          - key: CHAP_ENCRYPTION_KEY_OTHER
            path: CHAP_ENCRYPTION_KEY_OTHER
  driverControllerTemplate:
    {{- with .driver.labels }}
    metadata:
      labels:
        {{- toYaml . | nindent 8 }}
    {{- end }}
    spec:
      containers:
      - name: vpsa
        image: {{ include "stowage.image" .root }}
        args:
        - driver
        - vpsa
        - --mode=controller
        - --drivername={{ .driver.plugin.provisioner }}
        - --endpoint=unix:///csi/csi.sock
        - --leader-election
        - --keys=/etc/stowage/keys
        {{- if ne .driver.plugin.allocator "weighted" }}
        - --allocator={{ .driver.plugin.allocator }}
        {{- end }}
        {{- if ne .driver.vpsa.monitorInterval "50s" }}
        - --monitor-interval={{ .driver.vpsa.monitorInterval }}
        {{- end }}
        {{- if ne .driver.vpsa.requestTimeout "3m0s" }}
        - --request-timeout={{ .driver.vpsa.requestTimeout }}
        {{- end }}
        {{- if not .driver.importExisting }}
        - --import-existing=false
        {{- end }}
        {{- if .driver.emptyRecycleBin }}
        - --empty-recycle-bin
        {{- end }}
        {{- if .driver.plugin.stonith.enable }}
        - --node-loss-timeout={{ .driver.plugin.stonith.probeTimeout }}
        {{- end }}
        {{- with include "stowage.vpsa.common" . | trim }}
        {{- . | nindent 8 }}
        {{- end }}
        env:
        - name: CSI_NODE_NAME
          valueFrom:
            fieldRef:
              apiVersion: v1
              fieldPath: spec.nodeName
        # It talks to arrays and to the API server, and mounts nothing.
        {{- include "stowage.restrictedContainer" .root | nindent 8 }}
          runAsNonRoot: true
          # The sidecar gets the same user: the socket is that user's.
          runAsUser: 65532
          runAsGroup: 65532
          seccompProfile:
            type: RuntimeDefault
        volumeMounts:
        - name: keys
          mountPath: /etc/stowage/keys
          readOnly: true
      volumes:
      - name: keys
        secret:
          secretName: {{ .driver.keySecretName }}
  {{- with .driver.storageClasses }}
  storageClassTemplates:
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with .driver.snapshotClasses }}
  volumeSnapshotClassTemplates:
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* Flags of both halves. */}}
{{- define "stowage.vpsa.common" -}}
{{- with .driver.topologyKeys }}
- --topology-keys={{ join "," . }}
{{- end }}
{{- if eq .driver.plugin.logFormat "json" }}
- --log-format=json
{{- end }}
{{- if ne .driver.plugin.logLevelOverride "info" }}
- --log-level={{ ternary "warn" .driver.plugin.logLevelOverride (eq .driver.plugin.logLevelOverride "warning") }}
{{- end }}
{{- end }}

{{/* What the driver needs beside what its sidecar needs, which the operator grants. */}}
{{- define "stowage.vpsa.rights" -}}
{{- $namespace := include "stowage.instanceNamespace" . -}}
# What the controller needs beside what its sidecar needs, which the operator grants.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .driver.name }}-controller-vsc
rules:
- apiGroups: [storage.zadara.com]
  resources: [vscstorageclasses, vpsas]
  verbs: [get, list, watch, patch]
- apiGroups: [storage.zadara.com]
  resources: [volumes, externalvolumes, snapshots, volumeattachments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [storage.zadara.com]
  resources: [vscnodes]
  verbs: [get, list, watch, patch, delete]
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, watch]
- apiGroups: [storage.zadara.com]
  resources: [vscstorageclasses/status, vpsas/status, volumes/status, externalvolumes/status, snapshots/status, volumeattachments/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
---
{{ include "stowage.grant" (dict "name" (printf "%s-controller-vsc" .driver.name) "account" .driver.name "namespace" $namespace) }}
---
# Access keys of arrays by tokenSecretRef. Secrets of another namespace need a Role like this one there.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .driver.name }}-access-keys
  namespace: {{ $namespace }}
rules:
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .driver.name }}-access-keys
  namespace: {{ $namespace }}
{{ include "stowage.roleRef" (dict "kind" "Role" "name" (printf "%s-access-keys" .driver.name)) }}
subjects:
- kind: ServiceAccount
  name: {{ .driver.name }}
  namespace: {{ $namespace }}
---
# Each node tells its address and its initiator, and whether there are sessions.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .driver.name }}-node-vsc
rules:
- apiGroups: [storage.zadara.com]
  resources: [vscnodes]
  verbs: [get, create, patch]
- apiGroups: [storage.zadara.com]
  resources: [volumeattachments]
  verbs: [get]
- apiGroups: [storage.zadara.com]
  resources: [volumeattachments/status]
  verbs: [patch]
---
{{ include "stowage.grant" (dict "name" (printf "%s-node-vsc" .driver.name) "account" (printf "%s-node" .driver.name) "namespace" $namespace) }}
{{- end }}

{{/* Where nodes that are lost are given up: docs/guides/vpsa.md, "Nodes that are lost". */}}
{{- define "stowage.vpsa.nodeLossRights" -}}
# It deletes pods of any namespace that use its volumes on a lost node, and Kubernetes' records of their attachments.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .driver.name }}-node-loss
rules:
- apiGroups: [""]
  resources: [pods]
  verbs: [list, delete]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get]
- apiGroups: [storage.k8s.io]
  resources: [volumeattachments]
  verbs: [list, delete]
---
{{ include "stowage.grant" (dict "name" (printf "%s-node-loss" .driver.name) "account" .driver.name "namespace" (include "stowage.instanceNamespace" .)) }}
{{- end }}

{{/* Where VPSAs are local to zones: with --topology-keys nodes read the labels of their Node. */}}
{{- define "stowage.vpsa.topologyRights" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .driver.name }}-node-topology
rules:
- apiGroups: [""]
  resources: [nodes]
  verbs: [get]
---
{{ include "stowage.grant" (dict "name" (printf "%s-node-topology" .driver.name) "account" (printf "%s-node" .driver.name) "namespace" (include "stowage.instanceNamespace" .)) }}
{{- end }}

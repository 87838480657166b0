{{/* The instance of the embedded driver. */}}
{{- define "stowage.hostpath" -}}
{{- $everyNode := eq .driver.layout "everyNode" -}}
apiVersion: csidriver.storage.openshift.io/v1alpha1
kind: CSIDriverDeployment
metadata:
  name: {{ .driver.name }}
  namespace: {{ include "stowage.instanceNamespace" . }}
spec:
  driverName: {{ .driver.csiDriverName }}
  driverSocket: /run/csi/csi.sock
  nodeUpdateStrategy: Rolling
  {{- if $everyNode }}
  probePeriodSeconds: 60
  sidecars:
    nodeDeployment: true
  {{- end }}
  csiDriver:
    spec:
      {{- if $everyNode }}
      attachRequired: false
      podInfoOnMount: true
      {{- end }}
      # Without it, and without a filesystem type in the class, the fsGroup of pods is ignored.
      fsGroupPolicy: File
      {{- if $everyNode }}
      volumeLifecycleModes: [Persistent, Ephemeral]
      {{- end }}
  driverPerNodeTemplate:
    {{- include "stowage.hostpath.template" (dict "root" .root "driver" .driver "mode" (ternary "" "node" $everyNode)) | nindent 4 }}
  {{- if not $everyNode }}
  driverControllerTemplate:
    {{- include "stowage.hostpath.template" (dict "root" .root "driver" .driver "mode" "controller") | nindent 4 }}
  {{- end }}
  {{- with .driver.storageClasses }}
  storageClassTemplates:
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with .driver.snapshotClasses }}
  # They appear when the cluster knows the kind: kubectl apply -f deploy/crds/snapshot.storage.k8s.io.yaml
  volumeSnapshotClassTemplates:
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* The driver's pod. Without a mode it is both halves in one. */}}
{{- define "stowage.hostpath.template" -}}
{{- $directory := .driver.stateDirectory -}}
spec:
  {{- if not .mode }}
  tolerations:
  - operator: Exists
  {{- end }}
  containers:
  - name: csi-driver
    image: {{ include "stowage.image" .root }}
    args:
    - driver
    - hostpath
    {{- if ne .driver.csiDriverName "csi-hostpath" }}
    - --drivername={{ .driver.csiDriverName }}
    {{- end }}
    - --endpoint=unix:///run/csi/csi.sock
    - --nodeid=$(KUBE_NODE_NAME)
    - --statedir={{ $directory }}
    {{- with .mode }}
    - --mode={{ . }}
    {{- end }}
    env:
    - name: KUBE_NODE_NAME
      valueFrom:
        fieldRef:
          apiVersion: v1
          fieldPath: spec.nodeName
    # The default is a file in /dev, which is the host's here.
    terminationMessagePath: /run/termination-log
    securityContext:
      privileged: true
    volumeMounts:
    - name: state
      mountPath: {{ $directory }}
    - name: dev
      mountPath: /dev
  volumes:
  - name: state
    hostPath:
      path: {{ $directory }}
      type: DirectoryOrCreate
  - name: dev
    hostPath:
      path: /dev
      type: Directory
{{- end }}

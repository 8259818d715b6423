{{/*
A driver: one pod on each node that has its hardware. A dict: root, name, settings, vendor, driver (its name in slices),
privileged. With simulated hardware, a label selects the nodes.
*/}}
{{- define "allotment.driver" -}}
{{- $root := .root }}
{{- if .settings.simulate }}
{{- $settings := deepCopy .settings }}
{{- $nodes := omit .settings.nodeSelector "feature.node.kubernetes.io/pci-10de.present" "feature.node.kubernetes.io/pci-1002.present" }}
{{- $_ := set $settings "nodeSelector" (set $nodes "allotment.dev/simulate" .vendor) }}
{{- $_ := set $settings "driverRoot" "" }}
{{- $_ := set . "settings" $settings }}
{{- $_ := set . "privileged" false }}
{{- end }}
{{- include "allotment.access" (merge (dict "part" (printf "driver-%s" .vendor)) .) }}
{{- $args := list "run" "driver" .vendor }}
{{- with .settings.mode }}
{{- $args = append $args (printf "--mode=%s" .) }}
{{- end }}
{{- with .settings.simulate }}
{{- $args = append $args (printf "--simulate=%s" .) }}
{{- end }}
{{- with .settings.driverRoot }}
{{- $args = concat $args (list "--driver-root=/driver-root" (printf "--driver-root-on-host=%s" .)) }}
{{- end }}
{{- $args = concat $args (list (printf "--kubelet-root=%s" .settings.kubeletRoot) (printf "--cdi-root=%s" .settings.cdiRoot)) }}
{{- if .settings.metadata }}
{{- $args = append $args "--metadata" }}
{{- end }}
---
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ include "allotment.name" . }}
  namespace: {{ $root.Release.Namespace | quote }}
  labels:
    {{- include "allotment.component.labels" . | nindent 4 }}
spec:
  selector:
    matchLabels:
      {{- include "allotment.component.selector" . | nindent 6 }}
  updateStrategy:
    # The new pod starts before the old one ends, so the kubelet always finds a driver.
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
  template:
    metadata:
      {{- include "allotment.metadata" . | nindent 6 }}
    spec:
      serviceAccountName: {{ include "allotment.account" . | quote }}
      {{- include "allotment.placement" . | nindent 6 }}
      {{- if and (eq .vendor "nvidia") .privileged }}
      # MPS daemons serve processes in other containers, so they need the host's PID namespace.
      hostPID: true
      {{- end }}
      securityContext:
        seccompProfile: {type: RuntimeDefault}
      containers:
        - name: driver
          image: {{ include "allotment.image" $root }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args:
            {{- include "allotment.args" (merge (dict "args" $args) .) | nindent 12 }}
          env:
            - name: NODE_NAME
              valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
            - name: POD_UID
              valueFrom: {fieldRef: {fieldPath: metadata.uid}}
            {{- with .settings.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            {{- include "allotment.ports" . | nindent 12 }}
          {{- include "allotment.probes" . | nindent 10 }}
          resources:
            {{- toYaml .settings.resources | nindent 12 }}
          securityContext:
            # The kubelet's directories belong to root.
            runAsUser: 0
            readOnlyRootFilesystem: true
            {{- if .privileged }}
            privileged: true
            {{- else }}
            allowPrivilegeEscalation: false
            capabilities: {drop: [ALL]}
            {{- end }}
          volumeMounts:
            - {name: tmp, mountPath: /tmp}
            # The paths are the same as on the host, because the driver reports the path of its socket to the kubelet.
            {{- if and (eq .vendor "nvidia") .privileged }}
            - {name: plugins, mountPath: {{ .settings.kubeletRoot }}/plugins, mountPropagation: Bidirectional}
            {{- else }}
            - {name: plugins, mountPath: {{ .settings.kubeletRoot }}/plugins}
            {{- end }}
            - {name: registry, mountPath: {{ .settings.kubeletRoot }}/plugins_registry}
            - {name: cdi, mountPath: {{ .settings.cdiRoot }}}
            {{- if .settings.driverRoot }}
            - {name: driver-root, mountPath: /driver-root, readOnly: true, mountPropagation: HostToContainer}
            {{- end }}
            {{- if .privileged }}
            - {name: dev, mountPath: /dev}
            {{- end }}
            {{- if $root.Values.metrics.enabled }}
            - {name: tls, mountPath: /etc/allotment/tls, readOnly: true}
            {{- end }}
            {{- with .settings.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        - {name: tmp, emptyDir: {}}
        - {name: plugins, hostPath: {path: {{ .settings.kubeletRoot }}/plugins, type: DirectoryOrCreate}}
        - {name: registry, hostPath: {path: {{ .settings.kubeletRoot }}/plugins_registry, type: DirectoryOrCreate}}
        - {name: cdi, hostPath: {path: {{ .settings.cdiRoot }}, type: DirectoryOrCreate}}
        {{- with .settings.driverRoot }}
        - {name: driver-root, hostPath: {path: {{ . }}, type: Directory}}
        {{- end }}
        {{- if .privileged }}
        - {name: dev, hostPath: {path: /dev}}
        {{- end }}
        {{- if $root.Values.metrics.enabled }}
        - {name: tls, secret: {secretName: {{ include "allotment.certificate" $root | quote }}}}
        {{- end }}
        {{- with .settings.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- include "allotment.service" . }}
{{- if and $root.Values.ownNodePolicy ($root.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1") }}
{{- $account := printf "%s:%s" $root.Release.Namespace (include "allotment.account" .) }}
---
# A driver is allowed to write only the slices of its own node. Roles cannot express this.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ include "allotment.name" . }}-own-node
  labels:
    {{- include "allotment.component.labels" . | nindent 4 }}
spec:
  {{- $root.Files.Get "files/rules/own-node.yaml" | replace "NAMESPACE:ACCOUNT" $account | fromYaml | toYaml | nindent 2 }}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ include "allotment.name" . }}-own-node
  labels:
    {{- include "allotment.component.labels" . | nindent 4 }}
spec:
  policyName: {{ include "allotment.name" . }}-own-node
  validationActions: [Deny]
{{- end }}
{{- end -}}

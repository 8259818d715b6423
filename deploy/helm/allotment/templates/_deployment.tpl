{{/*
A component that can run on any node. A dict: root, name, part, settings, args, and lease: the Lease for leader
election; empty if replicas do not conflict. page: https or http if it serves a page, otherwise absent.
*/}}
{{- define "allotment.deployment" -}}
{{- include "allotment.access" . }}
{{- if .lease }}
---
# The leader records its identity in this Lease. It is part of the chart, so uninstalling the chart removes it.
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata:
  name: {{ .lease }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "allotment.component.labels" . | nindent 4 }}
{{- end }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "allotment.name" . }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "allotment.component.labels" . | nindent 4 }}
spec:
  replicas: {{ .settings.replicas }}
  selector:
    matchLabels:
      {{- include "allotment.component.selector" . | nindent 6 }}
  template:
    metadata:
      {{- include "allotment.metadata" . | nindent 6 }}
    spec:
      serviceAccountName: {{ include "allotment.account" . | quote }}
      {{- include "allotment.placement" . | nindent 6 }}
      {{- if gt (int .settings.replicas) 1 }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "allotment.component.selector" . | nindent 14 }}
      {{- end }}
      # Complies with the Pod Security Standard "restricted". No user is set: the image has one (65532), and OpenShift assigns its own.
      securityContext:
        runAsNonRoot: true
        seccompProfile: {type: RuntimeDefault}
      containers:
        - name: {{ .name }}
          image: {{ include "allotment.image" .root }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args:
            {{- $args := .args }}
            {{- if .lease }}
            {{- $args = concat $args (list "--leader-elect" "--lease-namespace=$(POD_NAMESPACE)") }}
            {{- end }}
            {{- include "allotment.args" (merge (dict "args" $args) .) | nindent 12 }}
          env:
            - name: POD_NAMESPACE
              valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
            {{- with .settings.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            {{- include "allotment.ports" . | nindent 12 }}
          {{- include "allotment.probes" . | nindent 10 }}
          resources:
            {{- toYaml .settings.resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
          volumeMounts:
            - {name: tmp, mountPath: /tmp}
            {{- if include "allotment.tls" . }}
            - {name: tls, mountPath: /etc/allotment/tls, readOnly: true}
            {{- end }}
            {{- with .settings.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        - {name: tmp, emptyDir: {}}
        {{- if include "allotment.tls" . }}
        - {name: tls, secret: {secretName: {{ include "allotment.certificate" .root | quote }}}}
        {{- end }}
        {{- with .settings.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- if gt (int .settings.replicas) 1 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "allotment.name" . }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "allotment.component.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "allotment.component.selector" . | nindent 6 }}
{{- end }}
{{- include "allotment.service" . }}
{{- end -}}

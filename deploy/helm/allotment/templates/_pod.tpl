{{/* The common part of all components' pods. A dict: root, name, settings, and args (a list of strings). */}}

{{- define "allotment.args" -}}
{{- $root := .root }}
{{- range .args }}
- {{ . | quote }}
{{- end }}
- {{ printf "--health-bind-address=%s:8081" $root.Values.listen | quote }}
{{- if $root.Values.metrics.enabled }}
- {{ printf "--metrics-bind-address=%s:8443" $root.Values.listen | quote }}
{{- end }}
{{- if include "allotment.tls" . }}
- --tls-cert-file=/etc/allotment/tls/tls.crt
- --tls-private-key-file=/etc/allotment/tls/tls.key
{{- end }}
- {{ printf "--log-format=%s" $root.Values.logs.format | quote }}
{{- if $root.Values.logs.verbose }}
- --verbose
{{- end }}
{{- with $root.Values.traces }}
- {{ printf "--otlp-endpoint=%s" . | quote }}
{{- end }}
{{- range .settings.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "allotment.ports" -}}
- name: health
  containerPort: 8081
{{- if .root.Values.metrics.enabled }}
- name: metrics
  containerPort: 8443
{{- end }}
{{- if .page }}
- name: {{ .page }}
  containerPort: 8444
{{- end }}
{{- end -}}

{{- define "allotment.probes" -}}
# A pod that is not ready must not be killed, so each probe has its own path. A standby replica is also ready.
startupProbe:
  httpGet: {path: /livez, port: health}
  periodSeconds: 2
  failureThreshold: 30
livenessProbe:
  httpGet: {path: /livez, port: health}
  periodSeconds: 20
  timeoutSeconds: 5
readinessProbe:
  httpGet: {path: /readyz, port: health}
  periodSeconds: 10
  timeoutSeconds: 5
{{- end -}}

{{- define "allotment.metadata" -}}
labels:
  {{- include "allotment.component.labels" . | nindent 2 }}
  {{- with .settings.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .settings.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "allotment.placement" -}}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .settings.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .settings.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .settings.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .settings.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

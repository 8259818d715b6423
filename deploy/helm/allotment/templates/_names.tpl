{{/* Names and labels. Every template takes the root context, or a dict with it as "root" and a component's "name". */}}

{{- define "allotment.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The name of one component: allotment-exporter. */}}
{{- define "allotment.name" -}}
{{- printf "%s-%s" (include "allotment.fullname" .root) .name -}}
{{- end -}}

{{- define "allotment.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "allotment.labels" -}}
{{ include "allotment.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "allotment.component.selector" -}}
{{ include "allotment.selector" .root }}
app.kubernetes.io/component: {{ .name }}
{{- end -}}

{{- define "allotment.component.labels" -}}
{{ include "allotment.labels" .root }}
app.kubernetes.io/component: {{ .name }}
{{- end -}}

{{- define "allotment.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether a component's pods serve TLS: "true", or empty. A dict: root, page. */}}
{{- define "allotment.tls" -}}
{{- if or .root.Values.metrics.enabled (eq (.page | default "") "https") -}}true{{- end -}}
{{- end -}}

{{/* The Secret with the certificate of /metrics and of the page. */}}
{{- define "allotment.certificate" -}}
{{- if eq .Values.metrics.tls.from "secret" -}}
{{- required "metrics.tls.secretName: expected the name of a Secret with tls.crt and tls.key, because metrics.tls.from is secret" .Values.metrics.tls.secretName -}}
{{- else -}}
{{- printf "%s-metrics-tls" (include "allotment.fullname" .) -}}
{{- end -}}
{{- end -}}

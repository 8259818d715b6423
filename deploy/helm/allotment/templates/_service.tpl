{{/* The Service of a component's metrics and, for `helm test`, its probes. A dict: root, name. */}}
{{- define "allotment.service" }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ include "allotment.name" . }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "allotment.component.labels" . | nindent 4 }}
spec:
  # Each replica has its own metrics, so Prometheus must scrape each one.
  clusterIP: None
  selector:
    {{- include "allotment.component.selector" . | nindent 4 }}
  ports:
    - {name: health, port: 8081, targetPort: health}
    {{- if .root.Values.metrics.enabled }}
    - {name: metrics, port: 8443, targetPort: metrics}
    {{- end }}
{{- end -}}

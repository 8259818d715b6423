{{/* The Service of a component's metrics, of its page and, for `helm test`, of its probes. A dict: root, name, page. */}}
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
  {{- if not .page }}
  # Each replica has its own metrics, so Prometheus must scrape each one.
  clusterIP: None
  {{- end }}
  selector:
    {{- include "allotment.component.selector" . | nindent 4 }}
  ports:
    {{- with .page }}
    - {name: {{ . }}, port: {{ eq . "https" | ternary 443 80 }}, targetPort: {{ . }}, appProtocol: {{ . }}}
    {{- end }}
    - {name: health, port: 8081, targetPort: health}
    {{- if .root.Values.metrics.enabled }}
    - {name: metrics, port: 8443, targetPort: metrics}
    {{- end }}
{{- end -}}

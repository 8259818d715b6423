{{/*
The permissions of a component: a separate account, and the rules of files/rules (generated from
src/allotment/permissions by `python -m tests.packaging.made_files`; `allot rbac` prints the same).

A dict: root, name (of the component), part (whose rules it has), settings (its values).
*/}}
{{- define "allotment.account" -}}
{{- .settings.serviceAccount.name | default (include "allotment.name" .) -}}
{{- end -}}

{{- define "allotment.access" -}}
{{- $rules := .root.Files.Get (printf "files/rules/%s.yaml" .part) | fromYaml -}}
{{- if .settings.serviceAccount.create }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "allotment.account" . | quote }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "allotment.component.labels" . | nindent 4 }}
  {{- with .settings.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- if .root.Values.rbac.create }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ include "allotment.name" . }}
  labels:
    {{- include "allotment.component.labels" . | nindent 4 }}
rules:
  {{- toYaml $rules.everywhere | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ include "allotment.name" . }}
  labels:
    {{- include "allotment.component.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ include "allotment.name" . }}
subjects:
  - kind: ServiceAccount
    name: {{ include "allotment.account" . | quote }}
    namespace: {{ .root.Release.Namespace | quote }}
{{- if $rules.atHome }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ include "allotment.name" . }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "allotment.component.labels" . | nindent 4 }}
rules:
  {{- toYaml $rules.atHome | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ include "allotment.name" . }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "allotment.component.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ include "allotment.name" . }}
subjects:
  - kind: ServiceAccount
    name: {{ include "allotment.account" . | quote }}
    namespace: {{ .root.Release.Namespace | quote }}
{{- end }}
{{- end }}
{{- end -}}

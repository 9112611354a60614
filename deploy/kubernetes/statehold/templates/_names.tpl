{{/* The name of everything, which is that of the release. */}}
{{- define "statehold.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "statehold.labels" -}}
{{ include "statehold.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "statehold.selector" -}}
app.kubernetes.io/name: statehold
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* What the names of all pods end with. */}}
{{- define "statehold.domain" -}}
{{ include "statehold.name" . }}-nodes.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end }}

{{/* The name of everything in a release: with room for a suffix, because names have at most 63 characters. */}}
{{- define "hookgate.name" -}}
{{- $name := contains .Chart.Name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) -}}
{{- $name | trunc 56 | trimSuffix "-" -}}
{{- end }}

{{/* What selects the pods of a release. */}}
{{- define "hookgate.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "hookgate.labels" -}}
{{ include "hookgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "hookgate.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}

{{/*
hookgate.toml. Strings, lists, numbers and booleans of JSON are those of TOML; `toToml` would turn whole numbers into
floats. The sections `keys` and `credentials` contain tables.
*/}}
{{- define "hookgate.toml" -}}
{{- $own := dict "listen" (dict "address" "0.0.0.0:8787") "admin" (dict "address" "0.0.0.0:9787")
    "hooks" (dict "policy" (list "/hooks/settings.json")) -}}
{{- range $section, $settings := mergeOverwrite (deepCopy .Values.config) $own }}
{{- if has $section (list "keys" "credentials") }}
{{- range $name, $table := $settings }}
[{{ $section }}.{{ toJson $name }}]
{{- include "hookgate.settings" $table }}
{{- end }}
{{- else }}
[{{ $section }}]
{{- include "hookgate.settings" $settings }}
{{- end }}
{{- end }}
{{- end }}

{{- define "hookgate.settings" }}
{{- range $key, $value := . }}
{{ $key }} = {{ toJson $value }}
{{- end }}
{{ end }}

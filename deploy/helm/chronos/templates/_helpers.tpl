{{- define "chronos.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name -}}
{{- else -}}
{{- printf "%s-%s" (.Release.Name | trunc 49) .Chart.Name -}}
{{- end -}}
{{- end -}}

{{- define "chronos.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "chronos.labels" -}}
{{ include "chronos.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* The metadata of an object: list ROOT SUFFIX-OF-THE-NAME, and a dictionary of further labels. */}}
{{- define "chronos.metadata" -}}
{{- $root := index . 0 -}}
name: {{ include "chronos.fullname" $root }}{{ index . 1 }}
namespace: {{ $root.Release.Namespace }}
labels:
  {{- include "chronos.labels" $root | nindent 2 }}
  {{- with index . 2 }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "chronos.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "chronos.fullname" .) -}}
{{- end -}}

{{/* The names under which the admin listener answers: those of the admin Service, and further names. */}}
{{- define "chronos.adminHosts" -}}
{{- $name := printf "%s-admin" (include "chronos.fullname" .) -}}
{{- $in := printf "%s.%s" $name .Release.Namespace -}}
{{- $svc := printf "%s.svc" $in -}}
{{- concat (list $name $in $svc (printf "%s.%s" $svc .Values.clusterDomain)) .Values.adminHosts | join "," -}}
{{- end -}}

{{/* A probe of the admin listener: dict "root" ROOT "path" PATH. */}}
{{- define "chronos.probe" -}}
{{- if .root.Values.tls.clientAuthorities -}}
tcpSocket: {port: admin}
{{- else -}}
httpGet: {path: {{ .path }}, port: admin, scheme: {{ include "chronos.scheme" .root | upper }}}
{{- end }}
timeoutSeconds: 3
{{- end -}}

{{- define "chronos.scheme" -}}
{{- ternary "https" "http" (not (empty .Values.tls.existingSecret)) -}}
{{- end -}}

{{/* The faults of values that the schema can't express. */}}
{{- define "chronos.check" -}}
{{- if not .Values.redis.existingSecret -}}
{{- fail "redis.existingSecret is empty: name a Secret whose key CHRONOS_REDIS has the shards, such as a=redis://redis-0:6379/0,b=redis://redis-1:6379/0" -}}
{{- end -}}
{{- if not .Values.image.repository -}}
{{- fail "image.repository is empty: name the image in your registry" -}}
{{- end -}}
{{- if and .Values.tls.clientAuthorities (not .Values.tls.existingSecret) -}}
{{- fail "tls.clientAuthorities needs tls.existingSecret, a Secret with the certificate of the listeners" -}}
{{- end -}}
{{- if .Values.serviceMonitor.enabled -}}
{{- if and .Values.tokens.existingSecret (not .Values.serviceMonitor.tokenSecret) -}}
{{- fail "serviceMonitor.tokenSecret is empty, though tokens.existingSecret has all requests need a token: name a Secret whose key token has a token of the role read" -}}
{{- end -}}
{{- if and .Values.tls.existingSecret (not .Values.serviceMonitor.tlsConfig) -}}
{{- fail "serviceMonitor.tlsConfig is empty, though tls.existingSecret gives the admin listener TLS: say how Prometheus checks the certificate" -}}
{{- end -}}
{{- if and .Values.networkPolicy.enabled (not .Values.networkPolicy.adminFrom) -}}
{{- fail "networkPolicy.adminFrom is empty, so Prometheus does not reach the admin listener: name the peers" -}}
{{- end -}}
{{- end -}}
{{- end -}}

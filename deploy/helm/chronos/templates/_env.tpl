{{/* The environment of a node. The schema keeps .Values.config away from the variables that are set here. */}}
{{- define "chronos.env" -}}
- {name: CHRONOS_LISTEN, value: ":7253"}
- {name: CHRONOS_ADMIN_LISTEN, value: ":7254"}
- {name: CHRONOS_ADMIN_HOSTS, value: {{ include "chronos.adminHosts" . | quote }}}
- {name: XDG_RUNTIME_DIR, value: /run} # where a node writes its token
- name: CHRONOS_REDIS
  valueFrom:
    secretKeyRef: {name: {{ .Values.redis.existingSecret }}, key: CHRONOS_REDIS}
{{- if .Values.tokens.existingSecret }}
- {name: CHRONOS_TOKENS_FILE, value: /etc/chronos/tokens/tokens}
{{- else }}
- {name: CHRONOS_ADMIN_OPEN, value: "true"}
{{- end }}
{{- with .Values.webhook.existingSecret }}
- name: CHRONOS_WEBHOOK_SECRETS
  valueFrom:
    secretKeyRef: {name: {{ . }}, key: CHRONOS_WEBHOOK_SECRETS}
{{- end }}
{{- if .Values.tls.existingSecret }}
- {name: CHRONOS_TLS_CERT_FILE, value: /etc/chronos/tls/tls.crt}
- {name: CHRONOS_TLS_KEY_FILE, value: /etc/chronos/tls/tls.key}
{{- end }}
{{- if .Values.tls.clientAuthorities }}
- {name: CHRONOS_TLS_CLIENT_CA_FILE, value: /etc/chronos/clients/ca.crt}
{{- end }}
{{- if .Values.authorities }}
- {name: SSL_CERT_DIR, value: /etc/chronos/authorities} # read beside the authorities of the image
{{- end }}
{{- if .Values.destinations }}
- {name: CHRONOS_DESTINATIONS_FILE, value: /etc/chronos/destinations/destinations}
{{- end }}
{{- range $name, $value := .Values.config }}
- {name: {{ $name }}, value: {{ kindIs "string" $value | ternary $value (toJson $value) | quote }}}
{{- end }}
{{- end -}}

{{/* The folders of files under /etc/chronos: a Secret or a ConfigMap each. */}}
{{- define "chronos.files" -}}
{{- with .Values.tokens.existingSecret }}
- {name: tokens, secret: {{ . }}}
{{- end }}
{{- with .Values.tls.existingSecret }}
- {name: tls, secret: {{ . }}}
{{- end }}
{{- with .Values.tls.clientAuthorities }}
- {name: clients, configMap: {{ . }}}
{{- end }}
{{- with .Values.authorities }}
- {name: authorities, configMap: {{ . }}}
{{- end }}
{{- if .Values.destinations }}
- {name: destinations, configMap: {{ include "chronos.fullname" . }}-destinations}
{{- end }}
{{- end -}}

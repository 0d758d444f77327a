{{- /* An image: by digest where there is one, else by tag. Arguments: root, name, the component's image. */ -}}
{{- define "g8s.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 2 -}}
{{- $repository := default (printf "%s/%s" $root.Values.image.registry (index . 1)) $image.repository -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository ($image.tag | default $root.Values.image.tag | default $root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- /* The name of the scheduler's configuration, which changes with it. Arguments: the shipped one's name, the user's file. */ -}}
{{- define "g8s.configName" -}}
{{- if index . 1 -}}
{{- printf "gpu-scheduler-config-%s" (index . 1 | sha256sum | trunc 10) -}}
{{- else -}}
{{- index . 0 -}}
{{- end -}}
{{- end -}}

{{- /* Where spans go, and of how many. */ -}}
{{- define "g8s.tracing" -}}
apiVersion: apiserver.config.k8s.io/v1
kind: TracingConfiguration
endpoint: {{ .Values.tracing.endpoint | toJson }}
samplingRatePerMillion: {{ int .Values.tracing.samplingRatePerMillion }}
{{- end -}}

{{- /* Its name changes with it, so that the pods are replaced: programs read it when they start. */ -}}
{{- define "g8s.tracingName" -}}
{{- printf "g8s-tracing-%s" (include "g8s.tracing" . | sha256sum | trunc 10) -}}
{{- end -}}

{{- define "gpu-autoscaler.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Of objects without a namespace: two installations may not share them. */ -}}
{{- define "gpu-autoscaler.clusterName" -}}
{{- printf "%s:%s" .Release.Namespace (include "gpu-autoscaler.fullname" .) -}}
{{- end -}}

{{- define "gpu-autoscaler.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- /* Of the controller's pods: the gateway's have another component. */ -}}
{{- define "gpu-autoscaler.controllerSelector" -}}
{{ include "gpu-autoscaler.selector" . }}
app.kubernetes.io/component: controller
{{- end -}}

{{- /* Of the gateway's pods. */ -}}
{{- define "gpu-autoscaler.gatewaySelector" -}}
{{ include "gpu-autoscaler.selector" . }}
app.kubernetes.io/component: gateway
{{- end -}}

{{- define "gpu-autoscaler.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{ include "gpu-autoscaler.selector" . }}
{{- with .Values.extraLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "gpu-autoscaler.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "gpu-autoscaler.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{- define "gpu-autoscaler.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "gpu-autoscaler.tokenSecret" -}}
{{- .Values.api.tokenSecret | default (printf "%s-token" (include "gpu-autoscaler.fullname" .)) -}}
{{- end -}}

{{- /* Whether any server needs a certificate: "true" or "". */ -}}
{{- define "gpu-autoscaler.needsCertificate" -}}
{{- if or .Values.externalMetrics.enabled (and .Values.externalScaler.enabled .Values.externalScaler.tls.enabled) -}}
true
{{- end -}}
{{- end -}}

{{- define "gpu-autoscaler.certificateSecret" -}}
{{- if eq .Values.certificates.source "secret" -}}
{{- .Values.certificates.secret.name -}}
{{- else -}}
{{- printf "%s-tls" (include "gpu-autoscaler.fullname" .) -}}
{{- end -}}
{{- end -}}

{{- /* Names that the certificate is for: those of both Services, as a JSON list. */ -}}
{{- define "gpu-autoscaler.dnsNames" -}}
{{- $names := list -}}
{{- $fullname := include "gpu-autoscaler.fullname" . -}}
{{- range $service := list (printf "%s-metrics" $fullname) $fullname -}}
{{- $names = append $names (printf "%s.%s.svc" $service $.Release.Namespace) -}}
{{- $names = append $names (printf "%s.%s.svc.cluster.local" $service $.Release.Namespace) -}}
{{- end -}}
{{- toJson $names -}}
{{- end -}}

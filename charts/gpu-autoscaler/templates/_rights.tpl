{{- /* Rules are kept apart from the roles that carry them: with a list of namespaces, those within are Roles. */ -}}

{{- /* How targets and whatever makes them are read. */ -}}
{{- define "gpu-autoscaler.targetRules" -}}
# Targets, and their owners: a Deployment may be an InferenceService's or a NIMService's.
- apiGroups: [apps]
  resources: [deployments, statefulsets]
  verbs: [list, watch]
- apiGroups: [leaderworkerset.x-k8s.io]
  resources: [leaderworkersets]
  verbs: [list, watch]
- apiGroups: [serving.kserve.io]
  resources: [inferenceservices]
  verbs: [list, watch]
- apiGroups: [ray.io]
  resources: [rayservices]
  verbs: [list, watch]
- apiGroups: [apps.nvidia.com]
  resources: [nimservices]
  verbs: [list, watch]
{{- range .Values.targets.custom }}
# A kind of which only the scale subresource is known.
- apiGroups: [{{ .group | quote }}]
  resources: [{{ .resource | quote }}]
  verbs: [list, watch]
- apiGroups: [{{ .group | quote }}]
  resources: [{{ printf "%s/scale" .resource | quote }}]
  verbs: [get]
{{- end }}
{{- end -}}

{{- /* Of the whole cluster, in both modes. */ -}}
{{- define "gpu-autoscaler.readRules" -}}
# Whose pods serve, who holds which devices, and what nodes offer.
- apiGroups: [""]
  resources: [pods, nodes, resourcequotas, limitranges]
  verbs: [list, watch]
# Which pods would make room for ours.
- apiGroups: [scheduling.k8s.io]
  resources: [priorityclasses]
  verbs: [list, watch]
# Who else scales a target: then we keep away from it.
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [list, watch]
- apiGroups: [keda.sh]
  resources: [scaledobjects]
  verbs: [list, watch]
- apiGroups: [autoscaling.k8s.io]
  resources: [verticalpodautoscalers]
  verbs: [list, watch]
{{ include "gpu-autoscaler.targetRules" . }}
{{- end -}}

{{- /* Where InferenceAutoscalers are served, in both modes. */ -}}
{{- define "gpu-autoscaler.serveRules" -}}
# What is asked of us.
- apiGroups: [gpu-autoscaler.io]
  resources: [inferenceautoscalers]
  verbs: [list, watch]
# What was decided; HPA and KEDA are answered from it. The spec can't be written with this.
- apiGroups: [gpu-autoscaler.io]
  resources: [inferenceautoscalers/status]
  verbs: [patch]
# An event for each change; a repeated one is counted in the one that is there.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{- /* Where InferenceAutoscalers are served, in mode Scale alone. */ -}}
{{- define "gpu-autoscaler.scaleRules" -}}
{{- with .Values.targets }}
{{- $apps := list }}
{{- if .deployments }}{{ $apps = append $apps "deployments/scale" }}{{ end }}
{{- if .statefulSets }}{{ $apps = append $apps "statefulsets/scale" }}{{ end }}
{{- with $apps }}
# The count of replicas, and nothing else of the object. Read first: the write is refused if it changed meanwhile.
- apiGroups: [apps]
  resources: {{ toJson . }}
  verbs: [get, update]
{{- end }}
{{- if .leaderWorkerSets }}
- apiGroups: [leaderworkerset.x-k8s.io]
  resources: [leaderworkersets/scale]
  verbs: [get, update]
{{- end }}
{{- range .custom }}
- apiGroups: [{{ .group | quote }}]
  resources: [{{ printf "%s/scale" .resource | quote }}]
  verbs: [get, update]
{{- end }}
{{- if .rayServices }}
# No scale subresource: the replicas of a worker group are patched in the object.
- apiGroups: [ray.io]
  resources: [rayservices]
  verbs: [get, patch]
{{- end }}
{{- if .nimServices }}
# No scale subresource: spec.replicas is patched in the object.
- apiGroups: [apps.nvidia.com]
  resources: [nimservices]
  verbs: [get, patch]
{{- end }}
{{- if or .deployments .custom }}
# The annotation pod-deletion-cost, so that idle pods go before busy ones. Only ReplicaSets heed it.
- apiGroups: [""]
  resources: [pods]
  verbs: [patch]
{{- end }}
{{- end }}
{{- end -}}

{{- define "gpu-autoscaler.subject" -}}
- kind: ServiceAccount
  name: {{ include "gpu-autoscaler.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

{{- /* Of the gateway: which services it routes to. */ -}}
{{- define "gpu-autoscaler.gatewayResourceRules" -}}
- apiGroups: [gpu-autoscaler.io]
  resources: [inferenceautoscalers]
  verbs: [list, watch]
{{- end -}}

{{- /* Of the gateway: the pods of the services, and how they are found. */ -}}
{{- define "gpu-autoscaler.gatewayPodRules" -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
{{ include "gpu-autoscaler.targetRules" . }}
{{- end -}}

{{- define "gpu-autoscaler.gatewaySubject" -}}
- kind: ServiceAccount
  name: {{ include "gpu-autoscaler.fullname" . }}-gateway
  namespace: {{ .Release.Namespace }}
{{- end -}}

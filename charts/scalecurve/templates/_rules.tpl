{{/* What the operator does with experiments and their children, in every namespace that it serves: no verb that it does not use.
The rules for jobs are generated from scalecurve_api/spec/job_kinds.py by `make crds`. */}}
{{- define "scalecurve.rules" -}}
- apiGroups: [scalecurve.dev]
  resources: [scalingexperiments]
  verbs: [list, watch, delete]
- apiGroups: [scalecurve.dev]
  resources: [scalingexperiments/status]
  verbs: [patch]
- apiGroups: [scalecurve.dev]
  resources: [scalingtrials]
  verbs: [create, get, list, watch]
- apiGroups: [scalecurve.dev]
  resources: [scalingtrials/status]
  verbs: [patch]
{{ .Files.Get "files/job-rules.yaml" }}- apiGroups: [""]
  resources: [services]
  verbs: [create]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create]
- apiGroups: [""]
  resources: [pods]
  verbs: [list]
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
- apiGroups: [""]
  resources: [events]
  verbs: [create, list]
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads]
  verbs: [list]
{{- end -}}

{{/* Which kinds there are, and which namespaces: only who serves the whole cluster asks. */}}
{{- define "scalecurve.clusterRules" -}}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [namespaces]
  verbs: [list, watch]
{{- end -}}

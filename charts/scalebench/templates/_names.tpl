{{- define "scalebench.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "scalebench.fullname" -}}
{{- $name := include "scalebench.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* For roles outside the release's namespace, where its name alone would not be its own. Roles' names may be long. */}}
{{- define "scalebench.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "scalebench.fullname" .) -}}
{{- end -}}

{{- define "scalebench.leaseName" -}}
{{- printf "%s-operator" (include "scalebench.fullname" .) -}}
{{- end -}}

{{- define "scalebench.serviceAccountName" -}}
{{- default (ternary (include "scalebench.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "scalebench.selectorLabels" -}}
app.kubernetes.io/name: {{ include "scalebench.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "scalebench.ownLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "scalebench.selectorLabels" . }}
app.kubernetes.io/part-of: scalebench
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "scalebench.labels" -}}
{{- include "scalebench.labelsAnd" (list . dict) -}}
{{- end -}}

{{/* (list . labels) -> these labels too; the chart's own win, for selectors depend on them. */}}
{{- define "scalebench.labelsAnd" -}}
{{- merge (include "scalebench.ownLabels" (index . 0) | fromYaml) (index . 1) (index . 0).Values.commonLabels | toYaml -}}
{{- end -}}

{{/* (list . image) -> repository:tag, or repository@digest */}}
{{- define "scalebench.image" -}}
{{- $image := index . 1 -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default (index . 0).Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{/* What Pod Security's restricted level wants of a container, and a root file system that nobody writes to. */}}
{{- define "scalebench.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "scalebench.podSecurityContext" -}}
runAsNonRoot: true
seccompProfile:
  type: RuntimeDefault
{{- end -}}

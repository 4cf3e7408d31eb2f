{{- define "scalecurve.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "scalecurve.fullname" -}}
{{- $name := include "scalecurve.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* For roles outside the release's namespace, where its name alone would not be its own. Roles' names may be long. */}}
{{- define "scalecurve.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "scalecurve.fullname" .) -}}
{{- end -}}

{{/* The served namespaces as a YAML list, which is empty for the whole cluster. */}}
{{- define "scalecurve.namespaces" -}}
{{- if and .Values.clusterWide .Values.namespaces -}}
{{- fail "clusterWide: true serves every namespace; set it or namespaces, not both" -}}
{{- end -}}
{{/* `helm upgrade --reuse-values` hands over the values of the older chart alone, in which no namespaces meant all of them. */}}
{{- if not (or (hasKey .Values "clusterWide") .Values.namespaces) -}}
{{- fail "these values are of an older chart, which served every namespace: set clusterWide=true to keep that, or clusterWide=false for the release's own namespace" -}}
{{- end -}}
{{- ternary list (default (list .Release.Namespace) (uniq .Values.namespaces)) (default false .Values.clusterWide) | toYaml -}}
{{- end -}}

{{- define "scalecurve.leaseName" -}}
{{- printf "%s-operator" (include "scalecurve.fullname" .) -}}
{{- end -}}

{{- define "scalecurve.serviceAccountName" -}}
{{- default (ternary (include "scalecurve.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "scalecurve.selectorLabels" -}}
app.kubernetes.io/name: {{ include "scalecurve.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "scalecurve.ownLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "scalecurve.selectorLabels" . }}
app.kubernetes.io/part-of: scalecurve
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "scalecurve.labels" -}}
{{- include "scalecurve.labelsAnd" (list . dict) -}}
{{- end -}}

{{/* (list . labels) -> these labels too; the chart's own win, for selectors depend on them. */}}
{{- define "scalecurve.labelsAnd" -}}
{{- merge (include "scalecurve.ownLabels" (index . 0) | fromYaml) (index . 1) (index . 0).Values.commonLabels | toYaml -}}
{{- end -}}

{{/* (list . image) -> repository:tag, or repository@digest */}}
{{- define "scalecurve.image" -}}
{{- $image := index . 1 -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default (index . 0).Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{/* What Pod Security's restricted level wants of a container, and a root file system that nobody writes to. */}}
{{- define "scalecurve.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "scalecurve.podSecurityContext" -}}
runAsNonRoot: true
seccompProfile:
  type: RuntimeDefault
{{- end -}}

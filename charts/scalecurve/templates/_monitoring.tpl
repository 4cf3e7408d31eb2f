{{/* What tells trials apart: an attempt is another run of the same trial. */}}
{{- define "scalecurve.ofTrial" -}}
by (namespace, experiment, trial, attempt, workers)
{{- end -}}

{{/* Seconds a step of the slowest rank's train windows, over the last minute; nothing while no window runs. */}}
{{- define "scalecurve.meanStep" -}}
(max {{ include "scalecurve.ofTrial" . }} (
  rate(scalecurve_step_duration_seconds_sum[1m]) / (rate(scalecurve_step_duration_seconds_count[1m]) > 0)
))
{{- end -}}

{{/* Rules, the same for a PrometheusRule and for a plain rule file. */}}
{{- define "scalecurve.ruleGroups" -}}
{{- $here := printf "namespace=%q" .Release.Namespace -}}
{{- $by := include "scalecurve.ofTrial" . -}}
- name: scalecurve-operator
  rules:
    - record: namespace:scalecurve_reconcile_seconds:p99_10m
      expr: histogram_quantile(0.99, sum by (namespace, le) (rate(scalecurve_reconcile_seconds_bucket[10m])))
    - record: namespace:scalecurve_trial_start_seconds:p90_1h
      expr: histogram_quantile(0.9, sum by (namespace, le) (rate(scalecurve_trial_start_seconds_bucket[1h])))
    - alert: ScaleCurveOperatorAbsent
      expr: absent(scalecurve_operator_leading{ {{- $here -}} } == 1)
      for: 5m
      labels: {severity: warning}
      annotations:
        summary: No ScaleCurve operator holds the lease; running jobs continue, but no new ones start.
    - alert: ScaleCurveReconcileErrors
      expr: sum(rate(scalecurve_reconcile_errors_total{ {{- $here -}} }[10m])) > 0.1
      for: 10m
      labels: {severity: warning}
      annotations:
        summary: Reconciliations fail and are retried; the operator's log names the experiments.
    - alert: ScaleCurveReconcileSlow
      expr: namespace:scalecurve_reconcile_seconds:p99_10m{ {{- $here -}} } > 2
      for: 10m
      labels: {severity: warning}
      annotations:
        summary: One reconciliation in a hundred takes more than 2 s; accelerators idle between trials.
    - alert: ScaleCurveTrialStarting
      expr: sum(scalecurve_trials{ {{- $here }}, phase="Starting"}) > 0
      for: {{ int .Values.prometheusRule.startingMinutes }}m
      labels: {severity: info}
      annotations:
        summary: Trials have been Starting for {{ int .Values.prometheusRule.startingMinutes }} minutes; `kubectl get scalingtrials -A` says why.
    - alert: ScaleCurveTrialsEndBadly
      expr: sum by (phase, reason) (increase(scalecurve_trials_ended_total{ {{- $here }}, phase=~"Failed|Invalid"}[1h])) > 2
      labels: {severity: info}
      annotations:
        summary: {{ "Several trials ended {{ $labels.phase }} ({{ $labels.reason }}) in the last hour; their messages say why." | quote }}
    - alert: ScaleCurveTrialsUnseen
      expr: sum(scalecurve_trials{ {{- $here }}, phase="Running"}) > 0 unless on () scalecurve_trial_info
      for: 5m
      labels: {severity: info}
      annotations:
        summary: Trials are running, but Prometheus scrapes none of their pods; see docs/how-to/prometheus.md.
- name: scalecurve-trials
  interval: 15s
  rules:
    # Samples by the seconds of the windows in which they were counted, not by those of Prometheus' clock: between windows
    # nothing is counted. A rank gives both as of one moment, so the quotient holds however seldom it is scraped. Ranks are
    # not scraped in the same moment: of now, their mean is taken, to which one that has not moved yet adds nothing.
    # The trial as a whole is the record's quotient: closed windows only, each with the time of its slowest rank.
    - record: trial:scalecurve_throughput:rate1m
      expr: |-
        sum {{ $by }} (rate(scalecurve_samples_total[1m]))
        / (sum {{ $by }} (rate(scalecurve_step_duration_seconds_sum[1m])) > 0)
        * count {{ $by }} (rate(scalecurve_step_duration_seconds_sum[1m]))
    - record: trial:scalecurve_throughput:whole
      expr: |-
        sum {{ $by }} (scalecurve_window_samples_total)
        / (avg {{ $by }} (scalecurve_window_seconds_total) > 0)
    - record: trial:scalecurve_step_duration_seconds:mean1m
      expr: |-
        {{- include "scalecurve.meanStep" . | nindent 8 }}
    {{- range $name, $quantile := dict "median1m" "0.5" "p99_1m" "0.99" }}
    - record: trial:scalecurve_step_duration_seconds:{{ $name }}
      expr: |-
        histogram_quantile({{ $quantile }}, sum by (namespace, experiment, trial, attempt, workers, le) (
          rate(scalecurve_step_duration_seconds_bucket[1m])
        )) > 0
    {{- end }}
    - record: trial:scalecurve_exposed_communication_seconds:mean
      expr: avg {{ $by }} (scalecurve_exposed_communication_seconds)
    - record: trial:scalecurve_exposed_communication:share
      expr: |-
        avg {{ $by }} (scalecurve_exposed_communication_seconds) /
        {{- include "scalecurve.meanStep" . | nindent 8 }}
{{- end -}}

{{/* Scrape configurations that find what the PodMonitor and the ServiceMonitor find, and name it alike. */}}
{{- define "scalecurve.scrapeConfigs" -}}
- job_name: scalecurve-trials
  scrape_interval: {{ .Values.podMonitor.interval }}
  kubernetes_sd_configs:
    - role: pod
      selectors:
        - role: pod
          label: app.kubernetes.io/managed-by=scalecurve,scalecurve.dev/trial
      {{- with include "scalecurve.namespaces" . | fromYamlArray }}
      namespaces:
        names:
          {{- toYaml . | nindent 10 }}
      {{- end }}
  relabel_configs:
    - action: keep
      source_labels: [__meta_kubernetes_pod_container_port_name]
      regex: {{ .Values.podMonitor.ports | quote }}
    - action: replace
      source_labels: [__meta_kubernetes_pod_node_name]
      target_label: node
    - action: replace
      source_labels: [__meta_kubernetes_pod_label_scalecurve_dev_attempt]
      target_label: attempt
    {{- include "scalecurve.podNames" . | nindent 4 }}
- job_name: scalecurve-operator
  scrape_interval: {{ .Values.serviceMonitor.interval }}
  kubernetes_sd_configs:
    - role: pod
      selectors:
        - role: pod
          label: {{ include "scalecurve.selectorLabels" . | fromYaml | include "scalecurve.selector" }}
      namespaces:
        names:
          - {{ .Release.Namespace }}
  relabel_configs:
    - action: keep
      source_labels: [__meta_kubernetes_pod_container_port_name]
      regex: metrics
    {{- include "scalecurve.podNames" . | nindent 4 }}
{{- end -}}

{{- define "scalecurve.selector" -}}
{{- $parts := list -}}
{{- range $name, $value := . }}{{ $parts = append $parts (printf "%s=%s" $name $value) }}{{ end -}}
{{- join "," $parts -}}
{{- end -}}

{{/* What the Prometheus operator adds by itself: only pods that run, and where a sample is from. */}}
{{- define "scalecurve.podNames" -}}
- action: drop
  source_labels: [__meta_kubernetes_pod_phase]
  regex: Failed|Succeeded
- action: replace
  source_labels: [__meta_kubernetes_namespace]
  target_label: namespace
- action: replace
  source_labels: [__meta_kubernetes_pod_name]
  target_label: pod
- action: replace
  source_labels: [__meta_kubernetes_pod_container_name]
  target_label: container
{{- end -}}

{{/* What tells trials apart: an attempt is another run of the same trial. */}}
{{- define "scalebench.ofTrial" -}}
by (namespace, experiment, trial, attempt, workers)
{{- end -}}

{{/* Seconds a step of the slowest rank's train windows, over the last minute; nothing while no window runs. */}}
{{- define "scalebench.meanStep" -}}
(max {{ include "scalebench.ofTrial" . }} (
  rate(scalebench_step_duration_seconds_sum[1m]) / (rate(scalebench_step_duration_seconds_count[1m]) > 0)
))
{{- end -}}

{{/* Rules, the same for a PrometheusRule and for a plain rule file. */}}
{{- define "scalebench.ruleGroups" -}}
{{- $here := printf "namespace=%q" .Release.Namespace -}}
{{- $by := include "scalebench.ofTrial" . -}}
- name: scalebench-operator
  rules:
    - record: namespace:scalebench_reconcile_seconds:p99_10m
      expr: histogram_quantile(0.99, sum by (namespace, le) (rate(scalebench_reconcile_seconds_bucket[10m])))
    - record: namespace:scalebench_trial_start_seconds:p90_1h
      expr: histogram_quantile(0.9, sum by (namespace, le) (rate(scalebench_trial_start_seconds_bucket[1h])))
    - alert: ScalebenchOperatorAbsent
      expr: absent(scalebench_operator_leading{ {{- $here -}} } == 1)
      for: 5m
      labels: {severity: warning}
      annotations:
        summary: No Scalebench operator holds the lease; jobs that run now go on, and none follows.
    - alert: ScalebenchReconcileErrors
      expr: sum(rate(scalebench_reconcile_errors_total{ {{- $here -}} }[10m])) > 0.1
      for: 10m
      labels: {severity: warning}
      annotations:
        summary: Turns of the operator end with errors and are repeated; its log names the experiments.
    - alert: ScalebenchReconcileSlow
      expr: namespace:scalebench_reconcile_seconds:p99_10m{ {{- $here -}} } > 2
      for: 10m
      labels: {severity: warning}
      annotations:
        summary: One look of the operator in a hundred takes more than 2 s; accelerators idle between trials.
    - alert: ScalebenchTrialStarting
      expr: sum(scalebench_trials{ {{- $here }}, phase="Starting"}) > 0
      for: {{ int .Values.prometheusRule.startingMinutes }}m
      labels: {severity: info}
      annotations:
        summary: Trials have been Starting for {{ int .Values.prometheusRule.startingMinutes }} minutes; `kubectl get scalingtrials -A` says why.
    - alert: ScalebenchTrialsEndBadly
      expr: sum by (phase, reason) (increase(scalebench_trials_ended_total{ {{- $here }}, phase=~"Failed|Invalid"}[1h])) > 2
      labels: {severity: info}
      annotations:
        summary: {{ "Of the last hour's trials several ended {{ $labels.phase }} ({{ $labels.reason }}); their messages say why." | quote }}
    - alert: ScalebenchTrialsUnseen
      expr: sum(scalebench_trials{ {{- $here }}, phase="Running"}) > 0 unless on () scalebench_trial_info
      for: 5m
      labels: {severity: info}
      annotations:
        summary: Trials run, and Prometheus scrapes no pod of them; docs/prometheus.md says what to look at.
- name: scalebench-trials
  interval: 15s
  rules:
    # Samples by the seconds of the windows in which they were counted, not by those of Prometheus' clock: between windows
    # nothing is counted. A rank gives both as of one moment, so the quotient holds however seldom it is scraped. Ranks are
    # not scraped in the same moment: of now, their mean is taken, to which one that has not moved yet adds nothing.
    - record: trial:scalebench_throughput:rate1m
      expr: |-
        sum {{ $by }} (rate(scalebench_samples_total[1m]))
        / (sum {{ $by }} (rate(scalebench_step_duration_seconds_sum[1m])) > 0)
        * count {{ $by }} (rate(scalebench_step_duration_seconds_sum[1m]))
    - record: trial:scalebench_throughput:whole
      expr: |-
        sum {{ $by }} (scalebench_samples_total)
        / (max {{ $by }} (scalebench_step_duration_seconds_sum) > 0)
    - record: trial:scalebench_step_duration_seconds:mean1m
      expr: |-
        {{- include "scalebench.meanStep" . | nindent 8 }}
    {{- range $name, $quantile := dict "median1m" "0.5" "p99_1m" "0.99" }}
    - record: trial:scalebench_step_duration_seconds:{{ $name }}
      expr: |-
        histogram_quantile({{ $quantile }}, sum by (namespace, experiment, trial, attempt, workers, le) (
          rate(scalebench_step_duration_seconds_bucket[1m])
        )) > 0
    {{- end }}
    - record: trial:scalebench_exposed_communication_seconds:mean
      expr: avg {{ $by }} (scalebench_exposed_communication_seconds)
    - record: trial:scalebench_exposed_communication:share
      expr: |-
        avg {{ $by }} (scalebench_exposed_communication_seconds) /
        {{- include "scalebench.meanStep" . | nindent 8 }}
{{- end -}}

{{/* Scrape configurations that find what the PodMonitor and the ServiceMonitor find, and name it alike. */}}
{{- define "scalebench.scrapeConfigs" -}}
- job_name: scalebench-trials
  scrape_interval: {{ .Values.podMonitor.interval }}
  kubernetes_sd_configs:
    - role: pod
      selectors:
        - role: pod
          label: app.kubernetes.io/managed-by=scalebench,scalebench.dev/trial
      {{- with .Values.namespaces }}
      namespaces:
        names:
          {{- uniq . | toYaml | nindent 10 }}
      {{- end }}
  relabel_configs:
    - action: keep
      source_labels: [__meta_kubernetes_pod_container_port_name]
      regex: {{ .Values.podMonitor.ports | quote }}
    - action: replace
      source_labels: [__meta_kubernetes_pod_node_name]
      target_label: node
    - action: replace
      source_labels: [__meta_kubernetes_pod_label_scalebench_dev_attempt]
      target_label: attempt
    {{- include "scalebench.podNames" . | nindent 4 }}
- job_name: scalebench-operator
  scrape_interval: {{ .Values.serviceMonitor.interval }}
  kubernetes_sd_configs:
    - role: pod
      selectors:
        - role: pod
          label: {{ include "scalebench.selectorLabels" . | fromYaml | include "scalebench.selector" }}
      namespaces:
        names:
          - {{ .Release.Namespace }}
  relabel_configs:
    - action: keep
      source_labels: [__meta_kubernetes_pod_container_port_name]
      regex: metrics
    {{- include "scalebench.podNames" . | nindent 4 }}
{{- end -}}

{{- define "scalebench.selector" -}}
{{- $parts := list -}}
{{- range $name, $value := . }}{{ $parts = append $parts (printf "%s=%s" $name $value) }}{{ end -}}
{{- join "," $parts -}}
{{- end -}}

{{/* What the Prometheus operator adds by itself: only pods that run, and where a sample is from. */}}
{{- define "scalebench.podNames" -}}
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

{{- define "muster.labels" -}}
app.kubernetes.io/name: muster
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{/* The labels by which a component's pods are selected; (dict "root" $ "component" NAME). */}}
{{- define "muster.selector" -}}
app.kubernetes.io/name: muster
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* The name of a component's objects; the one process has the release's name. */}}
{{- define "muster.name" -}}
{{- if eq .component "process" }}{{ .root.Release.Name }}{{ else }}{{ .root.Release.Name }}-{{ .component }}{{ end }}
{{- end }}

{{/* The components as JSON: what each runs, and whether it calls the API server. */}}
{{- define "muster.components" -}}
{{- if eq .Values.mode "process" -}}
{{- list (dict "component" "process" "service" "process" "calls" true "rules" (list "ingest" "binding")) | toJson -}}
{{- else -}}
{{- $extended := not (empty .Values.config.extenders) -}}
{{- $found := list (dict "component" "ingest" "service" "ingest" "calls" true "rules" (list "ingest")) -}}
{{- $found = append $found (dict "component" "queueing" "service" "queueing") -}}
{{- range $shard := until (int .Values.placements) -}}
{{- $found = append $found (dict "component" (printf "placement-%d" $shard) "service" "placement" "journal" (printf "placement/%d" $shard) "calls" $extended "rules" (list "extenders")) -}}
{{- end -}}
{{- $found = append $found (dict "component" "permit" "service" "permit") -}}
{{- $found = append $found (dict "component" "preemption" "service" "preemption") -}}
{{- $found = append $found (dict "component" "binding" "service" "binding" "calls" true "rules" (ternary (list "binding" "extenders") (list "binding") $extended)) -}}
{{- $found | toJson -}}
{{- end -}}
{{- end }}

{{/* The kube-scheduler to decide like: the known one nearest to the cluster's version. */}}
{{- define "muster.release" -}}
{{- $version := .Capabilities.KubeVersion.Version -}}
{{- if semverCompare ">=1.37.0-0" $version }}1.37{{ else if semverCompare ">=1.36.0-0" $version }}1.36{{ else }}1.35{{ end }}
{{- end }}

{{/* The scheduler names as JSON: those of the profiles, else schedulerNames. */}}
{{- define "muster.schedulers" -}}
{{- if .Values.config -}}
{{- $names := list -}}
{{- range .Values.config.profiles | default (list dict) -}}
{{- $names = append $names (.schedulerName | default "default-scheduler") -}}
{{- end -}}
{{- $names | toJson -}}
{{- else -}}
{{- .Values.schedulerNames | uniq | toJson -}}
{{- end -}}
{{- end }}

{{/* The Lease as JSON: name and namespace; `null` if config says that every process leads. */}}
{{- define "muster.lease" -}}
{{- $election := .Values.config.leaderElection | default dict -}}
{{- if dig "leaderElect" true $election -}}
{{- $words := prepend (without (include "muster.schedulers" . | fromJsonArray) "muster") "muster" -}}
{{- dict "name" ($election.resourceName | default (join "-" $words)) "namespace" ($election.resourceNamespace | default "kube-system") | toJson -}}
{{- else -}}
null
{{- end -}}
{{- end }}

{{/* Names of the Strimzi objects, and of the Secrets that Strimzi makes. */}}
{{- define "muster.kafkaCluster" -}}{{ .Release.Name }}{{- end }}

{{/* Kafka as JSON: the given settings, or those of the Strimzi cluster. */}}
{{- define "muster.kafka" -}}
{{- $kafka := deepCopy .Values.kafka -}}
{{- if .Values.strimzi.enabled -}}
{{- if $kafka.brokers }}{{ fail "kafka.brokers: must be empty with strimzi.enabled, which makes the brokers" }}{{ end -}}
{{- $name := include "muster.kafkaCluster" . -}}
{{- $kafka = merge (dict "brokers" (list (printf "%s-kafka-bootstrap.%s.svc:9093" $name .Release.Namespace)) "protocol" "SASL_SSL" "mechanism" "SCRAM-SHA-512" "username" $name "passwordSecret" (dict "name" $name "key" "password") "caSecret" (dict "name" (printf "%s-cluster-ca-cert" $name) "key" "ca.crt")) $kafka -}}
{{- end -}}
{{- if not $kafka.brokers }}{{ fail "kafka.brokers: name at least one HOST:PORT, or set strimzi.enabled" }}{{ end -}}
{{- if and (hasPrefix "SASL" $kafka.protocol) (not $kafka.passwordSecret.name) }}{{ fail (printf "kafka.passwordSecret.name: %s needs the Secret with the password of %s" $kafka.protocol $kafka.username) }}{{ end -}}
{{- if gt (int $kafka.minInsyncReplicas) (int $kafka.replicationFactor) }}{{ fail "kafka.minInsyncReplicas: must not exceed kafka.replicationFactor" }}{{ end -}}
{{- $kafka | toJson -}}
{{- end }}

{{/* The address of the bus; the settings are in docs/reference/bus.md. */}}
{{- define "muster.bus" -}}
{{- $kafka := include "muster.kafka" . | fromJson -}}
{{- $words := list (printf "replication_factor=%v" $kafka.replicationFactor) (printf "min_insync_replicas=%v" $kafka.minInsyncReplicas) (printf "security_protocol=%s" $kafka.protocol) -}}
{{- if hasSuffix "SSL" $kafka.protocol -}}
{{- if $kafka.caSecret.name }}{{ $words = append $words "ssl_ca_file=/etc/muster/kafka/ca.crt" }}{{ end -}}
{{- if $kafka.clientSecret.name }}{{ $words = concat $words (list "ssl_cert_file=/etc/muster/kafka/client.crt" "ssl_key_file=/etc/muster/kafka/client.key") }}{{ end -}}
{{- end -}}
{{- if hasPrefix "SASL" $kafka.protocol -}}
{{- $words = concat $words (list (printf "sasl_mechanism=%s" $kafka.mechanism) (printf "sasl_username=%s" $kafka.username) "sasl_password_file=/etc/muster/kafka/password") -}}
{{- end -}}
{{- printf "kafka://%s/%s?%s" (join "," $kafka.brokers) $kafka.prefix (join "&" $words) -}}
{{- end }}

{{/* The files of the broker's Secrets, as sources of a projected volume; empty for none. */}}
{{- define "muster.kafkaFiles" -}}
{{- $kafka := include "muster.kafka" . | fromJson }}
{{- if and (hasSuffix "SSL" $kafka.protocol) $kafka.caSecret.name }}
- secret:
    name: {{ $kafka.caSecret.name }}
    items: [{key: {{ $kafka.caSecret.key }}, path: ca.crt}]
{{- end }}
{{- if and (hasSuffix "SSL" $kafka.protocol) $kafka.clientSecret.name }}
- secret:
    name: {{ $kafka.clientSecret.name }}
    items:
    - {key: {{ $kafka.clientSecret.certificateKey }}, path: client.crt}
    - {key: {{ $kafka.clientSecret.keyKey }}, path: client.key}
{{- end }}
{{- if hasPrefix "SASL" $kafka.protocol }}
- secret:
    name: {{ $kafka.passwordSecret.name }}
    items: [{key: {{ $kafka.passwordSecret.key }}, path: password}]
{{- end }}
{{- end }}

{{- define "statefulspark-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "statefulspark-operator.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if hasPrefix (printf "%s-" .Release.Name) (include "statefulspark-operator.name" .) }}
{{- include "statefulspark-operator.name" . }}
{{- else if contains (include "statefulspark-operator.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "statefulspark-operator.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "statefulspark-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "statefulspark-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "statefulspark-operator.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "statefulspark-operator.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "statefulspark-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "statefulspark-operator.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* A value as JSON within an argument of a container: there, YAML would end at ', and Kubernetes would replace $(NAME). */}}
{{- define "statefulspark-operator.json" -}}
{{- toJson . | replace "'" "\\u0027" | replace "$" "\\u0024" }}
{{- end }}

{{/* Fails unless it was chosen which namespaces are looked after. */}}
{{- define "statefulspark-operator.requireScope" -}}
{{- if and .Values.clusterWide .Values.watchNamespaces }}
{{- fail "Choose one: watchNamespaces, or clusterWide=true." }}
{{- else if not (or .Values.clusterWide .Values.watchNamespaces) }}
{{- fail "Choose which namespaces the operator looks after: watchNamespaces={shop,billing}, or clusterWide=true for all of them, with which whoever takes over the operator is a cluster admin." }}
{{- end }}
{{- end }}

{{/* Every right of the operator, with the reason. The same in a ClusterRole and in Roles. */}}
{{- define "statefulspark-operator.rules" -}}
# Jobs: watched, read before each decision.
- apiGroups: [statefulspark.io]
  resources: [statefulsparkjobs]
  verbs: [get, list, watch, patch]  # patch: only to put the finalizer on and take it off
# Its status is the operator's memory of what it is doing.
- apiGroups: [statefulspark.io]
  resources: [statefulsparkjobs/status]
  verbs: [patch]
# Savepoints: one object each, made for upgrades, suspensions, deletions and schedules, and pruned.
- apiGroups: [statefulspark.io]
  resources: [sparksavepoints]
  verbs: [get, list, watch, create, patch, delete]  # patch: the finalizer, and deletionPolicy of one that is pruned
- apiGroups: [statefulspark.io]
  resources: [sparksavepoints/status]
  verbs: [patch]
# Needed by clusters with OwnerReferencesPermissionEnforcement (OpenShift) to own the driver's pod.
- apiGroups: [statefulspark.io]
  resources: [statefulsparkjobs/finalizers]
  verbs: [update]
# Driver and standby pods: one per epoch, and one that waits.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete]  # patch: only labels and annotations, of a standby that becomes the driver and as pod templates change
# A driver's configuration, per epoch, deleted together with its pod, and listed for what was left when a pod went another
# way; and a job's code (spec.job.source), read by its name and kept for each revision.
- apiGroups: [""]
  resources: [configmaps]
  {{- if .Values.rbac.watchCode }}
  verbs: [get, list, watch, create, patch, delete]  # watch: only those that a job names, one by one
  {{- else }}
  verbs: [get, list, create, patch, delete]
  {{- end }}
# The name by which executors reach the driver.
- apiGroups: [""]
  resources: [services]
  verbs: [get, create, patch]
{{- if .Values.jobs.networkPolicy.enabled }}
# Who may reach the pods of a job.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, create, patch]
{{- end }}
# The token of a driver's API is made here, and the S3 credentials that a job names are read. Secrets are never listed.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create]
# The spec of each revision, so that the last good one can be run while a new one is rejected; those that left the history
# are deleted, and their code with them.
- apiGroups: [apps]
  resources: [controllerrevisions]
  verbs: [get, list, create, delete]
# Whether the namespace of a deleted job is being deleted, too, so that nothing in it can be waited for.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get]
# What happened, for `kubectl describe`.
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- if .Values.rbac.executors }}
# A driver that starts executors gets an account, a role and a binding of its own.
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [get, create, patch]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, create, patch]
# What that role grants; Kubernetes lets nobody grant what they do not have.
- apiGroups: [""]
  resources: [pods, configmaps, services, persistentvolumeclaims]
  verbs: [get, list, watch, create, patch, delete, deletecollection]
{{- end }}
{{- end }}

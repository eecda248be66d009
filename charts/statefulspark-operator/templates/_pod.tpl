{{/* The pod of the operator, without the fields of podSpec in the values. */}}
{{- define "statefulspark-operator.podSpec" -}}
serviceAccountName: {{ include "statefulspark-operator.serviceAccountName" . | quote }}
terminationGracePeriodSeconds: 30
securityContext:
  runAsNonRoot: true
  {{- with .Values.runAsUser }}
  runAsUser: {{ int64 . }}
  runAsGroup: {{ int64 . }}
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
containers:
  - name: operator
    {{- with .Values.image }}
    image: "{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}"
    {{- end }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    args:
      - run
      - --log-format={{ .Values.logFormat }}
      - --log-level={{ .Values.logLevel }}
      - --health-port=8080
      - --metrics-port=9090
      - --lease={{ include "statefulspark-operator.fullname" . }}
      {{- range .Values.watchNamespaces }}
      - --namespace={{ . }}
      {{- end }}
      - --pod-templates={{ .Values.jobs.podTemplates }}
      {{- with .Values.jobs.maxConcurrentUpgrades }}
      - --max-concurrent-upgrades={{ int64 . }}
      {{- end }}
      {{- with .Values.jobs.startsPerMinute }}
      - --starts-per-minute={{ int64 . }}
      {{- end }}
      {{- with .Values.runAsUser }}
      - --run-as-user={{ int64 . }}
      {{- end }}
      {{- with .Values.jobs.defaults }}
      - {{ printf "--job-defaults=%s" (include "statefulspark-operator.json" .) | squote }}
      {{- end }}
      {{- with .Values.jobs.storage.ownIdentity }}
      - {{ printf "--own-identity=%s" (include "statefulspark-operator.json" .) | squote }}
      {{- end }}
      {{- range .Values.jobs.storage.endpoints }}
      - {{ printf "--storage-endpoint=%s" . | squote }}
      {{- end }}
      {{- if .Values.jobs.networkPolicy.enabled }}
      {{- $namespace := dict "matchLabels" (dict "kubernetes.io/metadata.name" .Release.Namespace) }}
      {{- $pods := dict "matchLabels" (include "statefulspark-operator.selectorLabels" . | fromYaml) }}
      {{- $operator := dict "namespaceSelector" $namespace "podSelector" $pods }}
      - {{ printf "--job-network-policy=%s" (prepend .Values.jobs.networkPolicy.apiFrom $operator | include "statefulspark-operator.json") | squote }}
      {{- with .Values.jobs.networkPolicy.metricsFrom }}
      - {{ printf "--job-metrics-from=%s" (include "statefulspark-operator.json" .) | squote }}
      {{- end }}
      {{- end }}
    env:
      - name: POD_NAME
        valueFrom:
          fieldRef:
            fieldPath: metadata.name
      - name: POD_NAMESPACE
        valueFrom:
          fieldRef:
            fieldPath: metadata.namespace
      # With it, glibc returns more of the memory that the storage threads free.
      - name: MALLOC_ARENA_MAX
        value: "2"
      {{- with .Values.extraEnv }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    ports:
      - name: health
        containerPort: 8080
      - name: metrics
        containerPort: 9090
    readinessProbe:
      httpGet:
        path: /healthz
        port: health
      {{- toYaml .Values.readinessProbe | nindent 6 }}
    livenessProbe:
      httpGet:
        path: /healthz
        port: health
      {{- toYaml .Values.livenessProbe | nindent 6 }}
    resources: {{- toYaml .Values.resources | nindent 6 }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities:
        drop: [ALL]
    volumeMounts:
      - name: tmp
        mountPath: /tmp
      {{- with .Values.extraVolumeMounts }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
volumes:
  - name: tmp
    emptyDir: {}
  {{- with .Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
# Kubernetes leaves a pod on a lost node for five minutes; the operator moves as soon as the node counts as lost.
tolerations:
  - key: node.kubernetes.io/not-ready
    operator: Exists
    effect: NoExecute
    tolerationSeconds: {{ .Values.nodeLossTolerationSeconds }}
  - key: node.kubernetes.io/unreachable
    operator: Exists
    effect: NoExecute
    tolerationSeconds: {{ .Values.nodeLossTolerationSeconds }}
  {{- with .Values.tolerations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- if gt (int .Values.replicas) 1 }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "statefulspark-operator.selectorLabels" . | nindent 8 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

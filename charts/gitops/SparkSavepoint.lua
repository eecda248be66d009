-- Health of a SparkSavepoint in Argo CD: the value of resource.customizations.health.statefulspark.io_SparkSavepoint in the
-- ConfigMap argocd-cm. In a sync wave before the job's, a savepoint is complete before the job changes.
local healths = { Completed = "Healthy", Failed = "Degraded" }
local status = obj.status or {}
return {
  status = healths[status.phase] or "Progressing",
  message = status.message or status.location or "",
}

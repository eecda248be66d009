-- Health of a SparkSavepoint in Argo CD: the value of resource.customizations.health.statefulspark.io_SparkSavepoint in the
-- ConfigMap argocd-cm. In a sync wave before the job's, a savepoint is complete before the job changes.
local healths = { Complete = "Healthy", Failed = "Degraded" }
local status = obj.status or {}
local health = "Progressing"
for _, condition in ipairs(status.conditions or {}) do
  if condition.status == "True" then
    health = healths[condition.type] or health
  end
end
return {
  status = health,
  message = status.message or status.location or "",
}

-- Health of a StatefulSparkJob in Argo CD: the value of resource.customizations.health.statefulspark.io_StatefulSparkJob in the
-- ConfigMap argocd-cm. Degraded is what a person has to change; what the operator still works on, or waits for, is Progressing.
local health = { status = "Progressing", message = "Waiting for the operator." }
local status = obj.status
if status == nil or status.conditions == nil then
  return health
end
if status.observedGeneration ~= nil and status.observedGeneration < (obj.metadata.generation or 0) then
  health.message = "The operator has not seen this change yet."
  return health
end

local answers = {}
for _, condition in ipairs(status.conditions) do
  answers[condition.type] = condition
end
local function is_true(name)
  return answers[name] ~= nil and answers[name].status == "True"
end

-- In the order of kstatus, so that Argo CD and Flux say the same: what is still under way comes first.
if is_true("Reconciling") then
  return { status = "Progressing", message = status.message or answers["Reconciling"].message }
end
if is_true("Stalled") then
  return { status = "Degraded", message = answers["Stalled"].message }
end
if not is_true("Ready") then
  return { status = "Progressing", message = (answers["Ready"] or {}).message or status.message or health.message }
end
if answers["Available"] ~= nil and answers["Available"].reason == "Suspended" then
  return { status = "Suspended", message = status.message or "Suspended." }
end
return { status = "Healthy", message = status.message or "" }

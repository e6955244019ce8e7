-- Written by Stampworks for cluster local-accounting: change the declaration, not this file.
local priority_of = {
  ["train"] = "normal",
  ["scavenge"] = "low",
  ["debug"] = "urgent",
}

function slurm_job_submit(job, partitions, uid)
  local queue = job.partition or "train"
  if job.qos == nil then
    job.qos = priority_of[queue]
  end
  return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
  return slurm.SUCCESS
end

return slurm.SUCCESS

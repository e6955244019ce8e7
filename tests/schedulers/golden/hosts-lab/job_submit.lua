-- Written by Stampworks for cluster hosts-lab: change the declaration, not this file.
local priority_of = {
}

function slurm_job_submit(job, partitions, uid)
  local queue = job.partition or "main"
  if job.qos == nil then
    job.qos = priority_of[queue]
  end
  return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
  return slurm.SUCCESS
end

return slurm.SUCCESS

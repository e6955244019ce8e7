"""Jobs of users: the job file, its checks against a plan, and its text for each scheduler."""

from stampworks.declaration.errors import DeclarationError as JobError
from stampworks.declaration.errors import Problem
from stampworks.jobs.checks import Job, resolve
from stampworks.jobs.model import ALL, JobFile
from stampworks.jobs.reading import JobSource, read_command, read_job

__all__ = ["ALL", "Job", "JobError", "JobFile", "JobSource", "Problem", "read_command", "read_job", "resolve"]

"""What one does to a running cluster: plain functions that the command line and the provider call."""

from stampworks.operations.drain import BusyError, drain
from stampworks.operations.errors import InputError, OperationError, UnknownError
from stampworks.operations.members import members
from stampworks.operations.remote import ssh_command
from stampworks.operations.status import Status, status

__all__ = [
    "BusyError",
    "InputError",
    "OperationError",
    "Status",
    "UnknownError",
    "drain",
    "members",
    "ssh_command",
    "status",
]

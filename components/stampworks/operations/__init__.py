"""What one does to a running cluster: plain functions that the command line and the provider call."""

from stampworks.operations.drain import BusyError, HeldError, drain, give_back, said_by, wait_until_free
from stampworks.operations.errors import InputError, OperationError, UnknownError
from stampworks.operations.gathering import Wanted, end_elastic, gather, join, missing, wanted
from stampworks.operations.members import endings, members, retag
from stampworks.operations.qualify import held_back, qualify, to_prove
from stampworks.operations.records import records
from stampworks.operations.remote import head, ssh_command
from stampworks.operations.roll import Order, Play, RollStoppedError, condemn, instructions, outdated, roll
from stampworks.operations.service import KubernetesService, SlurmService, vacate, vacate_for_good
from stampworks.operations.status import Status, status

__all__ = [
    "BusyError",
    "HeldError",
    "InputError",
    "KubernetesService",
    "OperationError",
    "Order",
    "Play",
    "RollStoppedError",
    "SlurmService",
    "Status",
    "UnknownError",
    "Wanted",
    "condemn",
    "drain",
    "end_elastic",
    "endings",
    "gather",
    "give_back",
    "head",
    "held_back",
    "instructions",
    "join",
    "members",
    "missing",
    "outdated",
    "qualify",
    "records",
    "retag",
    "roll",
    "said_by",
    "ssh_command",
    "status",
    "to_prove",
    "vacate",
    "vacate_for_good",
    "wait_until_free",
    "wanted",
]

"""Operations on a running cluster: plain functions that the command line and the provider call."""

from stampworks.operations.drain import BusyError, HeldError, said_by
from stampworks.operations.errors import InputError, OperationError, UnknownError
from stampworks.operations.gathering import WantedMembers, end_elastic, gather, join, missing, wanted
from stampworks.operations.members import endings, members, retag
from stampworks.operations.qualify import held_back, qualify, to_prove
from stampworks.operations.records import records
from stampworks.operations.remote import head, ssh_command
from stampworks.operations.roll import Order, Play, RollStoppedError, condemn, instructions, outdated, roll
from stampworks.operations.schedulers import nodes_of, service_of, status_of
from stampworks.operations.service import Service, vacate, vacate_for_good

__all__ = [
    "BusyError",
    "HeldError",
    "InputError",
    "OperationError",
    "Order",
    "Play",
    "RollStoppedError",
    "Service",
    "UnknownError",
    "WantedMembers",
    "condemn",
    "end_elastic",
    "endings",
    "gather",
    "head",
    "held_back",
    "instructions",
    "join",
    "members",
    "missing",
    "nodes_of",
    "outdated",
    "qualify",
    "records",
    "retag",
    "roll",
    "said_by",
    "service_of",
    "ssh_command",
    "status_of",
    "to_prove",
    "vacate",
    "vacate_for_good",
    "wanted",
]

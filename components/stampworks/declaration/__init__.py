"""What a person writes: the models of a declaration, how it is loaded, and what is said when it is wrong."""

from stampworks.declaration.errors import DeclarationError, Problem
from stampworks.declaration.loader import Source, load_file, load_stack, load_value
from stampworks.declaration.models import (
    Account,
    Change,
    Declaration,
    Fabric,
    Network,
    Pool,
    Priority,
    Queue,
    Scheduler,
    Storage,
    User,
)
from stampworks.declaration.schema import change_of, schema
from stampworks.declaration.wording import did_you_mean

__all__ = [
    "Account",
    "Change",
    "Declaration",
    "DeclarationError",
    "Fabric",
    "Network",
    "Pool",
    "Priority",
    "Problem",
    "Queue",
    "Scheduler",
    "Source",
    "Storage",
    "User",
    "change_of",
    "did_you_mean",
    "load_file",
    "load_stack",
    "load_value",
    "schema",
]

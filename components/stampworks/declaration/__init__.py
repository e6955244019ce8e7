"""What a person writes: the models of a declaration, how it is loaded, and what is said when it is wrong."""

from stampworks.declaration.errors import AbsentError, DeclarationError, Problem
from stampworks.declaration.files import BASES_MAX, displayed, named_in
from stampworks.declaration.loader import Source, load_file, load_stack, load_value
from stampworks.declaration.models import (
    Account,
    Change,
    Check,
    Checkpoints,
    Declaration,
    Extras,
    Fabric,
    Model,
    Network,
    Pool,
    Priority,
    Proof,
    Queue,
    Role,
    Roll,
    Scheduler,
    Storage,
    Tracker,
    Training,
    User,
)
from stampworks.declaration.schema import change_of, schema
from stampworks.declaration.values import check_name, role_name
from stampworks.declaration.wording import did_you_mean

__all__ = [
    "BASES_MAX",
    "AbsentError",
    "Account",
    "Change",
    "Check",
    "Checkpoints",
    "Declaration",
    "DeclarationError",
    "Extras",
    "Fabric",
    "Model",
    "Network",
    "Pool",
    "Priority",
    "Problem",
    "Proof",
    "Queue",
    "Role",
    "Roll",
    "Scheduler",
    "Source",
    "Storage",
    "Tracker",
    "Training",
    "User",
    "change_of",
    "check_name",
    "did_you_mean",
    "displayed",
    "load_file",
    "load_stack",
    "load_value",
    "named_in",
    "role_name",
    "schema",
]

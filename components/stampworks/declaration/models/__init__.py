"""Models of a declaration: the fields of a cluster, and the effects of their changes.

Each field has a description, which doubles as the hint of an error message, and a change policy. For a list, the policy
is that of adding or removing an entry; for a section, it is the strictest of its fields.
"""

from stampworks.declaration.models.addons import AddOns
from stampworks.declaration.models.directory import Directory
from stampworks.declaration.models.existing import (
    AccountTerms,
    ExistingNetwork,
    ExistingSubnet,
    InstanceProfiles,
    SecurityGroups,
)
from stampworks.declaration.models.hosts import Host, Hosts, JumpHost
from stampworks.declaration.models.network import Fabric, Network
from stampworks.declaration.models.pools import Fallback, Pool
from stampworks.declaration.models.running import Budget, Check, Extras, Logs, Proof, Role, Roll, Tag
from stampworks.declaration.models.scheduler import Account, Priority, Queue, Scheduler, User, UserGroup
from stampworks.declaration.models.section import CHANGE_KEY, Change, Section
from stampworks.declaration.models.storage import Storage
from stampworks.declaration.models.training import Checkpoints, Model, Tracker, Training
from stampworks.declaration.models.whole import VERSION, Declaration

__all__ = [
    "CHANGE_KEY",
    "VERSION",
    "Account",
    "AccountTerms",
    "AddOns",
    "Budget",
    "Change",
    "Check",
    "Checkpoints",
    "Declaration",
    "Directory",
    "ExistingNetwork",
    "ExistingSubnet",
    "Extras",
    "Fabric",
    "Fallback",
    "Host",
    "Hosts",
    "InstanceProfiles",
    "JumpHost",
    "Logs",
    "Model",
    "Network",
    "Pool",
    "Priority",
    "Proof",
    "Queue",
    "Role",
    "Roll",
    "Scheduler",
    "Section",
    "SecurityGroups",
    "Storage",
    "Tag",
    "Tracker",
    "Training",
    "User",
    "UserGroup",
]

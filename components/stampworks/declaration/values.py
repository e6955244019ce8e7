"""Check single values with a form of their own: legal values, and messages for others."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, GetCoreSchemaHandler
from pydantic_core import PydanticKnownError, core_schema

from stampworks import catalog
from stampworks.catalog.roles import ROLES
from stampworks.catalog.system_names import SYSTEM_GROUPS, SYSTEM_PREFIXES, SYSTEM_USERS
from stampworks.declaration.forms import TextForm, wrong
from stampworks.declaration.wording import alternatives, brief, did_you_mean, only, shown, similar
from stampworks.text.amounts import AMOUNT_PATTERN, HOW, amount

NAME_LENGTH_MAX = 20
NAME_PATTERN = rf"^[a-z]([a-z0-9-]{{0,{NAME_LENGTH_MAX - 2}}}[a-z0-9])?$"
USER_PATTERN = r"^[a-z][a-z0-9_-]{0,31}$"
MOUNT_LENGTH_MAX = PLACE_LENGTH_MAX = 255
MOUNT_PATTERN = r"^(/[A-Za-z0-9_][A-Za-z0-9._-]*)+$"
URL_PATTERN = r"^https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9._~%+/-]*)?$"
REGION_PATTERN = r"^[A-Za-z][A-Za-z0-9-]{0,39}$"
ZONE_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9:-]{0,63}$"
FOLDER_PATTERN = r"^([A-Za-z0-9_=-][A-Za-z0-9._=-]*/)*$"
TIER_PATTERN = r"^[A-Za-z][A-Za-z0-9_ -]{0,39}$"
ROLE_PATH_MAX = 512  # CreateRole of the IAM API, Path
ROLE_PATH_PATTERN = r"^$|^/([A-Za-z0-9+=,.@_-]+/)+$"
HOST_PATTERN = r"^$|^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$|^[0-9A-Fa-f:]{2,39}$"
IDENTITY_FILE_PATTERN = r"^$|^(~/|/)?[A-Za-z0-9._+@-][A-Za-z0-9._+@/ -]{0,254}$"
PART_PATTERN = r"^$|^/?[A-Za-z0-9][A-Za-z0-9._:/-]{0,255}$"
RESERVATION_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,255}$"
ADMIN_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9+=,.@_:/-]{0,1023}$"
IMAGE_PATTERN = r"^$|^[a-z0-9][A-Za-z0-9._:/-]{0,500}(@sha256:[0-9a-f]{64})?$"
# Limits of AWS; clouds and we reserve colons and Name. Roles of AWS do not
# distinguish capital and small letters.
TAG_PATTERN = r"^(?![Nn][Aa][Mm][Ee]$)[A-Za-z][A-Za-z0-9_./-]{0,62}$"
TAG_VALUE_PATTERN = r"^[A-Za-z0-9 _.:/=+@-]{0,255}$"
BUCKET_PATTERN = r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9][A-Za-z0-9._-]*)*/?$"
EMAIL_PATTERN = r"^[A-Za-z0-9._%+-]{1,64}@([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]{2,24}$"
EXPERIMENT_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9 ._/-]{0,127}$"
MIG_PATTERN = r"^all-(disabled|balanced|[1-7]g\.[0-9]{1,3}gb)$"

# A path relative to the folder of the file that names it, without characters that a shell, a template or a terminal
# interprets.
PATH_PATTERN = r"^(?![/~])[A-Za-z0-9._+@ /-]{1,255}$"
OWN_ROLE_PATTERN = r"^[a-z][a-z0-9_]{0,31}$"
OWN_CHECK_PATTERN = r"^[a-z][a-z0-9_-]{0,31}$"

OUR_ROLES = frozenset(role.name for role in ROLES)
OUR_CHECKS = frozenset(["accelerators", "disk", "mounts", "own", "rails", "storage"])
# A role's name becomes an Ansible group, which must not be one of these or a host.
TAKEN_GROUPS = frozenset(["all", "builder", "head", "localhost", "ungrouped"])

# File systems mounted here would hide files that the node needs.
SYSTEM_DIRECTORIES = (
    *("/bin", "/boot", "/dev", "/etc", "/exports", "/lib", "/lib32", "/lib64", "/proc", "/root", "/run", "/sbin"),
    *("/sys", "/tmp", "/usr", "/var"),  # noqa: S108
)
COUNT_MAX = 10**18
DIRECTORY = "directory"
"""A folder of the machine that the nodes run on."""


def name(value: str) -> str:
    """Refuse a name that cannot be part of a host name or of the names in schedulers and clouds."""
    if re.fullmatch(NAME_PATTERN, value):
        return value
    rule = f"a name is 1 to {NAME_LENGTH_MAX} small letters, digits and '-', from a letter to a letter or digit"
    suggestion = re.sub(r"[^a-z0-9]+", "-", value.lower())[:NAME_LENGTH_MAX].strip("-")
    if re.fullmatch(NAME_PATTERN, suggestion):
        rule = f"{rule}, for example '{suggestion}'"
    raise wrong(f"{shown(value)} is not a legal name", rule)


def pool_name(value: str) -> str:
    """Refuse the names of the other groups."""
    if value == "head":
        raise wrong("'head' is the name of the controller", "name the pool after the use of its nodes")
    if value == "login":
        hint = "write scheduler: {login_nodes: 1} for some, or name the pool after the use of its nodes"
        raise wrong("'login' is the name of the login nodes", hint)
    return name(value)


def queue_name(value: str) -> str:
    """Refuse the name DEFAULT, with which Slurm sets values for all partitions."""
    if value == "default":
        raise wrong(
            "Slurm reserves 'default' and would make no queue of it",
            "name the queue after its use, and give it default: true",
        )
    return name(value)


def account_name(value: str) -> str:
    """Refuse the account that every other account is part of."""
    if value == "root":
        raise wrong("'root' is the account of Slurm above all others", "name the account after the team that uses it")
    return name(value)


def user_name(value: str) -> str:
    """Refuse a name that cannot log in, or that the system uses."""
    if value in SYSTEM_USERS or value.startswith(SYSTEM_PREFIXES):
        raise wrong(f"{shown(value)} is an account of the system", "declare only people; give them other names")
    if not re.fullmatch(USER_PATTERN, value):
        raise wrong(
            f"{shown(value)} is not a legal login",
            "a login is 1 to 32 small letters, digits, '-' and '_', and begins with a letter",
        )
    return value


def group_name(value: str) -> str:
    """Refuse a name that cannot be a group, or that gives rights on a node."""
    if value in SYSTEM_USERS or value in SYSTEM_GROUPS or value.startswith(SYSTEM_PREFIXES):
        raise wrong(f"{shown(value)} is a group of the system", "declare only teams; give them other names")
    if not re.fullmatch(USER_PATTERN, value):
        raise wrong(
            f"{shown(value)} is not a legal name of a group",
            "a group is 1 to 32 small letters, digits, '-' and '_', and begins with a letter",
        )
    return value


def mount(value: str) -> str:
    """Refuse a path that is relative, hard to quote, or needed by the node itself."""
    if not value.startswith("/"):
        raise wrong(f"{shown(value)} is not an absolute path", f"write it like /{_plain(value) or 'shared'}")
    if len(value) > MOUNT_LENGTH_MAX:
        raise wrong(f"{shown(value)} is too long for a path", f"take at most {MOUNT_LENGTH_MAX} characters")
    if not re.fullmatch(MOUNT_PATTERN, value):
        raise wrong(
            f"{shown(value)} is not a plain path",
            "name a directory below / with letters, digits, '.', '_' and '-', without '..' and without '/' at the end",
        )
    for directory in SYSTEM_DIRECTORIES:
        if value == directory or value.startswith(directory + "/"):
            raise wrong(f"{directory} belongs to the node itself", "mount it beside, for example on /shared")
    return value


def directory(value: str) -> str:
    """Refuse all but absolute paths that need no quoting."""
    if not value.startswith("/"):
        raise wrong(f"{shown(value)} is not an absolute path", f"write it like /shared/{_plain(value) or 'folder'}")
    if len(value) > MOUNT_LENGTH_MAX or not re.fullmatch(MOUNT_PATTERN, value):
        hint = "name a directory with letters, digits, '.', '_' and '-', without '..' and without '/' at the end"
        raise wrong(f"{shown(value)} is not a plain path", hint)
    return value


def url(value: str) -> str:
    """Refuse all but the plain address of a server: a login in it would be in the clear wherever a plan is."""
    if "@" in value:
        raise wrong(
            "the URL holds user or password, and a declaration keeps no secrets",
            "put user and password where jobs run, and leave them out of the URL",
        )
    if not re.fullmatch(URL_PATTERN, value):
        raise wrong(f"{shown(value)} is not the URL of a server", "write it like http://10.0.0.5:5000")
    return value


def experiment(value: str) -> str:
    """Refuse a name that trackers could misread."""
    if not re.fullmatch(EXPERIMENT_PATTERN, value):
        hint = "a name is 1 to 128 letters, digits, blanks and . _ / -, and begins with a letter or digit"
        raise wrong(f"{shown(value)} is not a plain name", hint)
    return value


def region(value: str) -> str:
    """Refuse text that no cloud uses as a region."""
    return _matching(value, REGION_PATTERN, "region", "us-east-1")


def zone(value: str) -> str:
    """Refuse text that no cloud uses as a zone."""
    return _matching(value, ZONE_PATTERN, "zone", "us-east-1a")


def reservation(value: str) -> str:
    """Refuse text that no cloud uses as the id of reserved capacity."""
    return _matching(value, RESERVATION_PATTERN, "reservation", "cr-0123456789abcdef0")


def role_path(value: str) -> str:
    """Refuse all but a path of IAM roles: names between slashes, with a slash at both ends."""
    if len(value) > ROLE_PATH_MAX or not re.fullmatch(ROLE_PATH_PATTERN, value):
        hint = "begin and end it with a slash, with letters, digits and +=,.@_- between, like /teams/training/"
        raise wrong(f"{shown(value)} is not a path of roles", hint)
    return value


def part(value: str) -> str:
    """Refuse text that no cloud uses as the id of a resource; planning checks the form of each cloud."""
    return value and _matching(value, PART_PATTERN, "part of an account", "vpc-0123456789abcdef0")


def host_address(value: str) -> str:
    """Refuse text that is no host name and no IP address: ssh would take it as an option, or a URL."""
    return value and _matching(value, HOST_PATTERN, "address of a host", "203.0.113.4 or node1.example.org")


def login_name(value: str) -> str:
    """Refuse text that is no name of a user; root may log in, which no declared person may be called."""
    if not re.fullmatch(USER_PATTERN, value):
        raise wrong(f"{shown(value)} is not the name of a user", "write it as the machine has it, like ubuntu or root")
    return value


def provider(value: str) -> str:
    """Refuse text that is no provider of the catalog's machines; it may be empty."""
    if value and value not in catalog.CLOUDS:
        known = [each for each in catalog.CLOUDS if each != catalog.SIMULATED]
        raise wrong(f"no provider is called {shown(value)}", did_you_mean(value, known) or only(known))
    return value


def group_of_hosts(value: str) -> str:
    """Refuse text that is no name of a pool; it may be empty."""
    return value and name(value)


def identity_file(value: str) -> str:
    """Refuse text that is no plain path of a private key."""
    return value and _matching(value, IDENTITY_FILE_PATTERN, "path of a private key", "~/.ssh/id_ed25519")


def admin(value: str) -> str:
    """Refuse text that no cloud uses for an identity; planning checks the kind."""
    return _matching(value, ADMIN_PATTERN, "role or user", "arn:aws:iam::123456789012:role/ops")


def tag_name(value: str) -> str:
    """Refuse names of tags that a cloud would refuse."""
    if not re.fullmatch(TAG_PATTERN, value):
        raise wrong(
            f"{shown(value)} is not the name of a tag",
            "use letters, digits and _./-, and begin with a letter, like cost-centre; name is taken",
        )
    return value


def tag_value(value: str) -> str:
    """Refuse values of tags that a cloud would refuse."""
    if not re.fullmatch(TAG_VALUE_PATTERN, value):
        raise wrong(f"{shown(value)} is not the value of a tag", "use letters, digits, spaces and _.:/=+@-")
    return value


def email(value: str) -> str:
    """Refuse all but an address of mail."""
    if not re.fullmatch(EMAIL_PATTERN, value):
        raise wrong(f"{shown(value)} is not a mail address", "write it like ops@example.com")
    return value


def repository(value: str) -> str:
    """Refuse all but the name of a storage, or a place in a bucket."""
    if "://" not in value:
        return name(value) if value else value
    if len(value) > PLACE_LENGTH_MAX or not re.fullmatch(BUCKET_PATTERN, value):
        raise wrong(f"{shown(value)} is not a place in a bucket", "write it like s3://bucket/folder, in plain letters")
    return value.rstrip("/")


def bucket_folder(value: str) -> str:
    """Refuse all but folders of buckets: without its slash, `checkpoints` would match `checkpoints-of-bob`, too."""
    if len(value) > PLACE_LENGTH_MAX or not re.fullmatch(FOLDER_PATTERN, value):
        raise wrong(f"{shown(value)} is not a folder in a bucket", "write it like checkpoints/, in plain letters")
    return value


def storage_tier(value: str) -> str:
    """Refuse text that is no tier; planning checks the tiers of each file system."""
    return _matching(value, TIER_PATTERN, "tier", "PERSISTENT_2 SSD on aws") if value else value


def _matching(value: str, pattern: str, kind: str, example: str) -> str:
    if not re.fullmatch(pattern, value):
        raise wrong(f"{shown(value)} is not a {kind}", f"write it as the cloud does, for example {example}")
    return value


def container_image(value: str) -> str:
    """Refuse all but a reference of a container image."""
    if not re.fullmatch(IMAGE_PATTERN, value):
        raise wrong(
            f"{shown(value)} is not the name of a container image",
            "write it like registry.example.com/workloads@sha256:<64 digits>",
        )
    return value


def own_role(value: str) -> str:
    """Require a relative path to a folder whose name can be a role's."""
    name = role_name(_relative(value, "roles/motd"))
    if name in OUR_ROLES or name in TAKEN_GROUPS:
        raise wrong(
            f"{shown(name)} is a name that Stampworks uses itself", "rename the folder after the purpose of the role"
        )
    if not re.fullmatch(OWN_ROLE_PATTERN, name):
        hint = "rename the folder: a role's name is 1 to 32 small letters, digits and '_', and begins with a letter"
        raise wrong(f"{shown(name or value)} is not a legal name of a role", hint)
    return value


def own_check(value: str) -> str:
    """The same for the file of a check."""
    name = check_name(_relative(value, "checks/scratch.sh"))
    if name in OUR_CHECKS:
        raise wrong(f"{shown(name)} is one of Stampworks' own checks", "rename the file after the subject of the check")
    if not re.fullmatch(OWN_CHECK_PATTERN, name):
        hint = "rename the file: a check's name is 1 to 32 small letters, digits, '-' and '_', and begins with a letter"
        raise wrong(f"{shown(name or value)} is not a legal name of a check", hint)
    return value


def role_name(path: str) -> str:
    """Return the name of a role: that of its folder."""
    return posixpath.basename(posixpath.normpath(path))


def check_name(path: str) -> str:
    """Return the name of a check: that of its file, without the ending."""
    return posixpath.basename(posixpath.normpath(path)).partition(".")[0]


def _relative(value: str, example: str) -> str:
    if value.startswith(("/", "~")):
        raise wrong(f"{shown(value)} is not a relative path", f"write it from this file's folder, like {example}")
    if not re.fullmatch(PATH_PATTERN, value):
        hint = "a path has letters, digits, blanks and . _ + @ - /, and no more than 255 of them"
        raise wrong(f"{shown(value)} is not a plain path", hint)
    return value


def _plain(value: str) -> str:
    return re.sub(r"[^A-Za-z0-9._/-]+", "", brief(value)).strip("./-")


def machine_name(value: str) -> str:
    """Return the main name of a machine that has several. Planning, which knows the cloud, refuses unknown ones."""
    if value in catalog.machines() or value not in catalog.machine_names():
        return value
    return catalog.machine_names()[value].name


def machine_hint(value: str, cloud: str = "") -> str:
    """Return the machines that may have been meant, the cloud's own first, and others with the same accelerator."""
    found, first = catalog.suggestions(value, cloud), ""
    here = sorted(row.name for row in catalog.machines().values() if cloud in ("", row.cloud))
    others = [row for row in found.having_it if row != found.near and value not in (row.name, *row.aliases)]
    if near := found.near:
        whose = "" if cloud in ("", near.cloud) else f" of {near.cloud}"
        first = f"did you mean '{near.name}'{whose}?"
        if near.simulated:
            return first
    elif cloud and not (others and others[0].cloud == cloud):
        first = f"on {cloud} {only(here)}" + ";" * bool(others)
    places = [f"{row.name} ({row.cloud})" for row in others]
    second = f"{found.accelerator} is in {alternatives(places, last='and', most=4)}" if places else ""
    return " ".join(filter(None, (first, second))) or _machines_there_are()


def _machines_there_are() -> str:
    """Return the names of machines, or their number if there are too many."""
    counts = Counter(row.cloud for row in catalog.machines().values())
    listed = ", ".join(f"{count} of {cloud}" for cloud, count in counts.items())
    return f"there are {listed}: see docs/reference/machines.md"


def storage_kind(value: str) -> str:
    """Refuse a file system that the catalog does not have."""
    if value in catalog.file_systems():
        return value
    begun = [repr(name) for name in catalog.file_systems() if value and name.startswith(f"{value}-")]
    if begun or (near := similar(value, catalog.file_systems())):
        meant = alternatives(begun) if begun else f"'{near}'"
        raise wrong(f"no file system is called {shown(value)}", f"did you mean {meant}?")
    of_cloud: dict[str, list[str]] = {}
    for kind in catalog.file_systems().values():
        for cloud in kind.clouds or ("any cloud",):
            of_cloud.setdefault(cloud, []).append(kind.name)
    there = "; ".join(f"{', '.join(kinds)} on {cloud}" for cloud, kinds in of_cloud.items())
    raise wrong(f"no file system is called {shown(value)}", f"take one of {there}")


def mig_profile(value: str) -> str:
    """Refuse text that cannot be a MIG profile of the GPU operator."""
    if not re.fullmatch(MIG_PATTERN, value):
        raise wrong(f"{shown(value)} is not a MIG profile", "write all-disabled, or one like all-1g.10gb")
    return value


def release_name(value: str) -> str:
    """Refuse a release that the catalog does not have."""
    return _listed(value, "release", catalog.releases())


def _listed(value: str, kind: str, known: Iterable[str]) -> str:
    if value not in known:
        raise wrong(f"no {kind} is called {shown(value)}", did_you_mean(value, known))
    return value


def whole(value: object) -> object:
    """Refuse values that only equal a whole number: in Python, true and 1.0 equal 1."""
    if type(value) is not int:
        raise PydanticKnownError("int_type")
    return value


def count(value: object) -> object:
    """Return a count, which may be written as 70B or 1.4e12; pydantic refuses other values."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= COUNT_MAX:
        return int(value)
    if not isinstance(value, str):
        return value
    try:
        return amount(value)
    except ValueError as error:
        raise wrong(str(error), HOW) from None


class _Count:
    """A type for pydantic and JSON schemas that accepts both spellings."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_before_validator_function(count, handler(source))

    def __get_pydantic_json_schema__(self, _: core_schema.CoreSchema, __: object) -> dict[str, Any]:
        number = {"type": "number", "minimum": 0, "maximum": COUNT_MAX}
        return {"anyOf": [number, {"type": "string", "pattern": AMOUNT_PATTERN}]}


Count = Annotated[int, Field(ge=0, le=COUNT_MAX), _Count()]
Name = Annotated[str, TextForm(name, NAME_PATTERN)]
PoolName = Annotated[str, TextForm(pool_name, NAME_PATTERN)]
QueueName = Annotated[str, TextForm(queue_name, NAME_PATTERN)]
AccountName = Annotated[str, TextForm(account_name, NAME_PATTERN)]
UserName = Annotated[str, TextForm(user_name, USER_PATTERN)]
GroupName = Annotated[str, TextForm(group_name, USER_PATTERN)]
Mount = Annotated[str, TextForm(mount, MOUNT_PATTERN)]
Directory = Annotated[str, TextForm(directory, MOUNT_PATTERN)]
Url = Annotated[str, TextForm(url, URL_PATTERN)]
Region = Annotated[str, TextForm(region, REGION_PATTERN)]
Zone = Annotated[str, TextForm(zone, ZONE_PATTERN)]
Reservation = Annotated[str, TextForm(reservation, RESERVATION_PATTERN)]
RolePath = Annotated[str, TextForm(role_path, ROLE_PATH_PATTERN)]
HostAddress = Annotated[str, TextForm(host_address, HOST_PATTERN)]
LoginName = Annotated[str, TextForm(login_name, USER_PATTERN)]
Provider = Annotated[str, TextForm(provider, f"^$|{NAME_PATTERN}")]
GroupOfHosts = Annotated[str, TextForm(group_of_hosts, f"^$|{NAME_PATTERN}")]
IdentityFile = Annotated[str, TextForm(identity_file, IDENTITY_FILE_PATTERN)]
PartId = Annotated[str, TextForm(part, PART_PATTERN)]
Admin = Annotated[str, TextForm(admin, ADMIN_PATTERN)]
TagName = Annotated[str, TextForm(tag_name, TAG_PATTERN)]
TagValue = Annotated[str, TextForm(tag_value, TAG_VALUE_PATTERN)]
Email = Annotated[str, TextForm(email, EMAIL_PATTERN)]
ContainerImage = Annotated[str, TextForm(container_image, IMAGE_PATTERN)]
Repository = Annotated[str, TextForm(repository, f"^$|{NAME_PATTERN}|{BUCKET_PATTERN}")]
Experiment = Annotated[str, TextForm(experiment, EXPERIMENT_PATTERN)]
OwnRole = Annotated[str, TextForm(own_role, PATH_PATTERN)]
OwnCheck = Annotated[str, TextForm(own_check, PATH_PATTERN)]
# The names of machines are data that grows with the catalog: a schema that listed them would refuse later ones.
MachineName = Annotated[str, TextForm(machine_name, "^.+$")]
StorageKind = Annotated[str, TextForm(storage_kind, "^.+$")]
BucketFolder = Annotated[str, TextForm(bucket_folder, FOLDER_PATTERN)]
StorageTier = Annotated[str, TextForm(storage_tier, TIER_PATTERN)]
MigProfile = Annotated[str, TextForm(mig_profile, MIG_PATTERN)]
ReleaseName = Annotated[str, TextForm(release_name, "^.+$")]
Whole = BeforeValidator(whole)

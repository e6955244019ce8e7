"""Text of a stack file for another stamp of the same cluster.

Users write and read this text: it is copied with its comments, and only name and addresses differ. Salt and secrets of
the stack are not copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network

import yaml

from stampworks.declaration.files import STACK_KEY
from stampworks.declaration.ranges import PRIVATE_RANGES

Edit = tuple[int, int, str]


def sibling_text(text: str, of: str, name: str, cidr: str) -> str:
    """Return the text of the sibling's file; `text` is that of a stack's file which has been loaded before."""
    root = yaml.compose(text, yaml.SafeLoader)
    config = _entry(root, "config")
    cluster = _entry(config, STACK_KEY)
    assert isinstance(cluster, yaml.MappingNode)  # noqa: S101  # it has been loaded
    start, end = _extent(text, config, cluster)
    copied = _edited(text[:end], [*_edits(text, cluster, name, cidr)])[start:]
    lead = "" if start == _line_start(text, start) else f"  {STACK_KEY}: "
    return (
        f"# A sibling of {of}: the same cluster once more, with a name and addresses of its own.\n"
        f"# `stampworks compare {of} {name}` says whether they still are the same.\n"
        f"config:\n{lead}{copied}\n"
    )


def other_settings(text: str) -> list[str]:
    """Return the other settings of the stack's configuration; some of them may be secret."""
    config = _entry(yaml.compose(text, yaml.SafeLoader), "config")
    return [key.value for key, _ in config.value if key.value != STACK_KEY] if config else []


def free_range(cidr: str, taken: Iterable[str]) -> str | None:
    """Return the next range of the same size that overlaps with no other; None if there is none."""
    own, others = IPv4Network(cidr), [IPv4Network(each) for each in taken]
    around = next(private for private in PRIVATE_RANGES if own.subnet_of(private))
    first, behind, size = int(around[0]), int(around[-1]) + 1, own.num_addresses
    for position, end in ((int(own[-1]) + 1, behind), (first, int(own[0]))):
        while position + size <= end:
            found = IPv4Network((position, own.prefixlen))
            blocking = next((each for each in others if each.overlaps(found)), None)
            if blocking is None:
                return str(found)
            position += max(size, -(-(int(blocking[-1]) + 1 - position) // size) * size)
    return None


def _entry(mapping: yaml.Node | None, key: str) -> yaml.Node | None:
    if not isinstance(mapping, yaml.MappingNode):
        return None
    return next((value for name, value in mapping.value if name.value == key), None)


def _extent(text: str, config: yaml.Node | None, cluster: yaml.MappingNode) -> tuple[int, int]:
    """Return begin and end of the part to copy: whole lines with their comments, or a mapping in braces."""
    if isinstance(config, yaml.MappingNode) and config.flow_style:
        return cluster.start_mark.index, cluster.end_mark.index
    key = next(name for name, value in config.value if value is cluster)  # type: ignore[union-attr]
    end = text.find("\n", max(_ends(cluster)) - 1)
    end = len(text) if end < 0 else end
    for line in text[end + 1 :].splitlines(keepends=True):
        # comments with the indentation of the entries still belong to them
        if not line.lstrip().startswith("#") or len(line) - len(line.lstrip()) < cluster.start_mark.column:
            break
        end += len(line)
    return _line_start(text, key.start_mark.index), end


def _ends(node: yaml.Node) -> Iterator[int]:
    if isinstance(node, yaml.ScalarNode) or getattr(node, "flow_style", False):
        yield node.end_mark.index
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from (*_ends(key), *_ends(value))
    else:
        for item in node.value:
            yield from _ends(item)


def _edits(text: str, cluster: yaml.MappingNode, name: str, cidr: str) -> Iterator[Edit]:
    named, network = _entry(cluster, "name"), _entry(cluster, "network")
    missing = []
    if named:
        yield named.start_mark.index, named.end_mark.index, name
    else:
        missing.append(f"name: {name}")
    if within := _entry(network, "cidr"):
        yield within.start_mark.index, within.end_mark.index, cidr
    elif network:
        yield network.start_mark.index, network.end_mark.index, f" {{cidr: {cidr}}}"
    else:
        missing.append(f"network: {{cidr: {cidr}}}")
    if missing:
        yield _insertion(text, cluster, named, missing)


def _insertion(text: str, cluster: yaml.MappingNode, named: yaml.Node | None, entries: list[str]) -> Edit:
    """Return the edit that inserts entries behind the name, or in front of everything."""
    if cluster.flow_style:
        at = named.end_mark.index if named else cluster.start_mark.index + 1
        added = ", ".join(entries)
        return at, at, f", {added}" if named else f"{added}, "
    between = "\n" + " " * cluster.start_mark.column
    if named is None:
        at = cluster.start_mark.index
        return at, at, between.join(entries) + between
    end = text.find("\n", named.end_mark.index)
    at = len(text) if end < 0 else end
    return at, at, between + between.join(entries)


def _edited(text: str, edits: list[Edit]) -> str:
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _line_start(text: str, index: int) -> int:
    return text.rfind("\n", 0, index) + 1

"""`stampworks audit-thresholds`: whether healthy machines meet thresholds, and broken ones miss them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stampworks.cli import exits
from stampworks.text.amounts import counted

if TYPE_CHECKING:
    from stampworks.qualification import Judgement, NoThreshold, Threshold


def add_verbs(verbs: Any) -> None:
    """Add the verb `audit-thresholds` and its options."""
    audit = verbs.add_parser(
        "audit-thresholds", help="judge thresholds of health checks by physics", allow_abbrev=False
    )
    audit.add_argument("file", metavar="FILE", help="a CSV file: machine,nodes,quantity,bytes,unit,value")
    audit.add_argument("--json", action="store_true", help="print a judgement of each as JSON")
    audit.set_defaults(call=audit_thresholds)


def audit_thresholds(arguments: argparse.Namespace) -> int:
    """Return FINE if all thresholds pass, NO if one is refused, else UNKNOWN."""
    from stampworks.qualification import audit, read_thresholds

    judgements = [audit(threshold) for threshold in read_thresholds(Path(arguments.file))]
    if arguments.json:
        print(json.dumps([_data(each) for each in judgements], indent=2, ensure_ascii=False))
    else:
        print("\n".join(_text(arguments.file, judgements)))
    verdicts = {each.verdict for each in judgements}
    return exits.NO if "refused" in verdicts else exits.UNKNOWN if "cannot-tell" in verdicts else exits.FINE


def _data(judgement: Judgement) -> dict[str, Any]:
    """Return the row with its judgement; an unreadable row is returned as written."""
    from stampworks.qualification import NoThreshold
    from stampworks.qualification.thresholds import HEADER

    row = judgement.threshold
    cells = (
        (*row.cells, *[""] * len(HEADER))
        if isinstance(row, NoThreshold)
        else (row.machine, row.nodes, row.quantity, row.size_bytes, row.unit, row.value)
    )
    said = {"verdict": judgement.verdict, "reason": judgement.reason}
    return {"line": row.line, **dict(zip(HEADER, cells, strict=False)), **said}


def _text(file: str, judgements: Sequence[Judgement]) -> list[str]:
    """Return two lines for each threshold, and the number of each verdict."""
    from stampworks.text.printable import printable

    lines = []
    for each in judgements:
        what = printable(_threshold_text(each.threshold))
        lines += [f"{printable(file)}:{each.threshold.line}: {each.verdict}: {what}", f"  {each.reason}"]
    count = {
        verdict: sum(each.verdict == verdict for each in judgements) for verdict in ("ok", "refused", "cannot-tell")
    }
    return [*lines, ", ".join(f"{number} {verdict}" for verdict, number in count.items() if number)]


def _threshold_text(row: Threshold | NoThreshold) -> str:
    from stampworks.qualification import NoThreshold

    if isinstance(row, NoThreshold):
        return ",".join(row.cells)
    size = f" of {row.size_bytes} bytes" if row.size_bytes else ""
    return f"{row.machine}, {counted(row.nodes, 'node')}, {row.quantity}{size} {row.value:.15g} {row.unit}"

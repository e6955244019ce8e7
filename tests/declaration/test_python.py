"""A declaration that a Python program builds from the same models."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from stampworks.declaration import Declaration, DeclarationError, Fabric, Pool, Queue, Scheduler, load_value

from .test_models import MINIMAL


def declared(**more: Any) -> Declaration:
    pools = (Pool(name="gpu", machine="sim-cpu", count=1),)
    given: dict[str, Any] = {"cloud": "local", "pools": pools, **more}
    return Declaration(version=1, name="a", **given)


def problems(declaration: Declaration) -> dict[str, str]:
    with pytest.raises(DeclarationError) as caught:
        load_value(declaration, "o").refuse_problems()
    return {problem.path: problem.message for problem in caught.value.problems}


def test_it_means_the_same_as_plain_data() -> None:
    """Defaults and all."""
    assert load_value(declared(), "o").declaration == load_value(MINIMAL, "o").declaration
    assert load_value(declared(fabric=Fabric()), "o").declaration == load_value(MINIMAL, "o").declaration


def test_validated_sections_can_be_reused() -> None:
    """The loader's result is as good a start as a program's own declaration."""
    once = load_value(declared(fabric=Fabric(leaf_nodes=4)), "o").declaration
    assert load_value(once, "o").declaration == once


def test_problems_come_together_and_by_path() -> None:
    """Problems of values, of keys, and between fields are reported together, wherever they were created."""
    queues = (Queue(name="main", pools=("cpu",), default=True),)
    wrong: dict[str, Any] = {"count": "2", "nods": 1}
    pools = (Pool(name="gpu", machine="sim-h10", **wrong),)
    assert problems(declared(pools=pools, scheduler=Scheduler(queues=queues))) == {
        "pools[0].machine": "no machine is called 'sim-h10'",
        "pools[0].count": "must be a whole number, not '2'",
        "pools[0].nods": "there is no such key",
        "scheduler.queues[0].pools[0]": "no pool is called 'cpu'",
    }


def test_missing_fields_are_named() -> None:
    """Missing fields are reported without a type checker, too."""
    nothing: Any = {}
    assert problems(declared(pools=(Pool(**nothing),))) == {
        f"pools[0].{name}": "is missing" for name in ("name", "machine", "count")
    }


@pytest.mark.parametrize("value", [Pool(name="gpu", machine="sim-cpu", count=1), 3])
def test_another_type_than_a_list(value: Any) -> None:
    """A common slip is an entry without its comma: (Pool(...)) is no tuple."""
    assert "must be a list" in problems(declared(pools=value))["pools"]


def test_it_is_frozen_before_it_is_judged() -> None:
    """Assignment is refused before validation, as afterwards."""
    pool = Pool(name="gpu", machine="sim-cpu", count=1)
    with pytest.raises(ValidationError, match="frozen"):
        pool.count = 2


def test_the_loader_does_not_believe_what_a_program_made() -> None:
    """pydantic validates every value of every section, and creates its own without this constructor."""
    said = problems(declared(cloud="mars"))["cloud"]
    assert said.startswith("must be local, aws, azure, ")
    assert said.endswith(", not 'mars'")

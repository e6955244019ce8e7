"""`stampworks estimate`: time, cost and checkpoints of a training run."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from stampworks.cli import exits, stacks
from stampworks.cli.machines import machine_named

if TYPE_CHECKING:
    from stampworks import catalog
    from stampworks.physics.estimates import Question
    from stampworks.plan import Plan
    from stampworks.planning.build.placement import Placement

COUNT_MAX = 10**21
GPUS_MAX = 10**8


def add_verbs(verbs: Any) -> None:
    """Add the verb `estimate` and its options."""
    estimate = verbs.add_parser(
        "estimate", help="work out accelerator-days, days, money and checkpoints of a run", allow_abbrev=False
    )
    which = stacks.add_plan_options(estimate)
    which.add_argument(
        "--params", metavar="N", type=_count(COUNT_MAX), help="parameters of a model, as in 70B, instead"
    )
    estimate.add_argument(
        "--active",
        metavar="N",
        type=_count(COUNT_MAX),
        help="parameters that a token passes through (default: all)",
    )
    estimate.add_argument("--tokens", metavar="N", type=_count(COUNT_MAX), help="tokens to train on, as in 15T")
    estimate.add_argument("--gpus", metavar="N", type=_count(GPUS_MAX), help="accelerators that train it")
    estimate.add_argument("--pool", metavar="NAME", help="pool of the declaration that the run is on")
    estimate.add_argument("--machine", metavar="NAME", help="the catalog's name of the machine")
    estimate.add_argument(
        "--precision",
        metavar="P",
        choices=("bfloat16", "float8"),
        help="bfloat16 or float8 (default: as declared, else bfloat16)",
    )
    estimate.add_argument("--mfu", metavar="F", type=_share, help="share of the machine's peak, as in 0.4")
    estimate.add_argument("--tflops-per-gpu", metavar="X", type=_positive, help="TFLOP/s of one accelerator instead")
    estimate.add_argument("--usd-per-gpu-hour", metavar="P", type=_usd, help="price of an accelerator for an hour")
    estimate.add_argument(
        "--checkpoints", metavar="N", type=_count(10**6), help="number of checkpoints that are kept (default: 1)"
    )
    estimate.add_argument("--json", action="store_true", help="print the answer as JSON; unknown is null")
    estimate.set_defaults(call=show_estimate)


def show_estimate(arguments: argparse.Namespace) -> int:
    """Return the exit code: fine even if a value is unknown."""
    from stampworks.physics.estimates import estimate
    from stampworks.views.estimate import estimate_data, estimate_text

    asked = _question(arguments)
    answer = estimate(asked)
    if arguments.json:
        print(json.dumps(estimate_data(answer), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        from stampworks.cli.output import terminal_width

        print(estimate_text(asked, answer, terminal_width()), end="")
    return exits.FINE


def _question(arguments: argparse.Namespace) -> Question:
    """Return the declared question, with the options that replace or complete it."""
    from dataclasses import replace

    from stampworks.physics.estimates import Question
    from stampworks.physics.transformer import Transformer

    declared = arguments.params is None
    if declared and arguments.active:
        raise exits.CliError("--active needs --params", "write training.model.active into the declaration")
    if arguments.pool and not declared:
        raise exits.CliError("--pool needs a declaration", "with --params, give --machine and --gpus")
    asked = _declared(arguments) if declared else Question(Transformer(arguments.params, active=arguments.active))
    if arguments.machine:
        machine = machine_named(arguments.machine)
        usd, why = _listed(machine)
        asked = replace(
            asked,
            machine=machine,
            gpus=None,
            gpus_min=None,
            usd_per_gpu_hour=usd,
            price_why=why,
            batch=None,
            working=1.0,
            oversubscription=1,
        )
    if arguments.gpus:
        asked = replace(asked, gpus=arguments.gpus, gpus_min=None, batch=None, working=1.0)
    if arguments.usd_per_gpu_hour is not None:
        asked = replace(asked, usd_per_gpu_hour=arguments.usd_per_gpu_hour, price_why="as given")
    return replace(
        asked,
        tokens=arguments.tokens or asked.tokens,
        precision=arguments.precision or asked.precision,
        mfu=arguments.mfu,
        tflops=arguments.tflops_per_gpu,
        checkpoints=arguments.checkpoints or asked.checkpoints,
    )


def _declared(arguments: argparse.Namespace) -> Question:
    """The model and the nodes of a declaration; as many checkpoints as it keeps."""
    from stampworks.physics.estimates import Question
    from stampworks.planning.build.model import transformer
    from stampworks.planning.build.placement import as_it_fits, places, precision

    plan = _plan(arguments)
    model = plan.training.model
    if model.parameters is None:
        hint = "write training.model into it, with parameters and tokens, or give --params 70B --tokens 15T"
        raise exits.CliError(f"{arguments.file or f'stack {arguments.stack!r}'} declares no model", hint)
    found = _asked_places(arguments, places(plan.training, plan.groups, plan.scheduler))
    always = {group.name: group.count_min for group in plan.groups}
    machines = {place.machine.name for place in found}
    one = found[0].machine if len(machines) == 1 else None
    laid, mark = as_it_fits(transformer(model), found[0]) if len(found) == 1 else (None, "")
    price = _price(plan, found[0].pool) if len(found) == 1 and found[0].machine.accelerators else None
    return Question(
        model=transformer(model),
        tokens=model.tokens,
        usd_per_gpu_hour=price.usd_per_hour / found[0].machine.accelerators if price else None,
        price_why=f"{price.name} of the catalog ({price.source}, read {price.read})" if price else "",
        gpus=sum(place.nodes * one.accelerators for place in found) or None if one else None,
        gpus_min=sum(min(place.nodes, always[place.pool]) * one.accelerators for place in found) if one else None,
        machine=one,
        precision=precision(plan.training.precision),
        checkpoints=plan.training.checkpoints.keep,
        batch=plan.training.batch,
        working=laid.working if laid else 1.0,
        oversubscription=plan.fabric.oversubscription or 1,
        working_why=f"{mark and f'{mark}: '}a step has {laid.batch} samples for {laid.layout.copies} copies"
        if laid
        else "",
    )


def _plan(arguments: argparse.Namespace) -> Plan:
    try:
        return stacks.asked_plan(arguments)
    except exits.CliError as error:
        what, _, hint = str(error).partition("\n  hint: ")
        what = f"no --params are given, and no declaration is found: {what}"
        raise exits.CliError(what, f"give --params 70B, or name a FILE; else {hint}") from None


def _asked_places(arguments: argparse.Namespace, found: Sequence[Placement]) -> Sequence[Placement]:
    """Return the placements of a pool, if the declaration is given; different machines need a pool each."""
    from stampworks.declaration.wording import shown

    said = ", ".join(f"{place.pool} ({place.machine.name})" for place in found)
    if arguments.pool:
        if only := [place for place in found if place.pool == arguments.pool]:
            return only
        what = f"no run of the default queue is on a pool {shown(arguments.pool)}"
        raise exits.CliError(what, f"there is {said}" if said else "give its nodes a rank: training.ranks")
    different = len({place.machine.name for place in found}) > 1
    if different and not (arguments.machine or arguments.tflops_per_gpu):
        what = f"the run could be on pools of different machines: {said}"
        raise exits.CliError(what, f"name one: {' or '.join(f'--pool {place.pool}' for place in found)}")
    return found


def _price(plan: Plan, pool: str) -> catalog.Price | None:
    from stampworks.planning.cost import NoPrice, price_of

    found = price_of(plan, next(each for each in plan.groups if each.name == pool))
    return None if isinstance(found, NoPrice) else found


def _listed(machine: catalog.Machine) -> tuple[float | None, str]:
    """Return the lowest published on-demand price of an accelerator of the machine, and its source."""
    from stampworks import catalog

    found = catalog.prices_on_demand(machine.name)
    if not found or not machine.accelerators:
        return None, ""
    each = [round(one.usd_per_hour / machine.accelerators, 4) for one in found]
    lowest, among = found[0], "" if len(found) == 1 else f", the lowest of {len(found)} regions, up to {each[-1]:g}"
    return each[0], f"on demand{among}: {lowest.name} of the catalog ({lowest.source}, read {lowest.read})"


def _count(most: int) -> Callable[[str], int]:
    def parsed(text: str) -> int:
        from stampworks.text.amounts import HOW, amount, many

        try:
            value = amount(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{error}: {HOW}") from None
        if not 1 <= value <= most:
            raise argparse.ArgumentTypeError(f"{text[:60]!r} is not from 1 to {many(most)}")
        return value

    return parsed


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is not a number")
    return value


def _positive(text: str) -> float:
    value = _number(text)
    if not 0 < value <= 1e9:
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is not more than 0, or more than any accelerator has")
    return value


def _usd(text: str) -> float:
    value = _number(text)
    if not 0 <= value <= 1e9:
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is not a price")
    return value


def _share(text: str) -> float:
    value = _number(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is not a share of the peak: write 0.4 for 40 %")
    return value

"""Estimate a training run: accelerator-days, days, money, checkpoints. Unknown facts are named."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from stampworks import catalog
from stampworks.physics import memory, training
from stampworks.physics.bounds import Bound, UnknownFactError, figure
from stampworks.physics.checkpoints import OURS, checkpoint_bytes
from stampworks.physics.failures import mtbf_range_hours
from stampworks.physics.memory import Need
from stampworks.physics.transformer import Transformer, flops_per_token
from stampworks.text.amounts import many

DAY_S = 86_400


@dataclass(frozen=True)
class Question:
    """A run to estimate; None means not given."""

    model: Transformer
    tokens: int | None = None
    gpus: int | None = None
    machine: catalog.Machine | None = None
    mfu: float | None = None
    tflops: float | None = None
    """Rate of one accelerator."""
    usd_per_gpu_hour: float | None = None
    price_why: str = "as given"
    """The source of the price."""
    checkpoints: int = 1
    """Number of checkpoints that are kept."""
    gpus_min: int | None = None
    """Number of accelerators that always run; None: all."""
    precision: training.Precision = "bfloat16"
    batch: int | None = None
    """Samples of a step."""
    working: float = 1.0
    """Share of the accelerators' time that they work, when a step gives them different numbers of samples."""
    working_why: str = ""
    oversubscription: float = 1
    """Oversubscription of the fabric. It slows only an all-to-all: rings in leaf order cross a trunk once in each
    direction."""


@dataclass(frozen=True)
class Rate:
    """FLOPs per second of one accelerator: the value to count with, and the range of published runs."""

    tflops: Bound
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class Estimate:
    """The answer; None if the question does not determine it, with a reason in the assumptions."""

    gpu_days: float | None
    wall_days: float | None
    usd: float | None
    checkpoint_bytes: int
    assumptions: tuple[str, ...]
    flops: float | None
    tflops_per_gpu: float | None
    gpu_days_range: tuple[float, float] | None
    """Range at the rates of published runs."""
    wall_days_max: float | None
    """Days on the accelerators that always run; None when all of them do, none does, or it is unknown."""
    checkpoint_bytes_each: int
    mtbf_hours_range: tuple[float, float] | None
    layouts: tuple[Need, ...]
    """Needs of each layout with one sample at once, if the accelerators' memory is known."""
    suggested: Need | None
    bundled: Need | None
    """The plainest layout that the bundled training supports."""
    memory_gib: float | None


class ConflictError(Exception):
    """Two facts that cannot both be true, and a way to resolve the conflict."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what}\n  hint: {hint}")


def estimate(asked: Question) -> Estimate:
    """Estimate a run; raise ConflictError when the question contradicts itself."""
    _check(asked)
    said: list[str] = []
    flops = _flops(asked, said)
    rate = _working(asked, _rate(asked, said), said)
    if asked.oversubscription > 1 and asked.model.used < asked.model.parameters:
        said.append(
            f"fabric: not in the rate; where experts lie on other leaves, an all-to-all between them has 1/"
            f"{figure(asked.oversubscription)} of the NICs' bandwidth, and steps are longer"
        )
    gpu_days = flops / rate.tflops.value / 1e12 / DAY_S if flops and rate else None
    one = checkpoint_bytes(asked.model.parameters)
    kept = f"; {asked.checkpoints} of them are kept" if asked.checkpoints > 1 else "; one of them"
    wall_days = _wall_days(asked, gpu_days, said)
    wall_days_max = _wall_days_max(asked, gpu_days, said)
    usd = _usd(asked, gpu_days, said)
    said.append(f"checkpoint: {one.why}{kept}")
    mtbf = _mtbf(asked, said)
    layouts, suggested, bundled = _layouts(asked, said)
    return Estimate(
        gpu_days=gpu_days,
        wall_days=wall_days,
        usd=usd,
        checkpoint_bytes=int(one.value) * asked.checkpoints,
        assumptions=tuple(said),
        flops=flops,
        tflops_per_gpu=rate.tflops.value if rate else None,
        gpu_days_range=_range(flops, rate),
        wall_days_max=wall_days_max,
        checkpoint_bytes_each=int(one.value),
        mtbf_hours_range=mtbf,
        layouts=layouts,
        suggested=suggested,
        bundled=bundled,
        memory_gib=_memory_gib(asked.machine),
    )


def _check(asked: Question) -> None:
    if asked.mfu is not None and asked.tflops is not None:
        what = "a share of the peak and FLOPs a second are both given, and one follows from the other"
        raise ConflictError(what, "keep one of --mfu and --tflops-per-gpu")
    if asked.mfu is not None and asked.machine is None:
        raise ConflictError("--mfu is a share of a peak, and no machine says which", "add --machine, as in p5")
    if asked.machine and asked.gpus and not asked.machine.accelerators:
        what = f"{asked.gpus} accelerators are asked of {asked.machine.name}, which has none"
        raise ConflictError(what, "leave --gpus out, or name a machine with accelerators, as in --machine p5")
    if asked.model.used > asked.model.parameters:
        what = f"{many(asked.model.used)} of {many(asked.model.parameters)} parameters are active"
        raise ConflictError(what, "--params are all of them, those of every expert; a token passes through --active")
    if asked.machine is None or asked.tflops is None:
        return
    try:
        peak = training.peak_tflops(asked.machine, asked.precision)
    except UnknownFactError:
        return
    if asked.tflops > peak.value:
        what = f"{figure(asked.tflops)} TFLOP/s are asked of {asked.machine.name}, which has {peak.why}"
        raise ConflictError(what, f"write {figure(peak.value)} or less, or say another --precision")


def _flops(asked: Question, said: list[str]) -> float | None:
    each = flops_per_token(asked.model)
    if asked.tokens is None:
        said.append("FLOPs: unknown, for the number of training tokens is not given")
        return None
    flops = float(each.value * asked.tokens)
    said.append(f"FLOPs: {each.why}; x {many(asked.tokens)} tokens = {flops:.4g}")
    return flops


def _rate(asked: Question, said: list[str]) -> Rate | None:
    """Return the given rate, or that of published runs on this accelerator."""
    if asked.tflops is not None:
        said.append(f"rate: {figure(asked.tflops)} TFLOP/s of each accelerator, as given")
        return Rate(Bound(asked.tflops, "given"))
    if asked.machine is None:
        said.append("rate: unknown, for neither FLOPs a second nor a machine were said")
        return None
    try:
        peak = training.peak_tflops(asked.machine, asked.precision)
        if asked.mfu is not None:
            said.append(f"rate: MFU {asked.mfu:g}, as given, of {peak.why}")
            return Rate(Bound(asked.mfu * peak.value, "given"))
        least, middle, most = training.mfu_range(asked.machine, asked.model, asked.precision)
    except UnknownFactError as error:
        said.append(f"rate: unknown, for {error}")
        return None
    if least.value == most.value:
        said.append(f"rate: MFU {figure(middle.value)}, {middle.why}: {least.why}; of {peak.why}")
        return Rate(Bound(middle.value * peak.value, middle.why))
    said.append(
        f"rate: MFU {figure(middle.value)}, {middle.why}, between {figure(least.value)} ({least.why}) and "
        f"{figure(most.value)} ({most.why}); of {peak.why}"
    )
    return Rate(Bound(middle.value * peak.value, middle.why), least.value * peak.value, most.value * peak.value)


def _working(asked: Question, rate: Rate | None, said: list[str]) -> Rate | None:
    """Reduce the rate by the time in which accelerators wait for samples."""
    if rate is None or asked.working == 1:
        return rate
    said.append(f"work: {asked.working_why}: x {figure(asked.working)}")
    least, most = (each and each * asked.working for each in (rate.least, rate.most))
    return Rate(Bound(rate.tflops.value * asked.working, asked.working_why), least, most)


def _range(flops: float | None, rate: Rate | None) -> tuple[float, float] | None:
    if flops is None or rate is None or rate.least is None or rate.most is None:
        return None
    return flops / rate.most / 1e12 / DAY_S, flops / rate.least / 1e12 / DAY_S


def _wall_days(asked: Question, gpu_days: float | None, said: list[str]) -> float | None:
    if asked.gpus is None:
        said.append("days: unknown, for the number of accelerators is not given")
        return None
    if gpu_days is None:
        return None
    said.append(f"days: {asked.gpus} accelerators from the first to the last step, nothing lost to failures")
    return gpu_days / asked.gpus


def _wall_days_max(asked: Question, gpu_days: float | None, said: list[str]) -> float | None:
    if asked.gpus is None or asked.gpus_min in (None, asked.gpus):
        return None
    if not asked.gpus_min:
        said.append("days at most: unknown, for none of the accelerators always runs")
        return None
    if gpu_days is None:
        return None
    said.append(f"days at most: on the {asked.gpus_min} accelerators that always run; the money is the same")
    return gpu_days / asked.gpus_min


def _usd(asked: Question, gpu_days: float | None, said: list[str]) -> float | None:
    if asked.usd_per_gpu_hour is None:
        said.append("usd: unknown, for no price is given or published")
        return None
    if gpu_days is None:
        return None
    price = figure(asked.usd_per_gpu_hour)
    said.append(
        f"usd: {price} for each accelerator and hour of training, {asked.price_why}; storage, head and idle time are "
        "not in it"
    )
    return gpu_days * 24 * asked.usd_per_gpu_hour


def _mtbf(asked: Question, said: list[str]) -> tuple[float, float] | None:
    if asked.gpus is None or (asked.machine and asked.machine.simulated):
        return None
    least, most = mtbf_range_hours(asked.gpus, catalog.deployments().values())
    said.append(
        f"failures: not in the days; at published rates one in {figure(least.value)} h ({least.why}) to "
        f"{figure(most.value)} h ({most.why})"
    )
    return least.value, most.value


def _memory_gib(machine: catalog.Machine | None) -> float | None:
    if machine is None or machine.simulated or not machine.accelerator:
        return None
    memory_gib = catalog.accelerators()[machine.accelerator].memory_gib
    return None if isinstance(memory_gib, catalog.Unknown) else memory_gib


def _layouts(asked: Question, said: list[str]) -> tuple[tuple[Need, ...], Need | None, Need | None]:
    """Return the needs of each layout, the plainest that fits, and the plainest of the bundled training."""
    machine, memory_gib = asked.machine, _memory_gib(asked.machine)
    if machine is None or asked.gpus is None:
        return (), None, None
    if memory_gib is None:
        said.append(f"memory: unknown, for that of an accelerator of {machine.name} is not known")
        return (), None, None
    if asked.gpus % machine.accelerators:
        nodes = ceil(asked.gpus / machine.accelerators)
        said.append(f"nodes: {asked.gpus} accelerators take {nodes} of {machine.name}, the last not whole")
    node_ranks = min(asked.gpus, machine.accelerators)
    model = asked.model
    plain = [*memory.plainest(asked.gpus, node_ranks, model.heads, model.layers, model.sequence)]
    needs = tuple(memory.need(asked.model, each, 1) for each in plain)
    said.append(
        f"memory: {OURS.trained} bytes a parameter while it is trained ({OURS.weights} of weights, {OURS.gradients} of "
        f"gradients, {OURS.optimizer} of Adam's moments), one sample at once, tp with parallel sequences, "
        f"{memory.HEADROOM_SHARE:.0%} of {figure(memory_gib)} GiB left for everything else"
    )
    found = memory.suggested(asked.model, plain, memory_gib, asked.batch)
    own = memory.suggested(asked.model, [*memory.bundled(plain)], memory_gib, asked.batch)
    return needs, found, own if own and not own.recomputed else None

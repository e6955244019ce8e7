"""The declared model: its shape, the values that follow from it, and the consistency of its facts."""

from __future__ import annotations

from dataclasses import replace

from stampworks import declaration
from stampworks.physics.transformer import Transformer, counted, usual_ffn
from stampworks.plan import Model
from stampworks.planning.build.notes import Notes
from stampworks.text.amounts import many

PATH = "training.model"
NAMED_SHARE = 0.1
"""Tolerance for rounded names of models: a 7B has 6.74B parameters."""
TOGETHER = (
    ("experts", "experts_per_token"),
    ("experts_per_token", "experts"),
    ("kv_rank", "head"),
    ("query_rank", "kv_rank"),
    ("rotary", "kv_rank"),
    ("dense_layers", "dense_ffn"),
    ("dense_ffn", "dense_layers"),
    ("dense_layers", "experts"),
)
"""Pairs of fields; the first has no meaning without the second."""


def build(declared: declaration.Training, batch: int, notes: Notes) -> Model:
    """Complete the declared model with derived values; note a problem when two facts contradict each other.

    `batch`: samples of a step.
    """
    told = declared.model
    kv_heads, ffn = told.kv_heads or told.heads, told.ffn
    if told.heads and not told.kv_heads:
        notes.reason(f"{PATH}.kv_heads", "without kv_heads each head of attention has its own keys and values")
    if told.hidden and not told.ffn:
        ffn = usual_ffn(told.hidden, told.gated)
        how = f"8/3 of {told.hidden}, up to a multiple of 32" if told.gated else f"4 x {told.hidden}"
        notes.reason(f"{PATH}.ffn", f"{how}: as wide as is usual {'with' if told.gated else 'without'} a gate")
    written = Model(
        parameters=told.parameters or None,
        tokens=told.tokens or None,
        layers=told.layers or None,
        hidden=told.hidden or None,
        heads=told.heads or None,
        kv_heads=kv_heads or None,
        head=told.head or None,
        value_head=told.value_head or None,
        kv_rank=told.kv_rank or None,
        query_rank=told.query_rank or None,
        rotary=told.rotary or None,
        ffn=ffn or None,
        vocabulary=told.vocabulary or None,
        sequence=told.sequence or None,
        gated=told.gated,
        tied=told.tied,
        experts=told.experts or None,
        experts_per_token=told.experts_per_token or None,
        dense_layers=told.dense_layers or None,
        dense_ffn=told.dense_ffn or None,
        active=told.active or None,
    )
    if told == type(told)():
        return written
    _check_heads(declared, notes)
    _check_together(told, notes)
    _check_parts(told, notes)
    whole = replace(written, parameters=_parameters(written, notes), tokens=_tokens(declared, batch, notes))
    return replace(whole, active=_active(whole, notes))


def _check_heads(declared: declaration.Training, notes: Notes) -> None:
    told = declared.model
    for name, whole, parts in (
        ("heads", told.hidden, told.heads),
        ("kv_heads", told.heads, told.kv_heads),
    ):
        if whole and parts and whole % parts and not (name == "heads" and told.head):
            of = "hidden" if name == "heads" else "heads"
            what = f"{of} {whole} does not divide by {name} {parts}: {_remainder(whole, parts)}"
            notes.problem(f"{PATH}.{name}", what, f"write {name} that divide {whole}, or another {of}")
    if told.heads and told.heads % declared.tensor_parallel:
        degree = declared.tensor_parallel
        what = f"the model's {told.heads} heads do not divide by it: {_remainder(told.heads, degree)}"
        notes.problem("training.tensor_parallel", what, f"write a tensor_parallel that divides {told.heads}")


def _check_together(told: declaration.Model, notes: Notes) -> None:
    """Note the first field that lacks the field it depends on."""
    for said, lacks in TOGETHER:
        if getattr(told, said) and not getattr(told, lacks):
            hint = f"write {lacks}, too, or take {said} out"
            notes.problem(f"{PATH}.{lacks}", f"{said} needs {lacks}, too", hint)
            return


def _check_parts(told: declaration.Model, notes: Notes) -> None:
    """Refuse a part that is larger than its whole."""
    for part, whole in (("experts_per_token", "experts"), ("rotary", "head"), ("dense_layers", "layers")):
        most = getattr(told, whole)
        if most and getattr(told, part) > most:
            what = f"{part} {getattr(told, part)} is a part of {whole}, which is {most}"
            notes.problem(f"{PATH}.{part}", what, f"write {most} or less, or more {whole}")
    if told.kv_rank and told.heads and told.kv_heads not in (0, told.heads):
        what = f"in latent attention each of {told.heads} heads has keys and values of its own, not {told.kv_heads}"
        notes.problem(f"{PATH}.kv_heads", what, "take it out, or take kv_rank out")


def _remainder(whole: int, parts: int) -> str:
    """Show a division with its remainder, however small it is compared with the whole."""
    return f"{whole} = {parts} x {whole // parts} + {whole % parts}"


def _parameters(model: Model, notes: Notes) -> int | None:
    """Return the parameters as written or counted; a written number must agree with the count."""
    found, written = counted(transformer(model)), model.parameters
    if not found:
        if not written:
            lacks = [name for name in ("layers", "hidden", "heads", "vocabulary") if not getattr(model, name)]
            what = f"write either parameters or a whole shape: {', '.join(lacks)} of the shape are missing"
            notes.problem(PATH, what, "write parameters, as in 8B, or the rest of the shape")
        return written
    if not written:
        notes.reason(f"{PATH}.parameters", found.why)
        return int(found.value)
    if abs(found.value - written) > NAMED_SHARE * written:
        what = f"{many(written)} parameters are written, and the shape has {many(found.value)}: {found.why}"
        hint = "leave parameters out, or correct the shape; ffn, kv_heads, experts, gated and tied count, too"
        notes.problem(f"{PATH}.parameters", what, hint)
    return written


def _active(model: Model, notes: Notes) -> int | None:
    """Return the active parameters of a token in a model with experts, as written or counted."""
    if model.parameters is None or bool(model.experts) != bool(model.experts_per_token):
        return None
    if not model.experts:
        if model.active and model.active > model.parameters:
            what = f"{many(model.active)} of {many(model.parameters)} parameters are active"
            notes.problem(f"{PATH}.active", what, "parameters are all of them, those of every expert")
        return model.active
    shape = transformer(model)
    found = counted(shape, shape.experts_per_token)
    if not found:
        if not model.active:
            what = "the number of active parameters is not written, and cannot be counted without the shape"
            notes.problem(f"{PATH}.active", what, "write active, as in 37B, or the rest of the shape")
        return model.active
    if not model.active:
        notes.reason(f"{PATH}.active", found.why)
        return int(found.value)
    if abs(found.value - model.active) > NAMED_SHARE * model.active:
        what = f"{many(model.active)} active parameters are written, and the shape has {many(found.value)}: {found.why}"
        notes.problem(f"{PATH}.active", what, "leave active out, or correct the shape")
    return model.active


def _tokens(declared: declaration.Training, batch: int, notes: Notes) -> int | None:
    told = declared.model
    if told.tokens or not told.sequence:
        return told.tokens or None
    notes.reason(f"{PATH}.tokens", f"{declared.steps} steps x {batch} samples x {told.sequence} tokens, as of any run")
    return declared.steps * batch * told.sequence


def transformer(model: Model) -> Transformer:
    """Return the declared model as physics knows it. Parameters are 0 until they are known."""
    return Transformer(
        parameters=model.parameters or 0,
        layers=model.layers,
        hidden=model.hidden,
        heads=model.heads,
        kv_heads=model.kv_heads,
        head=model.head,
        value_head=model.value_head,
        kv_rank=model.kv_rank,
        query_rank=model.query_rank,
        rotary=model.rotary,
        ffn=model.ffn,
        vocabulary=model.vocabulary,
        sequence=model.sequence,
        gated=model.gated,
        tied=model.tied,
        experts=model.experts or 1,
        experts_per_token=model.experts_per_token or 1,
        dense_layers=model.dense_layers,
        dense_ffn=model.dense_ffn,
        active=model.active,
    )

"""Declared model: consequences of its values, and its needs on the declared nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import pytest
from stampworks.declaration import DeclarationError
from stampworks.physics.transformer import flops_per_token
from stampworks.plan import Expectation, Plan, Precision
from stampworks.planning import Finding, rules
from stampworks.planning.build import model
from training.settings import PRECISIONS

LLAMA_8B = {
    "layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336, "vocabulary": 128256, "sequence": 8192,
    "tokens": "15T",
}  # fmt: skip
MIXTRAL = {
    "layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336, "vocabulary": 32000, "sequence": 8192,
    "experts": 8, "experts_per_token": 2, "tokens": "1T",
}  # fmt: skip
SHARED = {"name": "shared", "kind": "vast", "mount": "/shared"}
ON_AWS = {"name": "shared", "kind": "efs", "tier": "regional", "mount": "/shared"}
POOLS = [{"name": "gpu", "machine": "sim-h100", "count": 16}]


CLOUDS = {
    "p5": {"cloud": "aws", "region": "us-east-1"},
    "p5-4xlarge": {"cloud": "aws", "region": "us-east-1"},
    "p6-b300": {"cloud": "aws", "region": "us-east-1"},
    "ND96isr_H100_v5": {"cloud": "azure", "region": "eastus"},
    "p4d": {"cloud": "aws", "region": "us-east-1"},
}


@pytest.fixture
def trained_on(plan_of: Callable[..., Plan]) -> Callable[..., Plan]:
    """The plan of 16 nodes of a machine that are there to train something."""

    def make(machine: str, told: Mapping[str, Any], storage: Sequence[Any] | None = None, **training: Any) -> Plan:
        pools = [{"name": "gpu", "machine": machine, "count": 16}]
        if storage is None:
            storage = [ON_AWS if CLOUDS[machine]["cloud"] == "aws" else SHARED]
        return plan_of(**CLOUDS[machine], pools=pools, fabric={}, storage=storage, training={"model": told, **training})

    return make


def expected(plan: Plan) -> tuple[dict[str, Expectation], dict[str, str]]:
    """Return the expectations, and reasons for missing ones."""
    found = {each.name: each for each in plan.expectations if each.name.startswith("training.")}
    return found, {each.path: each.why for each in plan.reasons if each.path == "training.gpu"}


def fit(plan: Plan) -> Finding | None:
    return next((each for each in rules(plan, None) if each.id == "memory.fit"), None)


def test_without_a_model_nothing_is_said(plan_of: Callable[..., Plan]) -> None:
    plan = plan_of(pools=POOLS)
    assert plan.training.model.parameters is None
    assert not [each for each in plan.expectations if each.name.startswith("training.")]
    assert fit(plan) is None


def test_values_derived_from_a_shape(plan_of: Callable[..., Plan]) -> None:
    """Each derived value has its reason."""
    told = {"layers": 4, "hidden": 128, "heads": 4, "vocabulary": 256, "sequence": 128}
    plan = plan_of(pools=POOLS, training={"model": told, "steps": 200, "batch": 32})
    assert (plan.training.model.kv_heads, plan.training.model.ffn) == (4, 352)
    assert plan.training.model.tokens == 200 * 32 * 128
    reasons = {each.path: each.why for each in plan.reasons}
    assert reasons["training.model.ffn"] == "8/3 of 128, up to a multiple of 32: as wide as is usual with a gate"
    assert reasons["training.model.parameters"].endswith(f" = {plan.training.model.parameters}")
    assert reasons["training.model.tokens"] == "200 steps x 32 samples x 128 tokens, as of any run"


@pytest.mark.parametrize("parameters", ["8B", "8.03e9", 8030261248, 8e9])
def test_declared_counts_are_used(parameters: Any, plan_of: Callable[..., Plan]) -> None:
    """Any spelling is accepted if the shape agrees within the rounding of the name."""
    plan = plan_of(pools=POOLS, training={"model": {**LLAMA_8B, "parameters": parameters}})
    assert plan.training.model.parameters == pytest.approx(8e9, rel=0.01)
    assert flops_per_token(model.transformer(plan.training.model)).value == pytest.approx(57.8e9, rel=0.01)


@pytest.mark.parametrize(
    ("told", "path", "text"),
    [
        (
            {**LLAMA_8B, "parameters": "70B"},
            "training.model.parameters",
            "70B parameters are written, and the shape has 8.03B",
        ),
        ({"hidden": 100, "heads": 3, "parameters": 7}, "training.model.heads", "hidden 100 does not divide by heads 3"),
        (
            {"hidden": 96, "heads": 8, "kv_heads": 3, "parameters": 7},
            "training.model.kv_heads",
            "heads 8 does not divide by kv_heads 3: 8 = 3 x 2 + 2",
        ),
        (
            {"hidden": 4097, "heads": 32, "parameters": 7},
            "training.model.heads",
            "hidden 4097 does not divide by heads 32: 4097 = 32 x 128 + 1",
        ),
        (
            {"tokens": "1T", "layers": 3},
            "training.model",
            "write either parameters or a whole shape: hidden, heads, vocabulary of the shape are missing",
        ),
        (
            {"parameters": "47B", "experts": 8},
            "training.model.experts_per_token",
            "experts needs experts_per_token, too",
        ),
        (
            {**MIXTRAL, "experts_per_token": 9},
            "training.model.experts_per_token",
            "experts_per_token 9 is a part of experts, which is 8",
        ),
        (
            {**LLAMA_8B, "kv_heads": 0, "kv_rank": 512},
            "training.model.head",
            "kv_rank needs head, too",
        ),
        (
            {**LLAMA_8B, "kv_rank": 512, "head": 192},
            "training.model.kv_heads",
            "in latent attention each of 32 heads has keys and values of its own, not 8",
        ),
        (
            {**LLAMA_8B, "kv_heads": 32, "kv_rank": 512, "head": 192, "rotary": 193},
            "training.model.rotary",
            "rotary 193 is a part of head, which is 192",
        ),
        (
            {**MIXTRAL, "dense_layers": 3},
            "training.model.dense_ffn",
            "dense_layers needs dense_ffn, too",
        ),
        (
            {**MIXTRAL, "active": "46.7B"},
            "training.model.active",
            "46.7B active parameters are written, and the shape has 12.88B: 32 layers x ",
        ),
        (
            {"parameters": "671B", "experts": 257, "experts_per_token": 9},
            "training.model.active",
            "the number of active parameters is not written, and cannot be counted without the shape",
        ),
        (
            {"parameters": "37B", "active": "671B"},
            "training.model.active",
            "671B of 37B parameters are active",
        ),
        ({"parameters": "8Q"}, "training.model.parameters", "'8Q' is no count"),
        ({"parameters": 1.5}, "training.model.parameters", "must be a whole number, not 1.5"),
        ({"parameters": -1}, "training.model.parameters", "must be from 0 to 1000000000000000000, not -1"),
        ({"tokens": "9e99"}, "training.model.tokens", "must be from 0 to"),
        ({"parameters": True}, "training.model.parameters", "must be a whole number, not true"),
        ({"parameters": [7]}, "training.model.parameters", "must be a whole number, not a list"),
    ],
)
def test_contradictions_are_refused(
    told: Mapping[str, Any], path: str, text: str, plan_of: Callable[..., Plan]
) -> None:
    """The problem has the arithmetic, the position and a hint."""
    with pytest.raises(DeclarationError) as error:
        plan_of(pools=POOLS, training={"model": told})
    [problem] = error.value.problems
    assert problem.path == path
    assert text in problem.message
    assert problem.hint


def test_values_derived_from_experts(plan_of: Callable[..., Plan]) -> None:
    """A token passes through the active parameters; memory and checkpoints contain all of them."""
    plan = plan_of(pools=POOLS, training={"model": MIXTRAL})
    assert (plan.training.model.parameters, plan.training.model.active) == (46_702_792_704, 12_879_925_248)
    reasons = {each.path: each.why for each in plan.reasons}
    assert reasons["training.model.active"].endswith(" = 12879925248")
    found, _ = expected(plan)
    assert found["training.token_gflop"].value == pytest.approx(
        6 * (12.88 - 0.131) + 12 * 32 * 4096 * 8192 / 1e9, rel=1e-3
    )
    assert found["training.checkpoint_gb"].value == pytest.approx(12 * 46.703, rel=1e-3)


def test_latent_attention_and_layers_without_experts(plan_of: Callable[..., Plan]) -> None:
    """DeepSeek-V3 as its config_671B.json has it: 671B, and 37B active."""
    told = {
        "layers": 61, "hidden": 7168, "heads": 128, "head": 192, "value_head": 128, "kv_rank": 512, "query_rank": 1536,
        "rotary": 64, "ffn": 2048, "experts": 257, "experts_per_token": 9, "dense_layers": 3, "dense_ffn": 18432,
        "vocabulary": 129280, "sequence": 4096, "tokens": "14.8T",
    }  # fmt: skip
    model = plan_of(pools=POOLS, training={"model": told}).training.model
    assert (model.parameters, model.active) == (671_026_820_096, 37_552_698_368)


def test_parameters_without_a_shape(plan_of: Callable[..., Plan]) -> None:
    """Active parameters are written, for they cannot be counted."""
    plan = plan_of(pools=POOLS, training={"model": {"parameters": "671B", "active": "37B", "tokens": "14.8T"}})
    found, _ = expected(plan)
    assert found["training.token_gflop"].value == 222
    assert found["training.checkpoint_gb"].value == 12 * 671


@pytest.mark.parametrize(("machine", "pools"), [("sim-h100", ["gpu"]), ("sim-cpu", ["gpu", "cpu"])])
def test_pools_without_accelerators_count_where_there_are_no_others(
    machine: str, pools: list[str], plan_of: Callable[..., Plan]
) -> None:
    """A helper pool in the same queue is not meant for the model."""
    both = [{"name": "gpu", "machine": machine, "count": 2}, {"name": "cpu", "machine": "sim-cpu", "count": 2}]
    plan = plan_of(pools=both, training={"model": {"parameters": "8B", "tokens": "1T"}})
    found = {each.name.split(".")[1] for each in plan.expectations if each.name.endswith("memory_min_gib")}
    assert sorted(found) == sorted(pools)


def test_precision(trained_on: Callable[..., Plan]) -> None:
    """Each precision uses its own peak, and published runs of that precision."""
    narrow, wide = (expected(trained_on("p5", LLAMA_8B, batch=256, precision=each))[0] for each in ("float8", "auto"))
    steps = [found["training.gpu.step_seconds_min"] for found in (narrow, wide)]
    assert steps[0].value / steps[1].value == pytest.approx(794.5 / 1979, rel=1e-3)
    assert narrow["training.gpu.mfu_max"].value == 1
    most = narrow["training.gpu.step_seconds_max"].why
    assert "Llama 3.1 8B on 128 H100, compiled, fp8: 485.3 of 1979 TFLOP/s" in most
    plan = trained_on("p5", LLAMA_8B, precision="float8")
    assert plan.training.peak_tflops == (("gpu", 1979.0),)
    found, reasons = expected(trained_on("p5", LLAMA_8B, precision="float32"))
    assert "training.gpu.step_seconds_min" not in found
    assert reasons["training.gpu"] == "duration of a step is unknown: the catalog has no float32 peak of h100"


@pytest.mark.parametrize(
    ("machine", "training", "text"),
    [
        ("p4d", {}, "pool gpu: a100 of p4d does not support it"),
        ("p5", {"layout": "tp", "tensor_parallel": 8}, "float8 scales whole tensors, and layout tp cuts them"),
    ],
)
def test_a_precision_that_cannot_be_had(
    machine: str, training: dict[str, Any], text: str, trained_on: Callable[..., Plan]
) -> None:
    with pytest.raises(DeclarationError) as error:
        trained_on(machine, LLAMA_8B, precision="float8", **training)
    [problem] = error.value.problems
    assert (problem.path, problem.message) == ("training.precision", text)
    assert problem.hint.startswith("write precision: bfloat16, or ")


def test_precisions_are_those_of_the_workload() -> None:
    assert get_args(Precision) == PRECISIONS


def test_heads_must_be_split_evenly(plan_of: Callable[..., Plan]) -> None:
    told = {"parameters": 7, "hidden": 96, "heads": 6}
    with pytest.raises(DeclarationError) as error:
        plan_of(pools=POOLS, training={"model": told, "layout": "tp", "tensor_parallel": 4})
    [problem] = error.value.problems
    assert (problem.path, problem.message) == (
        "training.tensor_parallel",
        "the model's 6 heads do not divide by it: 6 = 4 x 1 + 2",
    )


def test_a_simulated_machine_says_what_is_arithmetic(plan_of: Callable[..., Plan]) -> None:
    """Speed and failures are left out."""
    plan = plan_of(pools=POOLS, training={"model": LLAMA_8B})
    names = [each.name for each in plan.expectations if each.name.startswith("training.")]
    assert names == ["training.token_gflop", "training.checkpoint_gb", "training.gpu.memory_gib"]
    reasons = {each.path: each.why for each in plan.reasons}
    assert reasons["training.gpu"] == (
        "duration and failures are unknown: sim-h100 is simulated and has no speed of its own"
    )
    found = fit(plan)
    assert found is not None
    assert found.verdict == "unknown"
    assert found.text.endswith("sim-h100 is simulated, and its accelerators have no memory")


def test_a_real_machine(trained_on: Callable[..., Plan]) -> None:
    """128 H100, two samples each, as torchtitan ran them: 5,605 to 6,514 tokens a second on each."""
    found, reasons = expected(trained_on("p5", LLAMA_8B, batch=256))
    assert reasons["training.gpu"].endswith(" a run with one sample at once, for the declared layout does not fit")
    least, most = (found[f"training.gpu.tokens_per_second_{end}"].value / 128 for end in ("min", "max"))
    assert least < 5605 < 6514 < most
    assert found["training.gpu.step_seconds_min"].value < 2 * 8192 / 6514
    assert found["training.gpu.mfu_min"].value < 0.33 < 0.39 < found["training.gpu.mfu_max"].value
    days = 15e12 / 128 / 6000 / 86400
    assert found["training.gpu.days_min"].value < days < found["training.gpu.days_max"].value
    assert found["training.checkpoint_gb"].value == pytest.approx(96.36, abs=0.01)
    assert found["training.gpu.failure_hours_min"].value == pytest.approx(7.9 * 8)
    assert 0.9 < found["training.gpu.goodput_max"].value < 1
    seconds = found["training.gpu.checkpoint_seconds_min"].value
    assert seconds == pytest.approx(96.36 / (16 * 150), rel=1e-3)
    assert found["training.gpu.checkpoint_every_seconds_min"].value == pytest.approx(
        (2 * seconds * 7.9 * 8 * 3600) ** 0.5, rel=1e-3
    )


@pytest.mark.parametrize("batch", [16, 129, 256])
def test_a_step_has_the_samples_that_are_declared(batch: int, trained_on: Callable[..., Plan]) -> None:
    """Copies with fewer samples, or none, wait for the others, which is lost time."""
    found, _ = expected(trained_on("p5", LLAMA_8B, batch=batch))
    value = {name.removeprefix("training.gpu."): each.value for name, each in found.items()}
    for slow, fast in (("min", "max"), ("max", "min")):
        seconds = value[f"step_seconds_{slow}"]
        assert value[f"tokens_per_second_{fast}"] == pytest.approx(batch * 8192 / seconds, rel=1e-3)
        flops = batch * 8192 * found["training.token_gflop"].value * 1e9
        assert value[f"mfu_{fast}"] == pytest.approx(flops / seconds / (128 * 989e12), rel=2e-3)
        assert value[f"days_{slow}"] == pytest.approx(15e12 / (batch * 8192 / seconds) / 86400, rel=1e-3)


def test_checkpoints_go_through_clients(trained_on: Callable[..., Plan]) -> None:
    """96 GB pass through 16 nodes at 12.5 GB/s each over TCP, whatever GPUDirect Storage reaches."""
    lustre = {"name": "s", "kind": "fsx-lustre", "tier": "PERSISTENT_2 SSD", "capacity": 960_000, "mbps_per_tib": 1000}
    told = {**LLAMA_8B, "parameters": "8B"}
    found, _ = expected(trained_on("p5", told, storage=[{**lustre, "mount": "/s"}], batch=256))
    for name in ("checkpoint_seconds_min", "restart_read_seconds_min"):
        one = found[f"training.gpu.{name}"]
        assert one.value == pytest.approx(96 / 200)
        assert one.why.endswith("at 200 GB/s: 16 x 12.5 GB/s, throughput of a client of Amazon FSx for Lustre over TCP")
    narrow = {**lustre, "capacity": 9600, "mount": "/s"}
    found, _ = expected(trained_on("p5", told, storage=[narrow], batch=256))
    assert found["training.gpu.checkpoint_seconds_min"].value == pytest.approx(10)


def test_client_rate_may_be_unknown(trained_on: Callable[..., Plan]) -> None:
    """The limit of the storage still counts, and missing limits are reported."""
    lustre = {"name": "s", "kind": "azure-managed-lustre", "mbps_per_tib": 500, "capacity": 16384, "mount": "/s"}
    plan = trained_on("ND96isr_H100_v5", LLAMA_8B, storage=[lustre], batch=256)
    assert "neither the rate of the storage nor that of its clients" in expected(plan)[1]["training.gpu"]


def test_without_storage_nothing_is_saved(trained_on: Callable[..., Plan]) -> None:
    """The limit of a client does not mean that storage exists."""
    found, reasons = expected(trained_on("p5", LLAMA_8B, storage=[], batch=256))
    assert reasons["training.gpu"] == (
        "duration and interval of checkpoints, and goodput, are unknown: checkpoints are on no declared storage"
    )
    assert not [name for name in found if ("checkpoint_" in name and "training.gpu" in name) or "goodput" in name]
    assert "training.gpu.failure_hours_min" in found


def test_a_batch_that_nobody_writes_has_work_for_all(trained_on: Callable[..., Plan]) -> None:
    """The default of 16 is for small clusters: it would leave 112 of 128 accelerators without a sample."""
    told = {key: value for key, value in LLAMA_8B.items() if key != "tokens"}
    unwritten, written = trained_on("p5", told), trained_on("p5", told, batch=128)
    assert expected(unwritten)[0] == expected(written)[0]
    reasons = {each.path: each.why for each in unwritten.reasons}
    assert reasons["training.batch"] == (
        "the default, a sample for each of 128 copies of the declared model: 128 ranks of gpu"
    )
    assert unwritten.training.model.tokens == 100 * 128 * 8192
    assert trained_on("p5", told, layout="tp", tensor_parallel=4).training.batch == 32
    assert trained_on("p5", told, layout="tp", tensor_parallel=8).training.batch == 16
    assert trained_on("p5", {}).training.batch == 16


def test_ranks_without_a_sample_are_said(trained_on: Callable[..., Plan]) -> None:
    """A declared batch is used, and its waste is counted."""
    plans = [trained_on("p5", LLAMA_8B, **each) for each in ({}, {"batch": 128}, {"batch": 16})]
    found = [[each for each in rules(plan, None) if each.id == "training.idle"] for plan in plans]
    assert found[:2] == [[], []]
    [idle] = found[2]
    assert (idle.verdict, idle.severity, idle.place) == ("fail", "warning", "training.batch")
    assert idle.text == (
        "a step has 16 samples for 128 copies of the model on gpu: 112 of 128 ranks (87.5%) have none, and wait"
    )
    assert idle.hint.startswith("write training.batch: 128 or more, or leave it out, ")


def test_a_step_takes_as_long_as_its_slowest_copy(trained_on: Callable[..., Plan]) -> None:
    plans = [trained_on("p5", LLAMA_8B, batch=batch) for batch in (16, 129, 256)]
    one, more, two = (expected(plan)[0]["training.gpu.step_seconds_max"] for plan in plans)
    assert one.value < more.value == two.value
    assert one.why.startswith("8.192k tokens of a copy x 57.91 GFLOP ")


@pytest.mark.parametrize("ranks", [1, 4, 8])
def test_accelerators_without_a_rank_fail_too(ranks: int, trained_on: Callable[..., Plan]) -> None:
    """The failure of such an accelerator ends its node, and the node's ranks."""
    found, _ = expected(trained_on("p5", LLAMA_8B, batch=256, ranks=ranks))
    assert found["training.gpu.failure_hours_min"].value == pytest.approx(7.9 * 8)


def test_ranks_on_several_nodes_do_not_meet_within_one(trained_on: Callable[..., Plan]) -> None:
    """A node's only rank sends everything over its NIC, without NVLink."""
    found, _ = expected(trained_on("p5", LLAMA_8B, batch=16, ranks=1))
    # 2 x 2 bytes of each parameter are gathered and 4 scattered, at an eighth of what 8 accelerators reach: 417 GB/s
    assert found["training.gpu.step_seconds_min"].value == pytest.approx(8 * 8.03e9 * 15 / 16 / (417e9 / 8), rel=0.01)


@pytest.mark.parametrize(("machine", "least", "has"), [("p5", 8, "8 accelerators"), ("p5-4xlarge", 1, "1 accelerator")])
def test_no_more_ranks_than_accelerators(trained_on: Callable[..., Plan], machine: str, least: int, has: str) -> None:
    """More ranks would count accelerators that do not exist."""
    with pytest.raises(DeclarationError) as error:
        trained_on(machine, LLAMA_8B, ranks=64)
    [problem] = error.value.problems
    assert (problem.path, problem.message, problem.hint) == (
        "training.ranks",
        f"pool gpu: 64 ranks a node, and {machine} has {has}",
        f"write ranks: {least} or less, or leave it out for one with each accelerator",
    )


def test_simulated_accelerators_are_shared(plan_of: Callable[..., Plan]) -> None:
    assert plan_of(pools=POOLS, training={"ranks": 64}).training.ranks == (("gpu", 64),)


def test_every_number_has_its_arithmetic(trained_on: Callable[..., Plan]) -> None:
    for each in expected(trained_on("p5", LLAMA_8B, batch=256))[0].values():
        assert any(character.isdigit() for character in each.why), each


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        ("p6-b300", "upper limit of a step is unknown: no run of such a model on b300 in bfloat16 "),
        ("ND96isr_H100_v5", "duration and interval of checkpoints, and goodput, are unknown: the catalog has"),
    ],
)
def test_missing_facts_of_the_catalog_are_named(machine: str, words: str, trained_on: Callable[..., Plan]) -> None:
    """The value is left out, with the missing fact as its reason."""
    assert expected(trained_on(machine, LLAMA_8B, batch=256))[1]["training.gpu"].startswith(words)


def test_it_fits(trained_on: Callable[..., Plan]) -> None:
    found = fit(trained_on("p5", LLAMA_8B, batch=128))
    assert found is not None
    assert (found.verdict, found.hint) == ("pass", "")
    assert found.text.startswith("fsdp on 128 ranks of gpu, 1 sample at once, a rank needs ")


@pytest.mark.parametrize(
    ("training", "hint"),
    [
        ({"layout": "ddp", "batch": 128}, "write layout: fsdp: "),
        ({"layout": "ddp", "batch": 256}, "write layout: fsdp; submit runs with `--set micro=1`, so that they work on"),
        ({"layout": "ddp", "batch": 16}, "write layout: tp and tensor_parallel: 8: "),
    ],
)
def test_it_does_not_fit(training: dict[str, Any], hint: str, trained_on: Callable[..., Plan]) -> None:
    """The text shows the arithmetic and the simplest remedy."""
    found = fit(trained_on("p5", LLAMA_8B, **training))
    assert found is not None
    assert (found.verdict, found.severity) == ("fail", "error")
    assert "and it may have 90% of 80 GiB of h100: states " in found.text
    assert found.hint.startswith(hint)
    assert found.hint.endswith(" GiB a rank")


@pytest.mark.parametrize("batch", [257, 512])
def test_one_sample_at_once_would_fit(batch: int, trained_on: Callable[..., Plan]) -> None:
    """A run can choose that, and it is no error of the declaration."""
    found = fit(trained_on("p5", LLAMA_8B, batch=batch))
    assert found is not None
    assert (found.verdict, found.severity) == ("fail", "warning")
    assert found.hint.startswith("submit runs with `--set micro=1`, so that they work on one sample at once: ")


@pytest.mark.parametrize(
    ("sequence", "severity", "hint"),
    [
        (16384, "error", "write layout: tp and tensor_parallel: "),
        (32768, "warning", "tp 4, the plainest that fits, needs "),
    ],
)
def test_recomputed_layouts_would_fit(sequence: int, severity: str, hint: str, trained_on: Callable[..., Plan]) -> None:
    """A training of the user may recompute activations; it is an error if a bundled layout fits without."""
    found = fit(trained_on("p5", {**LLAMA_8B, "sequence": sequence}, batch=128))
    assert found is not None
    assert (found.verdict, found.severity) == ("fail", severity)
    assert found.hint.startswith(hint)


def test_long_samples_are_split(trained_on: Callable[..., Plan]) -> None:
    """The bundled training has no such layout; a training of the user may."""
    found = fit(trained_on("p5", {**LLAMA_8B, "sequence": 1 << 20}, batch=8))
    assert found is not None
    assert (found.verdict, found.severity) == ("fail", "error")
    assert found.hint.startswith("cp 128, the plainest that fits, needs ")
    assert found.hint.endswith(" GiB a rank and another framework: no layout of the bundled training fits")


def test_where_one_sample_cannot_be_told_it_is_no_error(trained_on: Callable[..., Plan]) -> None:
    told = {"parameters": "8B", "layers": 32, "hidden": 4096, "vocabulary": 128256, "sequence": 8192, "gated": False}
    found = fit(trained_on("p5", told, batch=4096))
    assert found is not None
    assert (found.verdict, found.severity) == ("fail", "warning")


@pytest.mark.parametrize(
    ("told", "batch", "mark"),
    [
        (
            {"sequence": 16384},
            128,
            "as tp 2 (sequences whole), with one sample at once",
        ),
        ({"sequence": 32768}, 128, "as tp 4, with one sample at once"),
        ({}, 512, "with one sample at once"),
        ({}, 128, ""),
    ],
)
def test_speed_is_that_of_a_layout_that_fits(
    told: Mapping[str, Any], batch: int, mark: str, trained_on: Callable[..., Plan]
) -> None:
    """An impossible layout has no speed: the estimate uses the suggested one."""
    found, reasons = expected(trained_on("p5", {**LLAMA_8B, **told}, batch=batch))
    said = f"speed and goodput are those of a run {mark}, for the declared layout does not fit"
    assert (reasons["training.gpu"] if mark else said) == said
    assert found["training.gpu.memory_gib"].why.startswith("fsdp on 128 ranks")
    assert "at once" not in found["training.gpu.failure_hours_min"].why
    assert found["training.gpu.step_seconds_min"].why.startswith(mark)
    assert found["training.gpu.goodput_max"].why.startswith(mark)
    assert ("split layers" in found["training.gpu.step_seconds_max"].why) is mark.startswith("as tp")


def test_model_without_a_layout_has_no_speed(trained_on: Callable[..., Plan]) -> None:
    found, reasons = expected(trained_on("p5", {**LLAMA_8B, "layers": 10000, "hidden": 65536, "ffn": 262144}))
    assert "training.gpu.step_seconds_min" not in found
    assert reasons["training.gpu"].endswith("no layout of it is known to fit on these nodes")


def test_models_that_fit_nowhere(trained_on: Callable[..., Plan]) -> None:
    found = fit(trained_on("p5", {"parameters": "10T"}))
    assert found is not None
    assert (found.verdict, found.severity, found.hint) == (
        "fail",
        "error",
        "no layout is known to fit on these nodes: take more of them, or accelerators with more memory",
    )


def test_without_a_shape_it_cannot_be_told(trained_on: Callable[..., Plan]) -> None:
    """The model states alone may already be too large."""
    found = fit(trained_on("p5", {"parameters": "8B"}))
    assert found is not None
    assert found.verdict == "unknown"
    assert found.hint == "write layers, hidden, heads, vocabulary and sequence of the model"
    assert found.text.startswith(
        "fsdp on 128 ranks of gpu, 1 sample at once, a rank needs 0.9313 GiB or more plus unknown parts, "
    )

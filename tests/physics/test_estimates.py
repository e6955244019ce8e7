"""Estimates of runs, compared with published ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from stampworks import catalog
from stampworks.physics.checkpoints import COPIED, checkpoint_bytes
from stampworks.physics.estimates import ConflictError, Estimate, Question, estimate
from stampworks.physics.transformer import Transformer

from tests.physics.test_transformer import LLAMA_405B

P5 = catalog.machine_names()["p5"]
A100_TFLOPS, H100_TFLOPS = 312, 989


def asked(parameters: float, tokens: float | None = None, **more: object) -> Estimate:
    return estimate(Question(Transformer(int(parameters)), int(tokens) if tokens else None, **more))  # type: ignore[arg-type]


def test_llama_3_405b() -> None:
    """15.6T tokens, 3.8e25 FLOPs, 16,384 H100 at 400 TFLOP/s (arXiv 2407.21783v3, read 2026-11-22): 67 days at the
    full size."""
    answer = asked(405e9, 15.6e12, gpus=16384, tflops=400.0)
    assert answer.flops == pytest.approx(3.8e25, rel=0.01)
    assert answer.wall_days == pytest.approx(67, abs=0.2)
    assert answer.gpu_days == pytest.approx(67 * 16384, rel=0.01)


def test_gpt_3() -> None:
    """3,640 petaflop/s-days (arXiv 2005.14165, table D.1, read 2026-11-22)."""
    assert (asked(174.6e9, 300e9, tflops=1000.0).gpu_days or 0) == pytest.approx(3640, rel=0.01)


@pytest.mark.parametrize(
    ("parameters", "tokens", "gpu_hours", "peak", "mfu"),
    [
        # Llama 2 on A100, Llama 3.1 on H100 (their model cards, llama-models a9c89c47, read 2026-11-22)
        (6.74e9, 2e12, 184_320, A100_TFLOPS, (0.35, 0.45)), (13.0e9, 2e12, 368_640, A100_TFLOPS, (0.35, 0.45)),
        (70e9, 2e12, 1_720_320, A100_TFLOPS, (0.4, 0.48)), (405e9, 15.6e12, 30.84e6, H100_TFLOPS, (0.3, 0.4)),
        (70e9, 15e12, 7.0e6, H100_TFLOPS, (0.2, 0.3)),
    ],
)  # fmt: skip
def test_published_gpu_hours(
    parameters: float, tokens: float, gpu_hours: float, peak: float, mfu: tuple[float, float]
) -> None:
    """Estimates with the lowest and highest plausible share enclose the published value."""
    least, most = (asked(parameters, tokens, tflops=share * peak).gpu_days or 0 for share in reversed(mfu))
    assert least < gpu_hours / 24 < most


def test_a_published_number_of_hours_that_does_not_tell_the_speed() -> None:
    """Llama 3.1 8B has 1.46M hours of H100 (its model card, read 2026-11-22), which would be 14 % of the peak; they
    reach 33 to 39 % with that model. The hours have more in them than 15T tokens: nothing can be planned by them."""
    assert asked(8.03e9, 15e12, tflops=0.33 * H100_TFLOPS).gpu_days == pytest.approx(0.42 * 1.46e6 / 24, rel=0.01)


@pytest.mark.parametrize(("active", "thin", "said"), [(37e9, 4.0, True), (37e9, 1.0, False), (671e9, 4.0, False)])
def test_a_thin_fabric_is_said_of_models_with_experts(active: float, thin: float, said: bool) -> None:
    """The slowdown is not published, so that it is a remark without a number."""
    model = Transformer(671_000_000_000, active=int(active))
    found = estimate(Question(model, 10**12, gpus=2048, machine=P5, oversubscription=thin)).assumptions
    lines = [each for each in found if each.startswith("fabric: ")]
    assert [line.split("; ")[1] for line in lines] == (
        [
            "where experts lie on other leaves, an all-to-all between them has 1/4 of the NICs' bandwidth, and steps "
            "are longer"
        ]
        if said
        else []
    )


def test_deepseek_v3() -> None:
    """37B of 671B parameters are active, 14.8T tokens in 2.664M hours of H800 (9b4e9788, README, read 2026-11-22),
    which compute like H100: the hours lie between the ends for published models with experts. Weights, moments and
    memory of skipped experts count completely."""
    model = Transformer(671_000_000_000, active=37_000_000_000)
    answer = estimate(Question(model, 14_800_000_000_000, 2048, P5, precision="float8"))
    assert answer.gpu_days_range is not None
    assert answer.gpu_days_range[0] < 2.664e6 / 24 < answer.gpu_days_range[1]
    assert answer.checkpoint_bytes == 12 * 671_000_000_000
    assert answer.layouts[0].states.value == 16 * 671_000_000_000


def test_published_tokens_flops_and_hours_agree() -> None:
    """250 GFLOP a token at 385 TFLOP/s (arXiv 2505.09343, tables 2 and 4, read 2026-11-22) are DeepSeek-V3's 2.664M
    hours, and 272.80B tokens a day of 2,048 of them."""
    a_token = Transformer(int(250e9 / 6))
    days = estimate(Question(a_token, 14_800_000_000_000, tflops=385.0)).gpu_days or 0
    assert days * 24 == pytest.approx(2.664e6, rel=5e-3)
    assert 2048 * 14.8e12 / days == pytest.approx(272.80e9, rel=5e-3)


def test_precision() -> None:
    """The peak is that of its arithmetic, and so are the runs that were published."""
    narrow, wide = (asked(70e9, 15e12, machine=P5, mfu=0.4, precision=each) for each in ("float8", "bfloat16"))
    assert (narrow.gpu_days or 0) == pytest.approx((wide.gpu_days or 0) * 989 / 1979)
    assert any(
        "of 1979 TFLOP/s dense fp8 of h100" in each
        for each in asked(70e9, 15e12, machine=P5, precision="float8").assumptions
    )
    older = asked(70e9, 15e12, machine=catalog.machine_names()["p4d"], precision="float8")
    assert "rate: unknown, for a100 has no fp8" in older.assumptions


def test_the_only_published_run_is_no_range() -> None:
    answer = estimate(Question(Transformer(10**11, active=10**10), 10**12, machine=P5))
    assert answer.gpu_days_range is None
    assert any("the only published run in bfloat16, of models with experts, on h100" in a for a in answer.assumptions)


def test_long_samples_are_split() -> None:
    """Llama 3 405B at 131,072 tokens, on 80 GiB (arXiv 2407.21783v3, table 4, read 2026-11-22): among 16 ranks."""
    answer = estimate(Question(replace(LLAMA_405B, sequence=131072), gpus=16384, machine=P5))
    assert answer.suggested is not None
    assert answer.suggested.layout.name == "tp 8, cp 16"
    assert not [
        each for each in estimate(Question(LLAMA_405B, gpus=16384, machine=P5)).layouts if each.layout.context > 1
    ]


def test_money() -> None:
    """Money appears only with a price."""
    answer = asked(70e9, 1.4e12, machine=P5, mfu=0.4, usd_per_gpu_hour=2.0)
    assert answer.usd == pytest.approx((answer.gpu_days or 0) * 48)
    unpriced = asked(70e9, 1.4e12, machine=P5, mfu=0.4)
    assert unpriced.usd is None
    assert "usd: unknown, for no price is given or published" in unpriced.assumptions


def test_checkpoints() -> None:
    """A parameter takes 12 bytes in a checkpoint of the bundled training. BLOOM's 2.3 TB are 14 bytes per parameter in
    TiB, with weights in bfloat16 as well, as are the 329 GB of its weights (bigscience 9e64edec, tr11-176B-ml, read
    2026-11-22)."""
    one, three = asked(8_030_261_248), asked(8_030_261_248, checkpoints=3)
    assert one.checkpoint_bytes == 12 * 8_030_261_248
    assert three.checkpoint_bytes == 3 * one.checkpoint_bytes == 3 * three.checkpoint_bytes_each
    assert checkpoint_bytes(176_247_271_424, COPIED).value / 2**40 == pytest.approx(2.3, abs=0.06)
    assert round(2 * 176_247_271_424 / 2**30) == 328


def test_missing_input_is_unknown() -> None:
    answer = asked(7e9)
    assert (answer.gpu_days, answer.wall_days, answer.usd, answer.flops) == (None, None, None, None)
    assert answer.assumptions[:3] == (
        "FLOPs: unknown, for the number of training tokens is not given",
        "rate: unknown, for neither FLOPs a second nor a machine were said",
        "days: unknown, for the number of accelerators is not given",
    )


def test_a_machine_without_a_share_takes_that_of_published_runs() -> None:
    """The median of published runs is used, with their range."""
    answer = asked(70e9, 15e12, gpus=1024, machine=P5)
    assert answer.gpu_days_range is not None
    assert answer.gpu_days_range[0] < (answer.gpu_days or 0) < answer.gpu_days_range[1]
    assert any(
        "the median of 11 published runs in bfloat16, of dense models, on h100" in each for each in answer.assumptions
    )


def test_a_simulated_machine_says_nothing() -> None:
    answer = asked(70e9, 15e12, gpus=32, machine=catalog.machines()["sim-h100"], mfu=0.4)
    assert answer.gpu_days is None
    assert "rate: unknown, for sim-h100 is simulated and has no speed of its own" in answer.assumptions
    assert answer.layouts == ()


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"mfu": 0.4, "tflops": 400.0, "machine": P5}, "keep one of --mfu and --tflops-per-gpu"),
        ({"mfu": 0.4}, "--mfu is a share of a peak, and no machine says which"),
        ({"tflops": 1200.0, "machine": P5}, "1200 TFLOP/s are asked of p5, which has 989 TFLOP/s"),
        (
            {"tflops": 2000.0, "machine": P5, "precision": "float8"},
            "2000 TFLOP/s are asked of p5, which has 1979 TFLOP/s dense fp8",
        ),
    ],
)
def test_two_facts_that_conflict(more: dict[str, object], text: str) -> None:
    """The error names both facts and the remedy."""
    with pytest.raises(ConflictError) as error:
        asked(7e9, 1e12, **more)
    assert text in str(error.value)
    assert "\n  hint: " in str(error.value)


def test_part_of_a_node() -> None:
    assert (
        "nodes: 12 accelerators take 2 of p5, the last not whole" in asked(7e9, 1e12, gpus=12, machine=P5).assumptions
    )

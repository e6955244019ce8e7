"""Parameters of models and costs of their tokens, compared with published figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from stampworks.physics.transformer import Transformer, counted, flops_per_token, layer_parameters, usual_ffn

LLAMA_8B = Transformer(8030261248, 32, 4096, 32, 8, 14336, 128256, 8192)
LLAMA_70B = Transformer(70553706496, 80, 8192, 64, 8, 28672, 128256, 8192)
LLAMA_405B = Transformer(405853388800, 126, 16384, 128, 8, 53248, 128256, 8192)
GPT_3 = Transformer(174_600_000_000, 96, 12288, 96, 96, 4 * 12288, 50257, 2048, gated=False, tied=True)


@pytest.mark.parametrize("model", [LLAMA_8B, LLAMA_70B, LLAMA_405B])
def test_a_shape_has_its_parameters(model: Transformer) -> None:
    """Shapes are those of arXiv 2407.21783v3, table 3; counts match the published weights exactly."""
    bound = counted(model)
    assert bound is not None
    assert bound.value == model.parameters


def test_a_shape_without_gates() -> None:
    """GPT-3 (arXiv 2005.14165, table D.1: 174,600M), whose biases and positions are not counted."""
    bound = counted(GPT_3)
    assert bound is not None
    assert bound.value == pytest.approx(174.6e9, rel=1e-3)


def test_a_shape_that_is_not_all_there_has_no_count() -> None:
    assert counted(replace(LLAMA_8B, vocabulary=None)) is None
    assert counted(Transformer(8)) is None


def test_flops_of_a_token() -> None:
    """Llama 3.1 8B takes 57.9 GFLOP at 8,192 tokens: 6 x the multiplying parameters, and full attention."""
    flops = flops_per_token(LLAMA_8B)
    assert flops.value == 6 * (8030261248 - 128256 * 4096) + 12 * 32 * 4096 * 8192
    assert flops.value / 1e9 == pytest.approx(57.9, abs=0.05)
    assert flops.why == (
        "6 x (8.03B parameters - 525.3M of the input embedding) + 12 x 32 layers x 4096 x 8192 tokens of attention, "
        "counted in full"
    )


def test_flops_of_a_token_without_a_shape() -> None:
    """The estimate is 6 N, and a remark says what it omits."""
    flops = flops_per_token(Transformer(70_000_000_000))
    assert flops.value == 420e9
    assert flops.why == "6 x 70B parameters; attention is left out, for the model's shape is not known"


@pytest.mark.parametrize(
    ("parameters", "tokens", "published", "off"),
    [
        # Llama 3 405B, arXiv 2407.21783v3, and GPT-3, arXiv 2005.14165, table D.1, both read 2026-11-22
        (405e9, 15.6e12, 3.8e25, 0.01), (174.6e9, 300e9, 3.14e23, 0.01),
        # Chinchilla, arXiv 2203.15556, table 3, read 2026-11-22
        (0.4e9, 8.0e9, 1.92e19, 0.01), (1e9, 20.2e9, 1.21e20, 0.01), (10e9, 205.1e9, 1.23e22, 0.01),
        (175e9, 3.7e12, 3.85e24, 0.015), (280e9, 5.9e12, 9.90e24, 0.01), (520e9, 11.0e12, 3.43e25, 0.01),
        (1e12, 21.2e12, 1.27e26, 0.01), (10e12, 216.2e12, 1.30e28, 0.01),
    ],
)  # fmt: skip
def test_published_runs(parameters: float, tokens: float, published: float, off: float) -> None:
    """FLOPs of whole runs as their papers count them: 6 N D."""
    assert flops_per_token(Transformer(int(parameters))).value * tokens == pytest.approx(published, rel=off)


def test_a_published_row_that_is_wrong() -> None:
    """Chinchilla's table 3 states 5.76e23 FLOPs for 67B parameters and 1.5T tokens, which take 6.03e23: its tokens are
    rounded up from 1.433T, and other rows have three digits."""
    flops = flops_per_token(Transformer(67_000_000_000)).value
    assert flops * 1.5e12 == pytest.approx(6.03e23, rel=1e-3)
    assert 5.76e23 / flops == pytest.approx(1.433e12, rel=1e-3)


def gpt(layers: int, hidden: int, vocabulary: int = 51200) -> Transformer:
    """Return a model of Megatron: two matrices per layer, one table of vocabulary, 2,048 tokens."""
    shape = Transformer(0, layers, hidden, 1, 1, 4 * hidden, vocabulary, 2048, gated=False, tied=True)
    bound = counted(shape)
    assert bound is not None
    return replace(shape, parameters=int(bound.value))


@pytest.mark.parametrize(
    ("model", "samples", "seconds", "accelerators", "mfu"),
    [
        (gpt(48, 6144), 4, 1.10, 8, 0.415), (gpt(96, 12288), 64, 13.75, 64, 0.514),
        (gpt(105, 20480), 280, 37.83, 280, 0.560), (gpt(128, 25600), 512, 71.49, 512, 0.563),
    ],
)  # fmt: skip
def test_shares_follow_from_seconds(
    model: Transformer, samples: int, seconds: float, accelerators: int, mfu: float
) -> None:
    """arXiv 2205.05198, tables 3 and 5 (A100, of 312 TFLOP/s), read 2026-11-22: there attention counts in full, too."""
    tokens = samples * 2048 / seconds / accelerators
    assert flops_per_token(model).value * tokens / 312e12 == pytest.approx(mfu, abs=2e-3)


@pytest.mark.parametrize(
    ("model", "tokens", "mfu"), [(LLAMA_8B, 2904, 0.568), (LLAMA_8B, 2973, 0.582), (LLAMA_70B, 331, 0.517)]
)
def test_a_published_share_that_counts_what_does_not_multiply(model: Transformer, tokens: int, mfu: float) -> None:
    """torchtitan's shares of 2024-04 (1ea476e9, docs/performance.md, 64 A100, read 2026-11-22) include the input
    embedding. The count here excludes it, as later versions do, and is 1 to 6 % lower."""
    ours = flops_per_token(model).value
    theirs = ours + 6 * 128256 * (model.hidden or 0)
    assert theirs * tokens / 312e12 == pytest.approx(mfu, abs=5e-4)
    assert 0.94 < ours / theirs < 0.99


def test_the_bundled_model() -> None:
    """With usual widths, the shape has the parameters that tests/training counts in the model."""
    shape = Transformer(0, 4, 256, 4, 4, usual_ffn(256, gated=True), 4096, 64)
    bound = counted(shape)
    assert bound is not None
    assert bound.value == BUNDLED


BUNDLED = 5_310_720


def test_usual_widths() -> None:
    assert usual_ffn(128, gated=True) == 352
    assert usual_ffn(4096, gated=False) == 16384


MIXTRAL = Transformer(46_702_792_704, 32, 4096, 32, 8, 14336, 32000, 32768, experts=8, experts_per_token=2)
LATENT: dict[str, Any] = {"head": 192, "value_head": 128, "kv_rank": 512, "rotary": 64}
DEEPSEEK_V3 = Transformer(
    *(671_026_820_096, 61, 7168, 128, 128, 2048, 129280, 4096),
    experts=257, experts_per_token=9, dense_layers=3, dense_ffn=18432, query_rank=1536, active=37_552_698_368, **LATENT,
)  # fmt: skip
DEEPSEEK_V2 = Transformer(
    *(235_742_039_040, 60, 5120, 128, 128, 1536, 102400, 4096),
    experts=162, experts_per_token=8, dense_layers=1, dense_ffn=12288, query_rank=1536, active=21_376_404_480, **LATENT,
)  # fmt: skip
DEEPSEEK_V2_LITE = Transformer(
    *(15_706_590_720, 27, 2048, 16, 16, 1408, 102400, 4096),
    experts=66, experts_per_token=8, dense_layers=1, dense_ffn=10944, **LATENT,
)  # fmt: skip
QWEN3_235B = Transformer(
    *(235_093_610_496, 94, 4096, 64, 4, 1536, 151936, 4096), experts=128, experts_per_token=8, head=128
)
QWEN3_30B = Transformer(
    *(30_532_110_336, 48, 2048, 32, 4, 768, 151936, 4096), experts=128, experts_per_token=8, head=128
)


def test_a_shape_with_experts_has_its_parameters() -> None:
    """Mixtral 8x7B has 46.7B parameters, 12.9B of them active, as its makers state; awsome-distributed-training counts
    46,702,792,704. Eight times the 7B of its name is not the count. Read 2026-11-22."""
    bounds = counted(MIXTRAL), counted(MIXTRAL, MIXTRAL.experts_per_token)
    assert [bound.value for bound in bounds if bound] == [46_702_792_704, pytest.approx(12.9e9, rel=2e-3)]


@pytest.mark.parametrize(
    ("model", "whole", "active"),
    [
        # DeepSeek-V3 9b4e9788, config_671B.json, config_236B.json, config_16B.json; counts of README_WEIGHTS.md (36.6B
        # with the last layer alone) and of the READMEs of V2 (21B, 2.4B)
        (DEEPSEEK_V3, 671e9, 36.6e9), (DEEPSEEK_V2, 236e9, 20.85e9), (DEEPSEEK_V2_LITE, 15.7e9, 2.45e9),
        # config.json of Qwen3-235B-A22B and Qwen3-30B-A3B; counts of their model cards: 22B, 3.3B with the first table
        (QWEN3_235B, 235e9, 22e9 - 0.62e9), (QWEN3_30B, 30.5e9, 3.3e9 - 0.31e9),
    ],
)  # fmt: skip
def test_heads_that_are_not_as_wide_as_a_layer(model: Transformer, whole: float, active: float) -> None:
    """Latent attention and wider heads match the published figures within rounding. Read 2026-11-22."""
    bounds = counted(model), counted(model, model.experts_per_token)
    all_of_them, used = (bound.value for bound in bounds if bound)
    assert all_of_them == model.parameters == pytest.approx(whole, rel=2e-3)
    assert used - (model.vocabulary or 0) * (model.hidden or 0) == pytest.approx(active, rel=2e-2)


def test_latent_attention_to_the_last_parameter() -> None:
    """A layer of DeepSeek-V3 without its experts: 187,107,328 of attention, as its modules are wide, and two norms."""
    layer = layer_parameters(replace(DEEPSEEK_V3, experts=1), 0)
    down, up = 7168 * 1536 + 1536 + 7168 * (512 + 64) + 512, 1536 * 128 * 192 + 512 * 128 * (128 + 128)
    assert layer == down + up + 128 * 128 * 7168 + 2 * 7168 == 187_107_328 + 2 * 7168


@pytest.mark.parametrize(("model", "gflop"), [(DEEPSEEK_V3, 250), (DEEPSEEK_V2, 155)])
def test_flops_of_a_token_are_those_of_its_experts(model: Transformer, gflop: float) -> None:
    """At a length of 4,096 tokens, a token sees half of them in the source, and all in this count (arXiv 2505.09343,
    table 2, read 2026-11-22). All experts would take ten times as much."""
    flops, half = flops_per_token(model), 6 * (model.layers or 0) * 128 * (192 + 128) // 2 * 4096
    assert (flops.value - half) / 1e9 == pytest.approx(gflop, rel=3e-3)
    assert "layers x 20480 x 4096 tokens of attention" in flops.why
    assert flops_per_token(replace(model, active=None)).value > 7 * flops.value


def test_a_published_table_of_which_a_row_cannot_be_right() -> None:
    """The same table states 394 GFLOP for Qwen 72B, whose weights alone take 432."""
    assert flops_per_token(Transformer(72_000_000_000)).value / 1e9 == pytest.approx(432)

"""Memory of training, compared with published tables."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stampworks.physics import memory
from stampworks.physics.checkpoints import COPIED, OURS
from stampworks.physics.memory import GIB
from stampworks.physics.transformer import Transformer

from tests.physics.test_transformer import LLAMA_8B, LLAMA_70B, LLAMA_405B, MIXTRAL

ZERO = {
    1: (120, 120, 120, 2048, 2048, 2048, 16000, 16000, 16000),
    4: (52.5, 41.3, 30, 896, 704, 512, 7000, 5500, 4000),
    16: (35.6, 21.6, 7.5, 608, 368, 128, 4750, 2875, 1000),
    64: (31.4, 16.6, 1.88, 536, 284, 32, 4187, 2218, 250),
    256: (30.4, 15.4, 0.47, 518, 263, 8, 4046, 2054, 62.5),
    1024: (30.1, 15.1, 0.12, 513, 257, 2, 4011, 2013, 15.6),
}
"""GB of a rank by their number, of 7.5B, 128B and 1T parameters, each in stages 1, 2 and 3: the whole of table 1 of the
ZeRO paper (arXiv 1910.02054, read 2026-11-22), which rounds some to the nearest and some down."""


@pytest.mark.parametrize("ranks", ZERO)
def test_the_table_of_the_zero_paper(ranks: int) -> None:
    cells = ((parameters, stage) for parameters in (7_500_000_000, 128 * 10**9, 10**12) for stage in (1, 2, 3))
    for (parameters, stage), published_gb in zip(cells, ZERO[ranks], strict=True):
        last_digit = 10.0 ** -len(str(published_gb).partition(".")[2])
        layout = memory.zero(ranks, stage)  # type: ignore[arg-type]
        found = memory.states(parameters, layout, COPIED).value / 1e9
        assert published_gb - last_digit / 2 <= found < published_gb + last_digit


def test_savings_of_more_ranks() -> None:
    """torchtitan b5bcd76c, tables 1 and 3, read 2026-11-22: compiled 77.0 GiB on 8 H100 and 62.0 on 128, with 2 samples
    each."""
    eight, many = (memory.states(LLAMA_8B.parameters, memory.zero(ranks, 3)).value / GIB for ranks in (8, 128))
    assert eight - many == pytest.approx(77.0 - 62.0, rel=0.1)


def test_activations_lie_around_what_was_published() -> None:
    """The same 62.0 GiB keep some activations and compute others again: more than all again, less than none."""
    least, most = (
        memory.need(LLAMA_8B, memory.zero(128, 3), 2, recomputed=recomputed).least_bytes / GIB
        for recomputed in (True, False)
    )
    assert least < 62.0 < most
    assert least > 62.0 / 3


def test_parts_of_samples_take_what_was_published() -> None:
    """Llama 3.1 8B on 8 H100, with activations computed again: 83.9, 84.2, 84.0 and 84.5 GiB of 32,768 tokens on a
    rank, and of 2, 4 and 8 times as many among 2, 4 and 8 (torchtitan b5bcd76c, table 2, read 2026-11-22)."""
    needs = [
        memory.need(replace(LLAMA_8B, sequence=32768 * part), memory.tp(8, 1, 1, part), 1, recomputed=True)
        for part in (1, 2, 4, 8)
    ]
    assert [each.layout.copies for each in needs] == [8, 4, 2, 1]
    assert len({each.least_bytes for each in needs}) == 1
    assert 84 * 0.7 < needs[0].least_bytes / GIB < 84


def test_a_published_layout_of_long_samples_fits() -> None:
    """Llama 3 405B at 131,072 tokens on 80 GiB fits with tp 8, pp 16 and each sample split over 16 ranks (arXiv
    2407.21783v3, table 4, read 2026-11-22). Without the split it does not fit. The suggestion for the same number uses
    such a split."""
    model = replace(LLAMA_405B, sequence=131072)
    theirs, unsplit = (
        memory.fits(memory.need(model, memory.tp(16384, 8, 16, part), 1, recomputed=True), 80) for part in (16, 1)
    )
    assert (theirs, unsplit) == (True, False)
    found = memory.suggested(model, [*memory.plainest(16384, 8, 128, 126, 131072)], 80, batch=128)
    assert found is not None
    assert (found.layout.name, found.layout.copies) == ("tp 8, cp 16", 128)


@pytest.mark.parametrize("recomputed", [False, True])
def test_a_published_layout_fits(recomputed: bool) -> None:
    """Llama 3 405B on 16,384 H100 of 80 GiB at 8,192 tokens: tp 8, cp 1, pp 16, and no activations computed again
    (arXiv 2407.21783v3, table 4 and section 3.3.2, read 2026-11-22). With whole sequences it does not."""
    needed = memory.need(LLAMA_405B, memory.tp(16384, 8, 16), 1, recomputed=recomputed)
    assert memory.fits(needed, 80)
    unsplit = memory.need(LLAMA_405B, memory.whole(memory.tp(16384, 8, 16)), 1)
    assert memory.fits(unsplit, 80) is False


def test_parallel_sequences_split_all_that_is_kept() -> None:
    """34 bytes of a width and token / tensor (arXiv 2205.05198, table 2, read 2026-11-22); 10 + 24 / tensor without."""
    shape = Transformer(
        1, layers=1, hidden=1000, heads=10, kv_heads=10, ffn=4000, vocabulary=0, sequence=1, gated=False
    )
    split = memory.tp(4, 4, 1)
    found = [
        memory.activations(replace(shape, vocabulary=4), each, 1, False).value for each in (split, memory.whole(split))
    ]
    assert found == [34 * 1000 / 4 + 8, 10 * 1000 + 24 * 1000 / 4 + 32]


def test_short_samples_are_not_split() -> None:
    assert not [each for each in memory.plainest(512, 8, 32, 32, 8192) if each.context > 1]
    assert {each.context for each in memory.plainest(512, 8, 32, 32, 40000)} == {1, 2, 4}


def test_experts_are_kept_where_no_token_passes() -> None:
    """All of a layer's experts are gathered; activations of a token exist only in its active experts."""
    dense = replace(MIXTRAL, experts=1, experts_per_token=1)
    some, all_of_them = (replace(MIXTRAL, experts_per_token=each) for each in (2, 8))
    layout = memory.zero(64, 3)
    layer = 3 * 4096 * 14336
    assert memory.gathered(MIXTRAL, layout).value - memory.gathered(dense, layout).value == pytest.approx(
        2 * 2 * 7 * layer, rel=1e-4
    )
    kept = [memory.activations(each, layout, 1, False).value for each in (dense, some, all_of_them)]
    assert kept == sorted(kept)
    assert memory.states(MIXTRAL.parameters, layout).value == 16 * 46_702_792_704 / 64


def test_states_are_said_to_the_last_byte() -> None:
    states = memory.states(8030261248, memory.tp(64, 8))
    assert states.value == 8030261248 * 16 / 64
    assert states.why == "8.03B parameters / 8 x (4/8 + 4/8 + 8/8) bytes of weights, gradients, optimizer"


@pytest.mark.parametrize(
    ("model", "ranks", "batch", "suggested"),
    [
        (replace(LLAMA_8B, layers=4, parameters=2_000_000_000), 8, None, "ddp"),
        (LLAMA_8B, 64, None, "fsdp"),
        (LLAMA_8B, 8, None, "fsdp"),
        (LLAMA_405B, 16384, None, "tp 8"),
        (LLAMA_405B, 16384, 2048, "tp 8"),
    ],
)
def test_the_plainest_layout_that_fits(model: Transformer, ranks: int, batch: int | None, suggested: str) -> None:
    """Accelerators have 80 GiB: no simpler layout fits, or its copies have no work."""
    layouts = [*memory.plainest(ranks, 8, model.heads, model.layers)]
    found = memory.suggested(model, layouts, 80, batch)
    assert found is not None
    assert found.layout.name == suggested
    for layout in layouts:
        if layout == found.layout:
            break
        idle = batch is not None and layout.copies > batch
        assert idle or memory.fits(memory.need(model, layout, 1, recomputed=found.recomputed), 80) is False


def test_models_that_fit_nowhere() -> None:
    assert memory.suggested(LLAMA_405B, [*memory.plainest(8, 8)], 80) is None


def test_without_a_shape_nobody_can_tell() -> None:
    """The model states alone may already be too large."""
    model = Transformer(70_000_000_000)
    assert memory.fits(memory.need(model, memory.ddp(8), 1), 80) is False
    needed = memory.need(model, memory.zero(512, 3), 1)
    assert memory.fits(needed, 80) is None
    assert needed.why.endswith("at work and activations unknown, for the model's shape is not said")
    assert memory.suggested(model, [*memory.plainest(512, 8)], 80) is None


def test_degrees_must_divide() -> None:
    with pytest.raises(ValueError, match=r"12 ranks do not divide by tensor 8 x context 1 x pipeline 1: 1\.5"):
        memory.tp(12, 8)


@given(st.integers(1, 6), st.integers(0, 7), st.booleans())
def test_splitting_more_never_keeps_more(nodes: int, power: int, recomputed: bool) -> None:
    """Splitting reduces states; recomputation never keeps more than one additional layer."""
    ranks = 2**power * nodes
    sizes = [memory.states(LLAMA_70B.parameters, each).value for each in memory.plainest(ranks, 8)]
    first = sizes[:4]
    assert first == sorted(first, reverse=True)
    assert min(sizes) == pytest.approx(LLAMA_70B.parameters * OURS.trained / ranks)
    layout = memory.zero(ranks, 3)
    kept, again = (memory.activations(LLAMA_70B, layout, 1, each).value for each in (False, True))
    assert again < kept


def test_plain_layers_keep_what_was_published() -> None:
    """Without a gate, a layer keeps 34 bytes per token and unit of width on one rank (arXiv 2205.05198, section 4.1,
    without the attention scores; read 2026-11-22)."""
    shape = Transformer(
        1, layers=1, hidden=1000, heads=10, kv_heads=10, ffn=4000, vocabulary=1, sequence=1, gated=False
    )
    assert memory.activations(shape, memory.ddp(1), 1, False).value == 34 * 1000 + 8

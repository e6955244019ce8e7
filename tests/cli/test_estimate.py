"""`stampworks estimate`: output and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stampworks import catalog
from stampworks.cli import exits
from stampworks.cli.main import main

WHOLE = "--params 70B --tokens 15T --gpus 2048 --machine p5 --mfu 0.4 --usd-per-gpu-hour 2.5 --checkpoints 3"


def said(capsys: pytest.CaptureFixture[str], words: str) -> str:
    assert main(["estimate", *words.split()]) == exits.FINE
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def refused(capsys: pytest.CaptureFixture[str], words: str) -> str:
    assert main(["estimate", *words.split()]) == exits.WRONG_INPUT
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers as numbers."""
    found = json.loads(said(capsys, f"{WHOLE} --json"))
    assert found["gpu_days"] == pytest.approx(6.3e24 / (0.4 * 989e12) / 86400)
    assert found["wall_days"] == pytest.approx(found["gpu_days"] / 2048)
    assert found["usd"] == pytest.approx(found["gpu_days"] * 24 * 2.5)
    assert found["checkpoint_bytes"] == 3 * 12 * 70 * 10**9
    assert all(isinstance(each, str) for each in found["assumptions"])


@pytest.mark.parametrize("tokens", ["15T", "15e12", "15000000000000", "15_000B"])
def test_spellings(tokens: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(said(capsys, f"--params 70e9 --tokens {tokens} --json"))["flops"] == 6.3e24


def test_unknown_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    """Each unknown value has a sentence that explains it."""
    found = json.loads(said(capsys, "--params 7B --json"))
    assert [found[key] for key in ("gpu_days", "wall_days", "usd")] == [None] * 3
    assert sum("unknown" in each for each in found["assumptions"]) == 4


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    """The numbers come first, their assumptions last."""
    lines = said(capsys, WHOLE).splitlines()
    assert lines[0] == "70B parameters on 15T tokens, 2048 x h100 of p5"
    assert "  accelerator-days  184,319" in lines
    assert "  checkpoint        840 GB, 3 of them 2.52 TB" in lines
    assert "Assumptions" in lines


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("--params 7Q", "argument --params: '7Q' is no count: write it like 70B, 15T, 1.4e12 or 8030261248"),
        ("--params 0", "argument --params: '0' is not from 1 to"),
        ("--params 7B --tokens 1e40", "argument --tokens: '1e40' is not from 1 to"),
        ("--params 7B --mfu 40", "argument --mfu: '40' is not a share of the peak: write 0.4 for 40 %"),
        ("--params 7B --mfu nan", "argument --mfu: 'nan' is not a number"),
        ("--params 7B --usd-per-gpu-hour=-1", "argument --usd-per-gpu-hour: '-1' is not a price"),
        ("--params 7B --machine p55", "no machine is called 'p55'\n  hint: did you mean 'p5"),
        ("--params 7B --machine p9-h100", "h100 is in "),
        (
            "--params 7B --machine m7i --gpus 8",
            "8 accelerators are asked of m7i, which has none\n  hint: leave --gpus out",
        ),
        ("--params 7B --active 70B", "70B of 7B parameters are active\n  hint: --params are all of them"),
        ("--params 7B --precision float4", "argument --precision: invalid choice: 'float4'"),
        ("--params 7B --mfu 0.5", "--mfu is a share of a peak, and no machine says which"),
    ],
)
def test_wrong_input_is_explained(words: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The error says which input is allowed."""
    assert text in refused(capsys, words)


def test_a_machine_by_another_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert "2048 x h100 of p5" in said(capsys, WHOLE.replace(" p5 ", " P5.48xlarge "))


def test_experts(capsys: pytest.CaptureFixture[str]) -> None:
    """Compute costs depend on the active parameters; memory depends on all parameters."""
    words = "--params 671B --active 37B --tokens 14.8T --gpus 2048 --machine p5 --precision float8"
    lines = said(capsys, words).splitlines()
    assert lines[0] == "671B parameters (37B active) on 14.8T tokens, 2048 x h100 of p5, in float8"
    assert "  FLOPs             3.29e+24" in lines
    assert "  checkpoint        8.052 TB" in lines


DECLARED = """\
version: 1
name: llama
cloud: aws
region: us-east-1
pools: [{name: gpu, machine: p5, count: 16, purchase: on-demand}]
training: {checkpoints: {keep: 2}, model: {parameters: 8B, tokens: 1T}}
"""


def test_a_declared_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The estimate is for the declared nodes, at a published price with its source."""
    file = tmp_path / "cluster.yaml"
    file.write_text(DECLARED)
    found = json.loads(said(capsys, f"{file} --mfu 0.4 --json"))
    assert found["gpu_days"] == pytest.approx(6 * 8e9 * 1e12 / (0.4 * 989e12) / 86400)
    assert found["wall_days"] == pytest.approx(found["gpu_days"] / 128)
    assert found["checkpoint_bytes"] == 2 * 12 * 8 * 10**9
    assert found["usd"] > 0
    assert any(each.startswith("usd: ") and "of the catalog" in each for each in found["assumptions"])
    elsewhere = json.loads(said(capsys, f"{file} --machine p5en --mfu 0.4 --json"))
    assert elsewhere["wall_days"] is None
    assert elsewhere["usd"] > 0


def test_a_machine_has_the_price_that_is_published(capsys: pytest.CaptureFixture[str]) -> None:
    """The lowest and highest price of all regions are shown; a machine without a price has an unknown price."""
    found = json.loads(said(capsys, "--params 70B --tokens 15T --gpus 1024 --machine p5 --mfu 0.4 --json"))
    offers = [each.usd_per_hour for each in catalog.prices_on_demand("p5")]
    assert found["usd"] == pytest.approx(found["gpu_days"] * 24 * min(offers) / 8)
    [said_of] = [each for each in found["assumptions"] if each.startswith("usd: ")]
    assert f"the lowest of {len(offers)} regions, up to {max(offers) / 8:g}" in " ".join(said_of.split())
    owned = json.loads(said(capsys, "--params 70B --tokens 15T --gpus 8 --machine dgx-h100 --mfu 0.4 --json"))
    assert owned["usd"] is None
    assert "usd: unknown, for no price is given or published" in owned["assumptions"]


def test_pools_of_different_machines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The pool of a run must be named when pools differ; the error lists the pools and the option."""
    file = tmp_path / "cluster.yaml"
    file.write_text(DECLARED.replace("on-demand}", "on-demand}, {name: new, machine: p5en, count: 4}"))
    assert refused(capsys, f"{file} --mfu 0.4") == (
        "the run could be on pools of different machines: gpu (p5), new (p5en)\n"
        "  hint: name one: --pool gpu or --pool new\n"
    )
    found = json.loads(said(capsys, f"{file} --pool new --mfu 0.4 --json"))
    assert found["wall_days"] == pytest.approx(found["gpu_days"] / 32)
    assert json.loads(said(capsys, f"{file} --machine p5 --gpus 8 --mfu 0.4 --json"))["wall_days"] > 0
    assert refused(capsys, f"{file} --pool nwe") == (
        "no run of the default queue is on a pool 'nwe'\n  hint: there is gpu (p5), new (p5en)\n"
    )
    assert "--pool needs a declaration" in refused(capsys, "--params 8B --pool gpu")


def test_without_params_and_without_a_declaration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names the missing input, not the place of the search."""
    monkeypatch.chdir(tmp_path)
    assert refused(capsys, "--tokens 1T") == (
        f"no --params are given, and no declaration is found: no Pulumi.yaml in {tmp_path} or above it\n"
        "  hint: give --params 70B, or name a FILE; else change to a clone of Stampworks or a project that uses it\n"
    )


def test_declared_properties_of_a_model_are_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Precision and active parameters of the declared model are used."""
    file = tmp_path / "cluster.yaml"
    file.write_text(
        DECLARED.replace("{checkpoints", "{precision: float8, checkpoints").replace("8B", "80B, active: 8B")
    )
    found = json.loads(said(capsys, f"{file} --mfu 0.4 --json"))
    assert found["gpu_days"] == pytest.approx(6 * 8e9 * 1e12 / (0.4 * 1979e12) / 86400)
    assert found["checkpoint_bytes"] == 2 * 12 * 80 * 10**9
    assert "--active needs --params\n  hint: write training.model.active" in refused(capsys, f"{file} --active 8B")


def test_nodes_that_do_not_always_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The duration is a range, from all nodes down to the permanent ones; the cost stays the same."""
    file = tmp_path / "cluster.yaml"
    file.write_text(DECLARED.replace("count: 16", "count: 16, count_min: 4"))
    found = json.loads(said(capsys, f"{file} --mfu 0.4 --json"))
    assert found["wall_days"] == pytest.approx(found["gpu_days"] / 128)
    assert found["wall_days_max"] == pytest.approx(found["gpu_days"] / 32)
    assert "days at most: on the 32 accelerators that always run; the money is the same" in found["assumptions"]
    assert "  days              10.97 to 43.89\n" in said(capsys, f"{file} --mfu 0.4")
    file.write_text(DECLARED.replace("count: 16", "count: 16, count_min: 0"))
    found = json.loads(said(capsys, f"{file} --mfu 0.4 --json"))
    assert (found["wall_days_max"], found["wall_days"]) == (None, pytest.approx(found["gpu_days"] / 128))
    assert "days at most: unknown, for none of the accelerators always runs" in found["assumptions"]
    assert json.loads(said(capsys, f"{file} --mfu 0.4 --gpus 64 --json"))["wall_days_max"] is None


def test_nodes_without_accelerators(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The number of accelerators must be given then."""
    file = tmp_path / "cluster.yaml"
    file.write_text(DECLARED.replace("p5", "m7i"))
    assert said(capsys, str(file)).startswith("8B parameters on 1T tokens, on no accelerator of m7i\n")
    found = json.loads(said(capsys, f"{file} --json"))
    assert [found[key] for key in ("gpu_days", "wall_days", "usd", "mtbf_hours_range")] == [None] * 4
    assert found["checkpoint_bytes"] == 2 * 12 * 8 * 10**9
    assert "8 accelerators are asked of m7i, which has none" in refused(capsys, f"{file} --gpus 8")


def test_a_declaration_without_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(DECLARED.partition("training:")[0])
    assert "declares no model\n  hint: write training.model into it" in refused(capsys, str(file))


@pytest.mark.parametrize("batch", ["", "batch: 16, ", "batch: 1017, "])
def test_plan_and_estimate_agree(batch: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Llama 3 70B on 127 nodes, also where a declared batch leaves accelerators without a sample."""
    shape = "layers: 80, hidden: 8192, heads: 64, kv_heads: 8, ffn: 28672, vocabulary: 128256, sequence: 8192"
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "version: 1\nname: big\ncloud: hosts\npools: [{name: gpu, machine: dgx-h100, count: 127}]\n"
        f"training: {{{batch}model: {{{shape}, tokens: 2T}}}}\n"
    )
    found = json.loads(said(capsys, f"{file} --json"))
    assert main(["plan", str(file), "--json"]) == exits.FINE
    plan = json.loads(capsys.readouterr().out)
    expectations = plan.get("expectations") or plan["plan"]["expectations"]
    days = {each["name"].rpartition("_")[2]: each["value"] for each in expectations if ".days_" in each["name"]}
    assert days["min"] < found["wall_days"] < days["max"]
    idle = [each for each in found["assumptions"] if each.startswith("work: ")]
    assert idle == WORK[batch]


WORK = {
    "": [],
    "batch: 16, ": ["work: as tp 4: a step has 16 samples for 254 copies: x 0.06299"],
    "batch: 1017, ": ["work: as tp 4, with one sample at once: a step has 1017 samples for 254 copies: x 0.8008"],
}


@pytest.mark.parametrize("where", ["hosts, 127 dgx-h100", "aws, 16 p5", "aws, 64 p5", "aws, 4 p5"])
@pytest.mark.parametrize("shape", ["layers: 80, hidden: 8192, heads: 64", "layers: 32, hidden: 5120, heads: 40"])
@pytest.mark.parametrize("batch", ["", "batch: 16, ", "batch: 4096, "])
def test_plan_and_estimate_suggest_the_same(
    where: str, batch: str, shape: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud, count, machine = where.replace(",", "").split()
    region = "region: us-east-1\n" if cloud == "aws" else ""
    shape += ", kv_heads: 8, ffn: 28672, vocabulary: 128256, sequence: 8192"
    file = tmp_path / "cluster.yaml"
    file.write_text(
        f"version: 1\nname: big\ncloud: {cloud}\n{region}pools: [{{name: gpu, machine: {machine}, count: {count}}}]\n"
        f"training: {{{batch}model: {{{shape}, tokens: 2T}}}}\n"
    )
    found = json.loads(said(capsys, f"{file} --json"))
    main(["plan", str(file)])
    plan = " ".join(capsys.readouterr().out.split())
    if found["layout_bundled"]:
        degree = found["layout_bundled"]["layout"].removeprefix("tp ").removesuffix(" (sequences whole)")
        assert f"hint: write layout: tp and tensor_parallel: {degree}" in plan
    elif suggested := found["layout_suggested"]:
        again = ", with activations computed again" if suggested["recomputed"] else ""
        assert f"hint: {suggested['layout']}{again}, the plainest that fits, needs " in plan
        assert "it takes another framework" in " ".join(said(capsys, str(file)).split())
    else:
        assert "hint: no layout is known to fit on these nodes" in plan


def test_a_declared_fabric_that_is_thin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The declared oversubscription applies to the declared nodes."""
    file = tmp_path / "cluster.yaml"
    model = "{parameters: 671B, active: 37B, tokens: 1T}"
    file.write_text(
        "version: 1\nname: thin\ncloud: hosts\nnetwork: {cidr: 10.0.0.0/12}\nfabric: {oversubscription: 4}\n"
        f"pools: [{{name: gpu, machine: dgx-h100, count: 256}}]\ntraining: {{model: {model}}}\n"
    )
    assert "has 1/4 of the NICs' bandwidth" in " ".join(said(capsys, str(file)).split())
    assert "1/4 of the NICs'" not in " ".join(said(capsys, f"{file} --machine p5 --gpus 64").split())

"""Shards: creation, requirements, and errors."""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training import shards
from training.shards import Shards, main, make
from training.store import DataError, Store

TEXT = bytes(number * 7 % 251 for number in range(5000))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three shards of 26, 26 and 26 samples of 65 tokens."""
    (tmp_path / "text").write_bytes(TEXT)
    index, left = make(tmp_path / "text", tmp_path / "shards", tokens=65, most=40 * 1024)
    assert [shard.samples for shard in index.shards] == [26, 26, 26]
    assert left == 5000 - 1 - 78 * 64
    return tmp_path / "shards"


def opened(folder: Path | str, length: int = 64) -> Shards:
    found = Shards(Store(str(folder)), length)
    found.want(set(range(len(found.counts))), 1, 1)
    return found


def change(folder: Path, **values: Any) -> None:
    """Other values in the index."""
    index = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps(index | values))


def change_shard(folder: Path, **values: Any) -> None:
    index = json.loads((folder / "index.json").read_text())
    index["shards"][1] |= values
    (folder / "index.json").write_text(json.dumps(index))


def refused(folder: Path | str, length: int = 64) -> str:
    with pytest.raises(DataError) as caught:
        opened(folder, length)
    return str(caught.value)


def refused_sample(folder: Path, shard: int, sample: int) -> str:
    found = opened(folder)
    with pytest.raises(DataError) as caught:
        found.tokens(shard, sample)
    found.close()
    return str(caught.value)


def test_every_token_has_what_comes_before_it(folder: Path) -> None:
    """Samples are distributed over the shards, overlap by a token, and leave none out."""
    found = opened(folder)
    samples = {bytes(found.tokens(shard, sample).astype(np.uint8)) for shard in range(3) for sample in range(26)}
    assert samples == {TEXT[at : at + 65] for at in range(0, 78 * 64, 64)}
    assert bytes(found.tokens(1, 0).astype(np.uint8)) == TEXT[64:129]


def test_a_shorter_length_takes_more_samples_of_each(folder: Path) -> None:
    found = opened(folder, 20)
    assert found.counts == [78, 78, 78]
    for sample in range(3):
        assert bytes(found.tokens(2, sample).astype(np.uint8)) == TEXT[128 + 20 * sample : 128 + 20 * sample + 21]


def test_any_program_for_tar_files_can_read_them(folder: Path) -> None:
    with tarfile.open(folder / "shard-000002.tar") as tar:
        members = tar.getmembers()
        assert [re.sub("-[0-9a-f]{8}", "", member.name) for member in members[:2]] == [
            "000000000002.tokens",
            "000000000005.tokens",
        ]
        content = tar.extractfile(members[1])
        assert content
        assert content.read() == TEXT[320:385]


def test_equal_input_makes_equal_shards(tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Number of files, time and user do not matter."""
    inside = tmp_path / "many" / "b"
    inside.mkdir(parents=True)
    (tmp_path / "many" / "a.txt").write_bytes(TEXT[:1000])
    (tmp_path / "many" / "a2.txt").write_bytes(b"")
    (inside / "1").write_bytes(TEXT[1000:1001])
    (inside / "2").write_bytes(TEXT[1001:])
    (tmp_path / "many" / ".hidden").write_bytes(b"no text")
    assert main([str(tmp_path / "many"), str(tmp_path / "again"), "--tokens", "65", "--bytes", str(40 * 1024)]) == 0
    assert (tmp_path / "again/index.json").read_bytes() == (folder / "index.json").read_bytes()
    assert capsys.readouterr().out == (
        f"{tmp_path}/again: 3 shards, 78 samples of 65 tokens; the last 7 tokens fill no sample and are left out\n"
    )


def test_digests_are_the_same_for_ever(folder: Path) -> None:
    """A cache knows shards by them."""
    index = json.loads((folder / "index.json").read_text())
    assert index["shards"][0]["sha256"] == ("185566db21711da61efe06d1fc6687bea529ce2586c01960714743e7e4b383fd")


def test_tokens_of_other_tokenizers(tmp_path: Path) -> None:
    values = np.arange(3000, dtype="<u4") * 40
    (tmp_path / "tokens").write_bytes(values.tobytes())
    make(tmp_path / "tokens", tmp_path / "shards", tokens=101, kind="uint32")
    found = opened(tmp_path / "shards", 100)
    assert found.vocabulary == 2900 * 40 + 1  # the 99 after it fill no sample
    assert found.tokens(0, 3).tolist() == values[300:401].tolist()


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        (b"short", [], "{text}: has 5 tokens, and a sample takes 4,097: give more text, or fewer --tokens"),
        (b"", [], "{text}: has 0 tokens, and a sample takes 4,097: give more text, or fewer --tokens"),
        (b"odd", ["--type", "uint16"], "{text}: has 3 bytes, which are no whole number of tokens of 2"),
        (
            bytes(9000),
            ["--bytes", "8000"],
            "--bytes: 8,000 are not from 15,360, which a tar file of one sample may take, to 4,294,967,296",
        ),
        (None, [], "{text}: No such file or directory"),
    ],
)
def test_refuses_unusable_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: bytes | None, words: list[str], said: str
) -> None:
    path = tmp_path / "text"
    if text is not None:
        path.write_bytes(text)
    assert main([str(path), str(tmp_path / "to"), *words]) == 2
    assert capsys.readouterr().err == said.format(text=path) + "\n"
    assert not (tmp_path / "to/index.json").exists()


def test_shards_are_not_made_over_others(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(folder.parent / "text"), str(folder)]) == 2
    assert capsys.readouterr().err == f"{folder}: has shards already: name another folder, or remove it\n"


def test_without_an_index_there_are_no_shards(tmp_path: Path) -> None:
    assert refused(tmp_path) == (
        f"{tmp_path}/index.json: is missing: bring it there again, or make the shards anew (python3 -m training.shards)"
    )


def test_samples_that_are_too_short(folder: Path) -> None:
    assert refused(folder, 65) == (
        f"{folder}/index.json: its samples have 65 tokens, and a length of 65 needs 66: "
        "make the shards with --tokens 66, or train with a length of at most 64"
    )


def test_an_index_of_a_newer_version(folder: Path) -> None:
    """The version alone is refused, with any other content."""
    change(folder, version=2, more={"x": 1})
    assert refused(folder) == (
        f"{folder}/index.json: has version 2, newer than the 1 that is known here: "
        "bring the workload up to date, or make the shards anew with this one"
    )


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"version": 0}, "has version 0, and 1 is the first there was"),
        ({"tokens": "65"}, ".tokens: must be a whole number, not a text"),
        ({"shards": []}, "has no shards"),
        ({"type": "float"}, "knows no type 'float': it has uint8, uint16, uint32"),
        ({"vocabulary": 257}, "tokens must be 2 or more, vocabulary from 1 to what the type can hold"),
        ({"tokens": 2**40}, "shard-000000.tar: 26 samples take"),
        ({"color": 1}, "knows no option 'color'"),
    ],
)
def test_an_index_that_cannot_be(folder: Path, values: dict[str, Any], said: str) -> None:
    change(folder, **values)
    assert refused(folder).startswith(f"{folder}/index.json")
    assert said in refused(folder)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"name": "../../etc/passwd"}, ".shards[1]: name: '../../etc/passwd' is no plain file name"),
        ({"name": "/etc/passwd"}, ".shards[1]: name: '/etc/passwd' is no plain file name"),
        ({"name": ".."}, ".shards[1]: name: '..' is no plain file name"),
        ({"name": "a\n"}, ".shards[1]: name: 'a\\n' is no plain file name"),
        ({"sha256": "../x"}, ".shards[1]: sha256: '../x' is none: 64 digits of 0-9a-f"),
        ({"bytes": 2**50}, ".shards[1]: a shard has 1 sample or more in at most 4,294,967,296 bytes"),
        ({"bytes": -1}, ".shards[1]: a shard has 1 sample or more in at most 4,294,967,296 bytes"),
        ({"samples": 0}, ".shards[1]: a shard has 1 sample or more in at most 4,294,967,296 bytes"),
        ({"samples": 10**15}, ": shard-000001.tar: 1,000,000,000,000,000 samples take"),
        ({"samples": True}, ".shards[1].samples: must be a whole number, not true"),
    ],
)
def test_a_shard_that_cannot_be(folder: Path, values: dict[str, Any], said: str) -> None:
    """Names cannot leave the folder, and impossible sizes are refused."""
    change_shard(folder, **values)
    assert f"{folder}/index.json{said}" in refused(folder)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b"null"])
def test_an_index_that_is_none(folder: Path, content: bytes) -> None:
    (folder / "index.json").write_bytes(content)
    assert refused(folder).startswith(f"{folder}/index.json: ")


def test_an_index_without_an_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "INDEX_MAX", 100)
    assert refused(folder) == f"{folder}/index.json: has more than 100 bytes, which no such file needs"


AGAIN = "bring it there again, or make the shards anew (python3 -m training.shards)"


def test_a_missing_shard(folder: Path) -> None:
    """The error comes when the shard is needed, and others can be read."""
    (folder / "shard-000001.tar").unlink()
    assert len(opened(folder).tokens(0, 0)) == 65
    assert refused_sample(folder, 1, 3) == f"{folder}/shard-000001.tar: is missing: {AGAIN}"


def test_a_truncated_shard(folder: Path) -> None:
    path = folder / "shard-000001.tar"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:1000])
    assert refused_sample(folder, 1, 0) == (
        f"{path}: truncated: it has 1,000 bytes, and its index says {size:,}: {AGAIN}"
    )


def test_a_shard_that_has_grown(folder: Path) -> None:
    path = folder / "shard-000001.tar"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"x")
    assert refused_sample(folder, 1, 0) == f"{path}: has more than the {size:,} bytes that its index says: {AGAIN}"


def test_a_corrupt_sample(folder: Path) -> None:
    """A single bit is noticed, and other samples can be read."""
    path = folder / "shard-000001.tar"
    content = bytearray(path.read_bytes())
    content[3 * 1024 + 512 + 7] ^= 1
    path.write_bytes(content)
    said = refused_sample(folder, 1, 3)
    assert re.fullmatch(
        re.escape(f"{path}: sample 3: corrupt: its crc32 is ")
        + "[0-9a-f]{8}, and its name says [0-9a-f]{8}: "
        + re.escape(AGAIN),
        said,
    )
    assert len(opened(folder).tokens(1, 2)) == 65


def test_an_index_of_other_shards(folder: Path) -> None:
    """Samples at other places, or of other lengths, are not taken for those of the index."""
    path = folder / "shard-000001.tar"
    content = path.read_bytes()
    path.write_bytes(content[512:] + bytes(512))
    assert refused_sample(folder, 1, 3) == f"{path}: sample 3: is not where its index has it: make the shards anew"
    path.write_bytes(content)
    change(folder, tokens=70)
    assert refused_sample(folder, 1, 3) == f"{path}: sample 3: is not where its index has it: make the shards anew"


def test_a_shard_that_shrinks_while_it_is_read(folder: Path) -> None:
    found = opened(folder)
    found.tokens(1, 3)
    with (folder / "shard-000001.tar").open("r+b") as file:
        file.truncate(100)
    with pytest.raises(DataError) as caught:
        found.tokens(1, 3)
    assert str(caught.value) == (
        f"{folder}/shard-000001.tar: has become shorter while it was read: shards that are in use must stay as they are"
    )


def test_shards_that_are_needed_no_more_are_closed(folder: Path) -> None:
    found = Shards(Store(str(folder)), 64)
    found.want({0, 1}, 1, 1)
    found.want({2}, 1, 5)
    files = [found._open[number].result().held._file for number in range(3)]
    found.want({1}, 2, 2)
    assert sorted(found._open) == [1, 2]
    found.want({1}, 6, 6)
    assert sorted(found._open) == [1]
    assert [file.closed for file in files] == [True, False, True]
    found.close()
    assert files[1].closed

"""The bundled corpus: a small model learns from it, quickly."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import nn
from training import corpus
from training.data import Stream
from training.settings import Data


def test_a_page_is_the_same_for_ever() -> None:
    """The version of Python and the requested amount do not matter."""
    page = corpus.page(3, 2000)
    assert hashlib.sha256(page).hexdigest() == "92bd01b340afceb90f0223fcca09cbb6cf8496ab7a7680806f9dfdd525483597"
    assert all(corpus.page(3, length) == page[:length] for length in (1, 50, 129, 1999))


def test_pages_differ() -> None:
    assert len({corpus.page(number, 129) for number in range(5000)}) == 5000
    assert len(corpus.page(corpus.PAGES - 1, 100_000)) == 100_000


def test_text_is_consistent() -> None:
    """Sums are correct, comparisons hold, verbs agree with their nouns, and a page keeps its name."""
    text = "".join(corpus.page(number, 4000).decode("ascii").rpartition("\n")[0] for number in range(50))
    words = {word: number for number, word in enumerate(corpus.NUMBERS, 2)}
    products = re.findall(r"(\w+) \w+ of (\d) \w+ have (\d+) ", text)
    assert len(products) > 300
    assert all(words[first.lower()] * int(each) == int(found) for first, each, found in products)
    compared = re.findall(r"With (\d+) [\w-]+ has (more than|less than|as much as) its neighbour with (\d+)", text)
    assert len(compared) > 300
    signs = {"more than": 1, "less than": -1, "as much as": 0}
    assert all((int(one) > int(two)) - (int(one) < int(two)) == signs[word] for one, word, two in compared)
    assert len(re.findall(r"The \w+ \w+ \w+s ", text)) > 300
    assert len(re.findall(rf"(?:{'|'.join(words)}) \w+ \w+s \w+[^s] ", text, re.IGNORECASE)) > 300
    page = corpus.page(9, 4000).decode("ascii")
    names = Counter(re.findall(r"\w+-\d{3}", page))
    assert len(names) == 1
    assert names.total() > 20


def test_a_file_of_it_can_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert corpus.main([str(tmp_path / "text"), "--pages", "3"]) == 0
    content = (tmp_path / "text").read_bytes()
    assert len(content) == 3 * 2048
    assert content[2048:4095] == corpus.page(1, 2047)
    assert corpus.main([str(tmp_path / "none/text")]) == 2
    assert capsys.readouterr().err == f"{tmp_path}/none/text: cannot write the corpus: No such file or directory\n"
    with pytest.raises(SystemExit):
        corpus.main([str(tmp_path / "text"), "--pages", "0"])
    assert "--pages: 0 is not from 1 to 65536" in capsys.readouterr().err


class Small(nn.Module):  # type: ignore[misc]
    """A model of two causal layers."""

    def __init__(self, width: int = 64, length: int = 64) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(256, width), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 256)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        length = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        found = self.layers(self.token(tokens) + self.place(torch.arange(length)), mask=mask, is_causal=True)
        return self.head(found)


@pytest.mark.parametrize(("source", "below"), [("corpus", 2.2), ("synthetic", 3.2)])
def test_the_loss_falls_in_a_hundred_steps(source: str, below: float) -> None:
    """A model of a tenth of a million parameters learns words from nothing."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Small()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    stream = Stream(Data(source), 16, 64, range(16), 1)
    losses = []
    for step, tokens in stream:
        given = torch.from_numpy(tokens)
        loss = nn.functional.cross_entropy(model(given[:, :-1]).flatten(0, 1), given[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step == 100:
            break
    stream.close()
    assert losses[0] > 0.9 * math.log(256)
    assert sum(losses[-10:]) / 10 < below

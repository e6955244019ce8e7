"""Objects that expire in a bucket: which ones, unsupported places, and the effect of a change."""

from __future__ import annotations

from typing import Any

import pytest
from stampworks.declaration import DeclarationError
from stampworks.planning.changes.review import ReviewedStack, review
from stampworks.planning.cost import cost
from stampworks.views.plan import plan_text
from stampworks.views.review import review_markdown

from tests.planning.build.test_repository import BUCKET, LUSTRE, on_aws, problems

FOLDER = "checkpoints/"


@pytest.mark.parametrize("folder", ["", "checkpoints/", "runs/of-alice_1/x=2/"])
def test_all_of_a_bucket_or_a_folder_of_it(folder: str) -> None:
    [planned] = on_aws({**BUCKET, "expire_days": 90, "expire_folder": folder}).storage
    assert (planned.expire_days, planned.expire_folder) == (90, folder)


@pytest.mark.parametrize("folder", ["checkpoints", "/checkpoints/", "a//", "../", "*/", "a/\n", "a" * 300 + "/"])
def test_refuses_malformed_folders(folder: str) -> None:
    [(path, said, hint)] = problems({**BUCKET, "expire_days": 90, "expire_folder": folder})
    assert path == "storage[0].expire_folder"
    assert said.endswith("is not a folder in a bucket")
    assert hint == "write it like checkpoints/, in plain letters"


def test_nothing_goes_from_a_file_system() -> None:
    said = ("fsx-lustre deletes nothing by itself", "take it out, or declare a storage of kind s3 for it")
    assert problems({**LUSTRE, "expire_days": 9, "expire_folder": FOLDER}) == [
        ("storage[0].expire_days", *said),
        ("storage[0].expire_folder", *said),
    ]


def test_a_folder_without_a_time() -> None:
    assert problems({**BUCKET, "expire_folder": FOLDER}) == [
        (
            "storage[0].expire_folder",
            "expire_folder checkpoints/ needs expire_days",
            "write expire_days, or take expire_folder out",
        )
    ]


@pytest.mark.parametrize("days", [-1, 1.5, 36_501, "soon"])
def test_a_time_that_is_none(days: Any) -> None:
    with pytest.raises(DeclarationError, match=r"storage\[0\]\.expire_days"):
        on_aws({**BUCKET, "expire_days": days})


@pytest.mark.parametrize(
    ("before", "after", "gone"),
    [
        ((0, ""), (30, FOLDER), "what was written below checkpoints/ of corpus more than 30 days ago"),
        ((90, FOLDER), (30, FOLDER), "what was written below checkpoints/ of corpus more than 30 days ago"),
        ((90, FOLDER), (90, ""), "what was written in corpus more than 90 days ago"),
        ((90, FOLDER), (90, "runs/"), "what was written below runs/ of corpus more than 90 days ago"),
        ((90, FOLDER), (180, FOLDER), ""),
        ((90, FOLDER), (90, "checkpoints/old/"), ""),
        ((90, FOLDER), (0, ""), ""),
    ],
)
def test_a_change_says_what_it_deletes(before: tuple[int, str], after: tuple[int, str], gone: str) -> None:
    """The change is in place, because the bucket stays; objects that expire earlier are listed as lost."""
    plans = [on_aws({**BUCKET, "expire_days": days, "expire_folder": folder}) for days, folder in (before, after)]
    found = review("s", ReviewedStack("a", plans[0]), ReviewedStack("b", plans[1]))
    assert {each.policy for each in found.changes} == {"in place"}
    assert {lost for each in found.changes for lost in each.loses} == ({gone} if gone else set())
    text = review_markdown(found).replace("`", "")
    assert (f"Data is lost: {gone}." in text) is bool(gone)
    assert text.count(f"{gone} is deleted") == (len(found.changes) if gone else 0)
    assert "with all it holds" not in text


def test_a_plan_says_what_goes() -> None:
    """The description of a storage says so."""
    plan = on_aws({**BUCKET, "expire_days": 90, "expire_folder": FOLDER})
    text = plan_text(plan, cost(plan), ())
    assert "objects below checkpoints/ go after 90 days" in text

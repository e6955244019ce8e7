"""Charts of the add-ons on a real kube-apiserver, which accepts their objects; a second apply changes nothing. No
add-on runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from stampworks.plan import AddOn, Plan
from stampworks.schedulers import addons

from tests.schedulers.apiserver import ApiServer, api_server
from tests.schedulers.test_addons import CASES, chart, of, planned

pytestmark = pytest.mark.long


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServer]:
    """Yield a server for each chart: webhooks of a missing controller would refuse objects of another chart."""
    with api_server(tmp_path) as found:
        yield found


@pytest.mark.parametrize(("name", "example"), [*{name: example for example, name in CASES}.items()])
def test_a_second_time_changes_nothing(server: ApiServer, name: str, example: str) -> None:
    plan, one = planned(example), of(planned(example), name)
    chart(one)
    for needed in one.needs:  # with objects of their kinds
        install(server, plan, of(plan, needed))
    before = server.objects()
    install(server, plan, one)
    once = server.objects()
    assert len(once) > len(before)
    install(server, plan, one)
    assert server.objects() == once


def install(server: ApiServer, plan: Plan, one: AddOn) -> None:
    """Apply a chart with its extra objects. Hook jobs are left out, because nothing runs them here."""
    words = ("upgrade", "--install", one.name, str(chart(one)), "--namespace", one.namespace, "--create-namespace")
    server.run("helm", *words, "--no-hooks", "--values", "-", text=json.dumps(addons.values(plan, one)))
    for made in addons.objects(one):
        server.run("kubectl", "apply", "--server-side", "-f", "-", text=json.dumps(made))

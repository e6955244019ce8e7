"""Runs as printed objects of Kubeflow's Trainer and MPI operator, on a cluster with them."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from stampworks.schedulers import identity
from stampworks.schedulers.kubernetes import MADE_AGAIN

from tests.cluster.kubernetes import KubernetesStack, gang
from tests.cluster.pods import NODES, RUNS, TINY, asked, of_run, running, soon, through, told, until

pytestmark = [pytest.mark.cluster, pytest.mark.long]

JOBSET = "jobset.sigs.k8s.io/jobset-name"
WITH = "kind: kubernetes\n      addons: {trainer: true, mpi_operator: true}"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStack]:
    with running(tmp_path_factory.mktemp("operators"), "none", ("kind: kubernetes", WITH)) as stack:
        yield stack


@pytest.fixture
def stack(up: KubernetesStack) -> Iterator[KubernetesStack]:
    yield up
    for kinds in ("trainjobs,mpijobs", "trainingruntimes"):
        up.kubectl("delete", kinds, "--all", "--all-namespaces", "--cascade=foreground")
    up.clear()


def made(stack: KubernetesStack, kind: str, name: str, *options: str, image: str = "") -> str:
    """Print the manifest of a run, create it, and return it."""
    more = ["--image", image] if image else []
    printed = stack.stampworks("submit", "training", name, *TINY, *options, "--print", kind, *more)
    assert printed.returncode == 0, printed.stderr
    stack.kubectl("create", "--filename=-", text=printed.stdout)
    return printed.stdout


def conditions(stack: KubernetesStack, kind: str, name: str) -> dict[str, str]:
    [found] = stack.listed(kind, "--all-namespaces", f"--field-selector=metadata.name={name}")
    return {each["type"]: each["status"] for each in found.get("status", {}).get("conditions", ())}


def rights(stack: KubernetesStack, name: str) -> set[str]:
    """Return owner and mode of each file of a run."""
    kept = "! -name 'first-*' ! -name '*.draft'"
    said = stack.shell(NODES[0], f"cd {RUNS}/{name} && find . {kept} -exec stat --format='%n %U %a' {{}} +")
    found = (line.rsplit(" ", 2) for line in said.splitlines())
    return {f"{re.sub('[0-9]+', 'N', path)} {user} {mode}" for path, user, mode in found}


def test_a_trainjob_trains_through(stack: KubernetesStack) -> None:
    """The TrainJob runs on both nodes like a submitted run. Trainer and `logs` report it."""
    printed = made(stack, "trainjob", "printed", "--set", "steps=20")
    soon(stack, "printed", lambda: of_run(stack, "printed")["state"] in ("running", "finished"))
    through(stack, "printed")
    [begun] = told(stack, "printed", "generation")
    assert sorted(begun["nodes"]) == sorted(NODES)
    record = json.loads(stack.shell(NODES[0], f"cat {RUNS}/printed/record.json"))
    assert (record["state"], record["counts"]["steps"], record["account"]["step"]) == ("finished", 20, 20), record
    soon(stack, "printed", lambda: conditions(stack, "trainjob", "printed").get("Complete") == "True")
    stack.kubectl("delete", "--filename=-", text=printed)


@pytest.mark.long
def test_a_trainjob_past_the_quota_waits(stack: KubernetesStack) -> None:
    """It has a reason and no pods, like any other run. The cancelled one before it is not created again."""
    made(stack, "trainjob", "before", "--set", "steps=100000", "--set", "pace_s=0.3")
    until(stack, "before", 5)
    made(stack, "trainjob", "behind", "--set", "steps=5")
    soon(stack, "behind", lambda: "insufficient" in of_run(stack, "behind")["why"])
    assert of_run(stack, "behind")["state"] == "waiting"
    assert conditions(stack, "trainjob", "behind") == {"Suspended": "True"}
    assert {each["metadata"]["labels"][JOBSET] for each in stack.listed("pods", "--all-namespaces")} == {"before"}
    asked(stack, "cancel", "before")
    through(stack, "behind")
    assert [each["metadata"]["name"] for each in stack.listed("trainjobs", "--namespace=product")] == ["behind"]
    beside = stack.listed("configmaps,trainingruntimes", "--namespace=product")
    assert "before" not in {each["metadata"]["name"] for each in beside}


@pytest.mark.long
def test_a_trainjob_is_pushed_aside_and_back(stack: KubernetesStack) -> None:
    """It saves and waits for a more urgent gang, then continues."""
    made(stack, "trainjob", "pushed", "--set", "steps=120", "--set", "pace_s=0.3")
    until(stack, "pushed", 5)
    stack.submit(gang("urgent", "research", len(NODES), priority="high"))
    soon(stack, "pushed", lambda: of_run(stack, "pushed")["state"] == "waiting")
    assert "Preempted to accommodate research/urgent" in of_run(stack, "pushed")["why"]
    stack.kubectl("delete", "jobset", "urgent", "--namespace=research")
    through(stack, "pushed")
    assert [event["source"] for event in told(stack, "pushed", "ready")] == ["nothing", "checkpoint"]


@pytest.mark.long
def test_a_team_makes_a_trainjob_of_its_own(stack: KubernetesStack) -> None:
    """Users have the rights; other teams do not. The folder of all runs was created by a run of root."""
    made(stack, "trainjob", "first", "--set", "steps=5")
    through(stack, "first")
    wanted = ["training", "own", *TINY, "--set", "steps=5", "--user", "alice"]
    printed = stack.stampworks("submit", *wanted, "--print", "trainjob")
    refused = stack.stampworks("kubectl", "--", "create", "--as=bob", "--filename=-", text=printed.stdout)
    assert refused.returncode
    assert 'User "bob" cannot create resource "trainjobs"' in refused.stderr
    stack.kubectl("create", "--as=alice", "--filename=-", text=printed.stdout)
    through(stack, "own")
    soon(stack, "own", lambda: conditions(stack, "trainjob", "own").get("Complete") == "True")
    gone = stack.stampworks("kubectl", "--", "delete", "jobset", "own", "--namespace=research", "--as=alice")
    assert gone.returncode
    assert MADE_AGAIN in gone.stderr
    runtime = json.loads(stack.kubectl("get", "trainingruntime", "own-u2001", "--namespace=research", "--output=json"))
    runtime["metadata"] = {"name": "forgetful-u2001", "namespace": "research"}
    runtime["spec"]["template"]["spec"]["ttlSecondsAfterFinished"] = 1
    refused = stack.stampworks("kubectl", "--", "create", "--as=alice", "--filename=-", text=json.dumps(runtime))
    assert MADE_AGAIN in refused.stderr
    stack.kubectl("delete", "trainjob", "own", "--namespace=research", "--as=alice")
    soon(stack, "own", lambda: "own" not in {each["metadata"]["name"] for each in stack.listed("jobsets", "-A")})


@pytest.mark.long
def test_a_trainjob_of_a_user_has_a_runtime_of_that_user(stack: KubernetesStack) -> None:
    """Otherwise its command would run with the user id and the secret of another member of the team."""
    wanted = ["training", "hers", *TINY, "--set", "steps=5", "--user", "carol"]
    printed = stack.stampworks("submit", *wanted, "--print", "trainjob").stdout
    runtime, job = (each for each in yaml.safe_load_all(printed) if each["kind"] in ("TrainingRuntime", "TrainJob"))
    assert (runtime["metadata"]["name"], job["spec"]["runtimeRef"]["name"]) == ("hers-u2003", "hers-u2003")

    def refused(user: str, given: dict[str, Any]) -> str:
        words = ("create", "--dry-run=server", f"--as={user}", "--filename=-")
        done = stack.stampworks("kubectl", "--", *words, text=json.dumps(given))
        return str(done.stderr) if done.returncode else ""

    def changed(given: dict[str, Any], user: str, *path: str, to: Any) -> dict[str, Any]:
        made = copy.deepcopy(given)
        made["metadata"]["annotations"] = {identity.USER: user}
        where = made
        for step in path[:-1]:
            where = where.setdefault(step, {})
        where[path[-1]] = to
        return made

    reference = job["spec"]["runtimeRef"]
    stack.kubectl("create", "--as=carol", "--filename=-", text=json.dumps(runtime))
    assert refused("carol", job) == ""
    for ref in (reference, {"name": "any"}, {**reference, "kind": "ClusterTrainingRuntime", "name": "any-u2001"}):
        said = refused("alice", changed(job, "alice", "spec", "runtimeRef", to=ref))
        assert identity.OWN_RUNTIME in said, (ref, said)
    for part in ("dataset", "model"):
        secret = {"secretRef": {"name": "train-u2001-secrets"}}
        assert identity.NOT_HERS in refused("carol", changed(job, "carol", "spec", "initializer", part, to=secret))
    pod = {"template": {"spec": {"template": {"spec": {"serviceAccountName": "default"}}}}}
    for template in (
        {"spec": {"replicatedJobs": [{"name": "node", **pod}]}},
        {"metadata": {"annotations": {"a": "b"}}},
    ):
        patch = {"manager": "example.com/carol", "trainingRuntimeSpec": {"template": template}}
        assert identity.PATCHED in refused("carol", changed(job, "carol", "spec", "runtimePatches", to=[patch]))
    for name in ("any", "hers-u2001", "hers-u12003"):
        said = refused("carol", changed(runtime, "carol", "metadata", "name", to=name))
        assert identity.MADE_RUNTIME in said, (name, said)
    of_alice = {identity.USER: "alice"}
    path = ("spec", "template", "metadata", "annotations")
    assert identity.MADE_RUNTIME in refused("carol", changed(runtime, "carol", *path, to=of_alice))


@pytest.mark.long
def test_an_mpijob_trains_through(stack: KubernetesStack) -> None:
    """mpirun starts a rank on both nodes over ssh, by name. The operator reports success, and removes the workers.
    Readers of JobSets may read it."""
    made(stack, "jobset", "pods", "--set", "steps=20")
    through(stack, "pods")
    printed = made(stack, "mpijob", "ranks", "--set", "steps=20")
    soon(stack, "ranks", lambda: conditions(stack, "mpijob", "ranks").get("Succeeded") == "True")
    [begun] = told(stack, "ranks", "generation")
    assert sorted(begun["nodes"]) == sorted(NODES)
    record = json.loads(stack.shell(NODES[0], f"cat {RUNS}/ranks/record.json"))
    assert (record["state"], record["counts"]["steps"], record["account"]["step"]) == ("finished", 20, 20), record
    said = stack.kubectl("logs", "--namespace=product", "job/ranks-launcher")
    assert "2 ranks on gpu-001, gpu-002" in said, said
    assert rights(stack, "ranks") == rights(stack, "pods")
    workers = "training.kubeflow.org/job-name=ranks,training.kubeflow.org/job-role=worker"
    soon(stack, "ranks", lambda: not stack.listed("pods", "--namespace=product", f"--selector={workers}"))
    stack.kubectl("delete", "--filename=-", text=printed)


@pytest.mark.long
def test_an_mpijob_past_the_quota_waits(stack: KubernetesStack) -> None:
    """It has a reason and no pods. The launcher's job exists before the workers; sshd runs as its user."""
    made(stack, "mpijob", "ahead", "--set", "steps=100000", "--set", "pace_s=0.3")
    until(stack, "ahead", 2)
    later = made(stack, "mpijob", "later", "--set", "steps=5", "--user", "alice")
    assert "runAsUser: 2001" in later
    waiting = stack.seen("later", "waiting")
    assert "insufficient unused quota" in waiting["why"], waiting
    jobs = ("jobs.batch", "--namespace=research")
    soon(stack, "later", lambda: "later-launcher" in {job["metadata"]["name"] for job in stack.listed(*jobs)})
    pods = stack.listed("pods", "--all-namespaces")
    assert {each["metadata"]["labels"]["training.kubeflow.org/job-name"] for each in pods} == {"ahead"}
    stack.kubectl("delete", "mpijob", "ahead", "--namespace=product")
    soon(stack, "later", lambda: conditions(stack, "mpijob", "later").get("Succeeded") == "True")
    assert stack.shell(NODES[0], f"stat --format=%U {RUNS}/later/record.json") == "alice"


def test_switched_off_it_is_gone_and_what_runs_goes_on(stack: KubernetesStack) -> None:
    """Its webhooks are removed, so that no request hangs, even after a reboot. The next `up` changes nothing."""
    stack.unchanged("--refresh")
    stack.edit(WITH, "kind: kubernetes")
    stack.end_room()
    refused = stack.run("up", "--yes", "--skip-preview").stdout
    assert "addon trainer: only in the cluster: data or state would be lost" in refused
    accepted = re.search("STAMPWORKS_ACCEPT=([0-9a-f]+)", refused)
    assert accepted
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STAMPWORKS_ACCEPT", accepted[1])
        stack.up()
    hooks = stack.kubectl("get", "validatingwebhookconfigurations", "--output=name").split()
    assert not [each for each in hooks if "trainer" in each]
    settings = stack.state / "rooms" / stack.cluster / "kubernetes" / "trainer.yaml"
    assert not settings.exists()  # without this file, no server is asked for leftovers
    found = asked(stack, "submit", "training", "afterwards", *TINY, "--set", "steps=5", "--wait")
    assert found["state"] == "finished", found
    stack.unchanged("--refresh")
    stack.edit("kind: kubernetes", WITH)
    stack.up()

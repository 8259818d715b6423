"""A kube-apiserver that is killed, hangs or refuses, under components at work: they go on where they were, tell it
once, and lose nothing."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from allotment.cluster.clock import parse
from bench.real_kube import ApiServer, plane
from tests.components.process import LED, Component, running
from tests.kube.world import CLAIMS, NAMESPACE, PODS, account, create, device_class, items, node, pod, template
from tests.waiting import wait_until

EVENTS = "/api/v1/namespaces/default/events?fieldSelector=reportingComponent=allotment-annotator"
#: Longer than a request is tried again by itself.
GONE_SECONDS = 7.0
#: How long the annotator lets a pod wait that it can see.
PATIENCE_SECONDS = 5.0


@pytest.fixture(scope="module")
def kube(paths: dict[str, str]) -> Iterator[ApiServer]:
    """A plane whose claims are ours alone: no garbage collector takes what was forgotten."""
    controllers = "*,-resourceclaim-controller,-garbage-collector-controller"
    with plane(paths, controllers=controllers) as running:
        for part in ("claims", "annotator"):
            account(running, part)
        node(running, "one", 60)
        device_class(running)
        template(running)
        template(running, "hundred", 100)
        yield running


def words(kube: ApiServer, part: str) -> tuple[str, ...]:
    token = kube.token_of(f"allotment-{part}", NAMESPACE)
    return (part, f"--kubeconfig={kube.kubeconfig_of(part, token)}", "--log-format=json")


def settled(kube: ApiServer) -> bool:
    """Whether each pod has its own claim and a node, where there is one for it, and no claim is left."""
    pods = items(kube, PODS)
    made = sorted(claim["metadata"]["ownerReferences"][0]["name"] for claim in items(kube, CLAIMS))
    bound = [one for one in pods if one["spec"].get("nodeName") or one["metadata"]["name"].startswith("big")]
    return made == sorted(one["metadata"]["name"] for one in pods) and len(bound) == len(pods)


def quiet(component: Component, most: int) -> None:
    """No more lines than there may be, each of them JSON, and nothing that crashed."""
    lines = [json.loads(line) for line in component.said if not line.startswith("health:")]
    assert len(lines) <= most, component.log
    assert [line for line in lines if line["level"] == "error"] == []


def delete(kube: ApiServer, name: str) -> None:
    assert kube.ask("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")[0] == 200


def told(kube: ApiServer) -> list[tuple[str, float]]:
    """The pods that were told why they wait, and when (since the epoch)."""
    return [(event["involvedObject"]["name"], parse(event["eventTime"]).timestamp()) for event in items(kube, EVENTS)]


def test_what_is_done_meanwhile_is_done_afterwards(kube: ApiServer) -> None:
    with running(*words(kube, "claims")) as claims, running(*words(kube, "annotator")) as annotator:
        for number in range(20):
            create(kube, pod(f"early-{number}"))
        wait_until(lambda: settled(kube))
        for number in range(10):
            delete(kube, f"early-{number}")
            create(kube, pod(f"late-{number}"))
        create(kube, pod("big", template="hundred"))
        restart, gone = kube.kill_server(), time.time()
        time.sleep(GONE_SECONDS)
        begun = time.time()
        restart()
        wait_until(lambda: settled(kube))
        wait_until(lambda: "big" in dict(told(kube)), told=lambda: annotator.log)
        # Nobody's wait counts while nobody could see it, and then there is time for kube-scheduler to come back, too.
        made = {one["metadata"]["name"]: parse(one["metadata"]["creationTimestamp"]) for one in items(kube, PODS)}
        new = {name for name, when in made.items() if gone - when.timestamp() < PATIENCE_SECONDS}
        soon = {name for name, when in told(kube) if gone < when < begun + PATIENCE_SECONDS}
        assert not new & soon
        quiet(claims, 40)
        quiet(annotator, 40)
        assert claims.stop() == annotator.stop() == 0


def test_who_slept_through_it_lists_anew(kube: ApiServer) -> None:
    """A server that was started after what a watch has seen last answers 410: it does not know what was since."""
    with running(*words(kube, "claims")) as claims:
        wait_until(lambda: settled(kube))
        claims.process.send_signal(signal.SIGSTOP)
        kube.kill_server()()
        for number in range(10):
            delete(kube, f"late-{number}")
            create(kube, pod(f"later-{number}"))
        kube.compact()
        claims.process.send_signal(signal.SIGCONT)
        wait_until(lambda: settled(kube))
        assert claims.stop() == 0


def test_a_server_that_hangs_costs_the_leader_its_lease_in_time_and_the_others_nothing(kube: ApiServer) -> None:
    with running(*words(kube, "claims")) as claims, running(*words(kube, "annotator"), *LED) as leader:
        leader.says(' is the leader"')
        wait_until(lambda: claims.health("/readyz") == (200, "ok"))
        with kube.hanging():
            # Another may be there that can be reached by others.
            assert leader.ends() == 1
            assert "is no longer the leader" in leader.said[-1]
        create(kube, pod("after-it-hung"))
        wait_until(lambda: settled(kube))
        quiet(claims, 20)
        assert claims.stop() == 0


def file_of(kube: ApiServer, token: str) -> tuple[Path, str]:
    """A file with a token, as a kubelet keeps it for a pod, and the flag that has it used."""
    path = kube.folder / "token"
    path.write_text(token)
    kubeconfig = kube.kubeconfig_of("rotated", "none")
    config = json.loads(kubeconfig.read_text())
    config["users"][0]["user"] = {"tokenFile": str(path)}
    kubeconfig.write_text(json.dumps(config))
    return path, f"--kubeconfig={kubeconfig}"


def ended(kube: ApiServer, token: str) -> None:
    """The token is good for nothing from one moment to the next: its account is gone, and there is another."""
    kube.ask("DELETE", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/allotment-claims")
    create(kube, {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "allotment-claims"}})
    wait_until(lambda: kube.ask("GET", PODS, token=token)[0] == 401)


def test_a_token_that_ends_before_its_file_is_replaced_is_waited_for(kube: ApiServer) -> None:
    token, flag = file_of(kube, old := kube.token_of("allotment-claims", NAMESPACE))
    with running("claims", flag, "--log-format=json") as claims:
        wait_until(lambda: claims.health("/readyz") == (200, "ok"), told=lambda: claims.log)
        ended(kube, old)
        create(kube, pod("while-it-was-nobody"))
        wait_until(lambda: "Unauthorized" in claims.log)
        token.write_text(kube.token_of("allotment-claims", NAMESPACE))
        wait_until(lambda: settled(kube), told=lambda: claims.log)
        quiet(claims, 15)
        assert old not in claims.log
        assert claims.stop() == 0


def test_a_token_that_was_replaced_is_read_again(kube: ApiServer) -> None:
    """As a kubelet replaces it."""
    token, flag = file_of(kube, old := kube.token_of("allotment-claims", NAMESPACE))
    with running("claims", flag, "--log-format=json") as claims:
        wait_until(lambda: claims.health("/readyz") == (200, "ok"))
        ended(kube, old)
        token.write_text(kube.token_of("allotment-claims", NAMESPACE))
        create(kube, pod("rotated"))
        wait_until(lambda: settled(kube))
        quiet(claims, 10)
        assert old not in claims.log
        assert claims.stop() == 0

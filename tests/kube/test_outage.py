"""Components during an outage of kube-apiserver, which is killed, hangs or rejects requests: they resume, report it
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
from tests.components.process import LEASE_FLAGS, Component, running
from tests.kube.objects import CLAIMS, NAMESPACE, PODS, account, create, device_class, items, node, pod, template
from tests.polling import wait_until

EVENTS = "/api/v1/namespaces/default/events?fieldSelector=reportingComponent=allotment-annotator"
#: Longer than a request is retried by the client.
OUTAGE_SECONDS = 7.0
#: How long the annotator waits before it reports a pending pod.
PENDING_SECONDS = 5.0


@pytest.fixture(scope="module")
def kube(paths: dict[str, str]) -> Iterator[ApiServer]:
    """A control plane without the controllers that Allotment's replace; no garbage collector cleans up after them."""
    controllers = "*,-resourceclaim-controller,-garbage-collector-controller"
    with plane(paths, controllers=controllers) as running:
        for component in ("claims", "annotator"):
            account(running, component)
        node(running, "one", 60)
        device_class(running)
        template(running)
        template(running, "hundred", 100)
        yield running


def arguments(kube: ApiServer, component: str) -> tuple[str, ...]:
    token = kube.token_of(f"allotment-{component}", NAMESPACE)
    return (component, f"--kubeconfig={kube.kubeconfig_of(component, token)}", "--log-format=json")


def settled(kube: ApiServer) -> bool:
    """Whether each pod has its own claim and a node, where there is a device for it, and no claim is left over."""
    pods = items(kube, PODS)
    created = sorted(claim["metadata"]["ownerReferences"][0]["name"] for claim in items(kube, CLAIMS))
    bound = [pod for pod in pods if pod["spec"].get("nodeName") or pod["metadata"]["name"].startswith("big")]
    return created == sorted(pod["metadata"]["name"] for pod in pods) and len(bound) == len(pods)


def quiet(component: Component, most: int) -> None:
    """At most ``most`` log lines, each of them JSON, and no traceback."""
    lines = [json.loads(line) for line in component.lines if not line.startswith("health:")]
    assert len(lines) <= most, component.log
    assert [line for line in lines if line["level"] == "error"] == []


def delete(kube: ApiServer, name: str) -> None:
    assert kube.send_request("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")[0] == 200


def annotated_pods(kube: ApiServer) -> list[tuple[str, float]]:
    """The pods with an event on why they are pending, and its time (seconds since the epoch)."""
    return [(event["involvedObject"]["name"], parse(event["eventTime"]).timestamp()) for event in items(kube, EVENTS)]


def test_changes_during_an_outage_are_processed_afterwards(kube: ApiServer) -> None:
    with running(*arguments(kube, "claims")) as claims, running(*arguments(kube, "annotator")) as annotator:
        for number in range(20):
            create(kube, pod(f"early-{number}"))
        wait_until(lambda: settled(kube))
        for number in range(10):
            delete(kube, f"early-{number}")
            create(kube, pod(f"late-{number}"))
        create(kube, pod("big", template="hundred"))
        restart, gone = kube.kill_server(), time.time()
        time.sleep(OUTAGE_SECONDS)
        start = time.time()
        restart()
        wait_until(lambda: settled(kube))
        wait_until(lambda: "big" in dict(annotated_pods(kube)), state=lambda: annotator.log)
        # Time in which the annotator was disconnected does not count, and kube-scheduler gets time to return, too.
        created = {item["metadata"]["name"]: parse(item["metadata"]["creationTimestamp"]) for item in items(kube, PODS)}
        new = {name for name, when in created.items() if gone - when.timestamp() < PENDING_SECONDS}
        soon = {name for name, when in annotated_pods(kube) if gone < when < start + PENDING_SECONDS}
        assert not new & soon
        quiet(claims, 40)
        quiet(annotator, 40)
        assert claims.stop() == annotator.stop() == 0


def test_a_watch_with_an_expired_revision_lists_again(kube: ApiServer) -> None:
    """A server that was started after a watch's last revision answers 410: it does not have the changes in between."""
    with running(*arguments(kube, "claims")) as claims:
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


def test_a_hanging_server_ends_the_leader_and_no_standby_copy(kube: ApiServer) -> None:
    with running(*arguments(kube, "claims")) as claims, running(*arguments(kube, "annotator"), *LEASE_FLAGS) as leader:
        leader.wait_for_log(' is the leader"')
        wait_until(lambda: claims.health("/readyz") == (200, "ok"))
        with kube.paused("kube-apiserver"):
            # Another server may be reachable for other copies.
            assert leader.wait_exit() == 1
            assert "is no longer the leader" in leader.lines[-1]
        create(kube, pod("after-it-hung"))
        wait_until(lambda: settled(kube))
        quiet(claims, 20)
        assert claims.stop() == 0


def token_file(kube: ApiServer, token: str) -> tuple[Path, str]:
    """A file with a token, as the kubelet writes it for a pod, and the options that use it."""
    path = kube.folder / "token"
    path.write_text(token)
    kubeconfig = kube.kubeconfig_of("rotated", "none")
    config = json.loads(kubeconfig.read_text())
    config["users"][0]["user"] = {"tokenFile": str(path)}
    kubeconfig.write_text(json.dumps(config))
    return path, f"--kubeconfig={kubeconfig}"


def invalidate(kube: ApiServer, token: str) -> None:
    """Invalidate the token immediately, by replacing its service account."""
    kube.send_request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/allotment-claims")
    create(kube, {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "allotment-claims"}})
    wait_until(lambda: kube.send_request("GET", PODS, token=token)[0] == 401)


def test_components_wait_for_the_replacement_of_an_expired_token(kube: ApiServer) -> None:
    token, flag = token_file(kube, old := kube.token_of("allotment-claims", NAMESPACE))
    with running("claims", flag, "--log-format=json") as claims:
        wait_until(lambda: claims.health("/readyz") == (200, "ok"), state=lambda: claims.log)
        invalidate(kube, old)
        create(kube, pod("while-token-was-invalid"))
        wait_until(lambda: "Unauthorized" in claims.log)
        token.write_text(kube.token_of("allotment-claims", NAMESPACE))
        wait_until(lambda: settled(kube), state=lambda: claims.log)
        quiet(claims, 15)
        assert old not in claims.log
        assert claims.stop() == 0


def test_a_token_that_was_replaced_is_read_again(kube: ApiServer) -> None:
    """As the kubelet replaces it."""
    token, flag = token_file(kube, old := kube.token_of("allotment-claims", NAMESPACE))
    with running("claims", flag, "--log-format=json") as claims:
        wait_until(lambda: claims.health("/readyz") == (200, "ok"))
        invalidate(kube, old)
        token.write_text(kube.token_of("allotment-claims", NAMESPACE))
        create(kube, pod("rotated"))
        wait_until(lambda: settled(kube))
        quiet(claims, 10)
        assert old not in claims.log
        assert claims.stop() == 0

"""``allot run scheduler`` with a lab that has no scheduler: its metrics, shutdown, failover, traces and
reconnection."""

from __future__ import annotations

import json
import socket
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from allotment import Lab
from allotment.cluster.resources import LEASES
from tests.components.manifests import TEMPLATE, pod
from tests.components.otlp import receiving
from tests.components.process import LEASE_FLAGS, running, value
from tests.polling import wait_until

LEASE = "allotment-scheduler"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(fleet="dgx-a100-40gb", without=("scheduler",)) as lab:
        lab.apply(TEMPLATE)
        yield lab


def words(lab: Lab, *more: str) -> tuple[str, ...]:
    return ("scheduler", f"--kubeconfig={lab.kubeconfig}", *more)


def holder(lab: Lab) -> str:
    return str(lab.client.get(LEASES, LEASE, "kube-system")["spec"]["holderIdentity"])


def bound(lab: Lab, name: str) -> None:
    wait_until(lambda: lab.get("pod", name)["spec"].get("nodeName"), state=lambda: f"pod {name} has no node")


def test_it_leads_serves_metrics_and_shuts_down_gracefully(lab: Lab) -> None:
    with running(*words(lab, *LEASE_FLAGS, "--metrics-bind-address=127.0.0.1:0", "--log-format=json")) as scheduler:
        scheduler.wait_for_log(' is the leader"')
        first = json.loads(scheduler.lines[0])
        assert (first["level"], first["logger"]) == ("info", "components.lifecycle")
        lab.apply(pod("first"))
        bound(lab, "first")
        assert scheduler.health("/livez") == (200, "ok")
        assert scheduler.health("/readyz") == (200, "ok")
        answer = scheduler.health("/readyz?verbose")[1]
        for check in ("ping", "event-loop", "cluster", "caches", "leader-election", "shutdown"):
            assert f"[+]{check} ok\n" in answer
        metrics = scheduler.metrics()
        assert value(metrics, f'allotment_leader{{lease="{LEASE}"}}') == 1
        work = "allotment_work_duration_seconds_count"
        assert value(metrics, f'{work}{{result="scheduled",work="schedule"}}') == 1
        wait_until(lambda: f'{work}{{result="bound",work="bind"}} 1.0' in scheduler.metrics())
        assert value(metrics, 'allotment_queue_depth{queue="scheduler waiting"}') == 0
        assert holder(lab)
        assert scheduler.stop() == 0
    assert holder(lab) == ""
    lab.delete("pod", "first")


def test_the_standby_copy_takes_over_when_the_leader_is_killed(lab: Lab) -> None:
    with running(*words(lab, *LEASE_FLAGS)) as first:
        first.wait_for_lease()
        with running(*words(lab, *LEASE_FLAGS)) as second:
            wait_until(lambda: second.health("/readyz") == (200, "ok"), state=lambda: second.log)
            assert " is the leader" not in second.log, "a standby copy is ready, and does nothing"
            first.kill()
            lab.apply(pod("after-the-kill"))
            bound(lab, "after-the-kill")
            assert " is the leader" in second.log
            assert second.stop() == 0
    lab.delete("pod", "after-the-kill")


def test_a_released_lease_is_acquired_immediately(lab: Lab) -> None:
    led = ("--leader-elect", "--lease-duration=2h", "--renew-deadline=1h", "--retry-period=200ms")
    with running(*words(lab, *led)) as first:
        first.wait_for_lease()
        with running(*words(lab, *led)) as second:
            wait_until(lambda: second.health("/readyz") == (200, "ok"))
            assert first.stop() == 0
            second.wait_for_lease()  # a Lease that is not released is valid for two hours
            assert second.stop() == 0


def test_a_leader_that_lost_its_lease_ends_with_an_error(lab: Lab) -> None:
    with running(*words(lab, *LEASE_FLAGS)) as scheduler:
        scheduler.wait_for_lease()
        lab.client.patch(LEASES, LEASE, {"spec": {"holderIdentity": "thief"}}, "kube-system")
        assert scheduler.wait_exit() == 1
        assert "is no longer the leader: thief holds the Lease" in scheduler.lines[-1]
    assert holder(lab) == "thief"
    lab.client.delete(LEASES, LEASE, "kube-system")


def test_the_scheduling_of_a_pod_is_a_trace(lab: Lab) -> None:
    with receiving() as receiver:
        with running(*words(lab, f"--otlp-endpoint=http://127.0.0.1:{receiver.server_port}")) as scheduler:
            lab.apply(pod("traced"))
            bound(lab, "traced")
            assert scheduler.stop() == 0, "unsent spans are sent at the end"
        uid = uuid.UUID(lab.get("pod", "traced")["metadata"]["uid"])
        spans = [span.name for span in receiver.spans if span.trace_id == uid.bytes]
    # Before its claim was created, the pod was tried once or twice without success.
    assert spans[-3:] == ["schedule", "bind", "pod"]
    lab.delete("pod", "traced")


def test_pods_are_scheduled_after_a_restart_of_the_server(tmp_path: Path) -> None:
    with ExitStack() as stack:
        kept = stack.enter_context(socket.socket())  # so that no other program gets the port meanwhile
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        port = kept.getsockname()[1]
        lab = stack.enter_context(Lab(fleet="dgx-a100-40gb", without=("scheduler",), data=tmp_path, port=port))
        lab.apply(TEMPLATE)
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(Path(lab.kubeconfig).read_text())
        with running("scheduler", f"--kubeconfig={kubeconfig}") as scheduler:
            lab.apply(pod("before"))
            bound(lab, "before")
            lab.stop()
            assert scheduler.process.poll() is None
            with Lab(data=tmp_path, without=("scheduler",), port=port) as again:
                again.apply(pod("after"))
                bound(again, "after")
                assert scheduler.stop() == 0, scheduler.log


def test_an_unreachable_cluster_is_a_one_line_error(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: it\nclusters: [{name: it, cluster: {server: 'http://127.0.0.1:9'}}]"
        "\nusers: []\ncontexts: [{name: it, context: {cluster: it}}]\n"
    )
    with running("scheduler", f"--kubeconfig={kubeconfig}") as scheduler:
        scheduler.wait_for_log("is not responding yet")
        assert scheduler.health("/livez") == (200, "ok")
        assert scheduler.health("/readyz")[0] == 500
        assert scheduler.stop() == 0
        assert "Traceback" not in scheduler.log

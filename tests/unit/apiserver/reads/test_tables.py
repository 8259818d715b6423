from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.apiserver.reads.columns import age, columns, duration, selector, shortened
from allotment.model.trees import Tree
from tests.unit.apiserver.shelf import KINDS, NOW, Shelf, row


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-1, "0s"), (-5, "<invalid>"), (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (600, "10m"),
        (10_799, "179m"), (10_800, "3h"), (11_100, "3h5m"), (28_800, "8h"), (172_799, "47h"), (172_800, "2d"),
        (176_400, "2d1h"), (691_200, "8d"), (63_072_000, "2y"), (63_158_400, "2y1d"), (252_288_000, "8y"),
    ],
)  # fmt: skip
def test_ages_match_kubectl(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


@given(st.integers(min_value=0, max_value=10**9))
def test_ages_are_rounded_down(seconds: int) -> None:
    parts = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "y": 31_536_000}
    text, total, number = duration(seconds), 0, ""
    for letter in text:
        if letter.isdigit():
            number += letter
        else:
            total, number = total + int(number) * parts[letter], ""
    assert total <= seconds


def test_age_without_a_timestamp() -> None:
    assert age(None, NOW) == "<unknown>"


def test_column_types_and_priorities() -> None:
    assert [(c.name, c.type, c.priority, c.format) for c in columns("Name", "Data:integer", "Node*")] == [
        ("Name", "string", 0, "name"), ("Data", "integer", 0, ""), ("Node", "string", 1, ""),
    ]  # fmt: skip


def test_long_lists_are_shortened() -> None:
    assert shortened(["a", "b", "c", "d", "e"]) == "a,b,c + 2 more..."
    assert shortened([]) == "<none>"


def test_selectors_in_command_line_syntax() -> None:
    value = {
        "matchLabels": {"b": "1"},
        "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["y", "x"]}, {"key": "c", "operator": "DoesNotExist"},
        ],
    }  # fmt: skip
    assert selector(value) == "a in (x,y),b=1,!c"


def test_every_row_has_a_cell_for_each_column() -> None:
    for kind in KINDS.values():
        if kind.table is not None:
            cells = kind.table.cells({"kind": kind.kind, "metadata": {"name": "x"}}, NOW, Shelf())
            assert len(cells) == len(kind.table.columns), kind.bucket


# --- pods ------------------------------------------------------------------------------------------------------------


def pod(*statuses: Tree, init_containers: tuple[Tree, ...] = (), **more: Any) -> Tree:
    """A pod with one container per status; ``init_containers`` are pairs of spec and status."""
    status: Tree = {"phase": "Running", **more.pop("status", {})}
    status["containerStatuses"] = [{"name": f"c{i}", **item} for i, item in enumerate(statuses)]
    status["initContainerStatuses"] = [{"name": f"i{i}", **item["status"]} for i, item in enumerate(init_containers)]
    return {
        "metadata": {"name": "p", "creationTimestamp": NOW, **more.pop("metadata", {})},
        "spec": {
            "containers": [{"name": f"c{i}"} for i in range(max(len(statuses), 1))],
            "initContainers": [{"name": f"i{i}", **item.get("spec", {})} for i, item in enumerate(init_containers)],
            **more.pop("spec", {}),
        },
        "status": status,
    }


RUNNING: Tree = {"ready": True, "state": {"running": {}}}
WAITING: Tree = {"state": {"waiting": {"reason": "PodInitializing"}}}


def terminated(code: int, reason: str = "", **more: Any) -> Tree:
    return {"state": {"terminated": {"exitCode": code, "reason": reason}}, **more}


@pytest.mark.parametrize(
    ("tree", "ready", "status_text"),
    [
        (pod(RUNNING, RUNNING), "2/2", "Running"),
        (pod(RUNNING, terminated(1, "Error")), "1/2", "Error"),
        (pod({"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 3}), "0/1", "CrashLoopBackOff"),
        (pod(terminated(0, "Completed"), status={"phase": "Succeeded"}), "0/1", "Completed"),
        (pod(terminated(0, "Completed"), RUNNING), "1/2", "NotReady"),
        (
            pod(terminated(0, "Completed"), RUNNING, status={"conditions": [{"type": "Ready", "status": "True"}]}),
            "1/2",
            "Running",
        ),
        (pod(terminated(137)), "0/1", "ExitCode:137"),
        (pod({"state": {"terminated": {"exitCode": 1, "signal": 9}}}), "0/1", "Signal:9"),
        (pod(WAITING, init_containers=({"status": {"state": {"running": {}}}},)), "0/1", "Init:0/1"),
        (
            pod(WAITING, init_containers=({"status": terminated(0)}, {"status": {"state": {"running": {}}}})),
            "0/1",
            "Init:1/2",
        ),
        (pod(WAITING, init_containers=({"status": terminated(2)},)), "0/1", "Init:ExitCode:2"),
        (
            pod(WAITING, init_containers=({"status": {"state": {"waiting": {"reason": "ImagePullBackOff"}}}},)),
            "0/1",
            "Init:ImagePullBackOff",
        ),
        (
            pod(
                RUNNING,
                init_containers=({"spec": {"restartPolicy": "Always"}, "status": {**RUNNING, "started": True}},),
            ),
            "2/2",
            "Running",
        ),
        (pod(RUNNING, metadata={"deletionTimestamp": NOW}), "1/1", "Terminating"),
        (pod(status={"phase": "Failed", "reason": "Evicted"}), "0/1", "Evicted"),
        (
            pod(status={"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
            "0/1",
            "SchedulingGated",
        ),
    ],
)
def test_pod_status_column(tree: Tree, ready: str, status_text: str) -> None:
    shown = row("pods", tree)
    assert (shown["Ready"], shown["Status"]) == (ready, status_text)


def test_restarts_include_the_time_of_the_last_one() -> None:
    before = (datetime.fromisoformat(NOW) - timedelta(minutes=5)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    tree = pod({**RUNNING, "restartCount": 2, "lastState": {"terminated": {"finishedAt": before}}})
    assert row("pods", tree)["Restarts"] == "2 (5m ago)"


# --- devices ---------------------------------------------------------------------------------------------------------


def claim(*results: Tree, node: str = "n1", **more: Any) -> Tree:
    selector = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}
    allocation = {"devices": {"results": list(results)}, **({"nodeSelector": selector} if node else {})}
    return {"metadata": {"name": "c", "namespace": "ns"}, "status": {"allocation": allocation, **more}}


def result(device: str, pool: str = "n1", request: str = "gpu", **more: Any) -> Tree:
    return {"driver": "gpu.example.com", "pool": pool, "device": device, "request": request, **more}


def test_claims_show_devices_and_node() -> None:
    tree = claim(result("gpu-0"), result("gpu-1"), reservedFor=[{"resource": "pods", "name": "p", "uid": "u"}])
    shown = row("resourceclaims.resource.k8s.io", tree)
    assert (shown["State"], shown["Devices"], shown["Node"]) == ("allocated,reserved", "gpu-0,gpu-1", "n1")
    assert (shown["Driver"], shown["Requests"], shown["Reserved For"]) == ("gpu.example.com", "gpu", "p")


def test_devices_of_other_pools_are_prefixed() -> None:
    shown = row("resourceclaims.resource.k8s.io", claim(result("nic-3", pool="rack-7"), node=""))
    assert (shown["Devices"], shown["Node"]) == ("rack-7/nic-3", "<any>")


@pytest.mark.parametrize(
    ("tree", "state"),
    [
        ({"metadata": {"name": "c"}}, "pending"),
        ({"metadata": {"name": "c", "deletionTimestamp": NOW}}, "deleted"),
        ({**claim(), "metadata": {"name": "c", "deletionTimestamp": NOW}}, "deleted,allocated"),
    ],
)
def test_claim_states(tree: Tree, state: str) -> None:
    assert row("resourceclaims.resource.k8s.io", tree)["State"] == state


def slice_of(*devices: Tree, name: str = "s", counters: Tree | None = None) -> Tree:
    spec: Tree = {"driver": "gpu.example.com", "nodeName": "n1", "pool": {"name": "n1"}, "devices": list(devices)}
    if counters is not None:
        spec["sharedCounters"] = [{"name": "gpu-0", "counters": counters}]
    return {"metadata": {"name": name}, "spec": spec}


def counted(tree: Tree, shelf: Shelf) -> tuple[int, int, int]:
    shown = row("resourceslices.resource.k8s.io", tree, shelf)
    return shown["Devices"], shown["Free"], shown["Used"]


def test_slices_count_free_and_used_devices() -> None:
    tree = slice_of({"name": "gpu-0"}, {"name": "gpu-1"}, {"name": "gpu-2"})
    shelf = Shelf([("resourceslices.resource.k8s.io", tree)])
    assert counted(tree, shelf) == (3, 3, 0)
    shelf.put("resourceclaims.resource.k8s.io", claim(result("gpu-0"), result("gpu-1", adminAccess=True)))
    assert counted(tree, shelf) == (3, 2, 1)


def test_partitions_are_free_while_counters_suffice() -> None:
    def partition(name: str, memory: str) -> Tree:
        needs = {"counterSet": "gpu-0", "counters": {"memory": {"value": memory}}}
        return {"name": name, "consumesCounters": [needs]}

    whole = slice_of(name="counters", counters={"memory": {"value": "40Gi"}})
    tree = slice_of(partition("full", "40Gi"), partition("half-0", "20Gi"), partition("half-1", "20Gi"))
    shelf = Shelf([("resourceslices.resource.k8s.io", whole), ("resourceslices.resource.k8s.io", tree)])
    assert counted(tree, shelf) == (3, 3, 0)
    shelf.put("resourceclaims.resource.k8s.io", claim(result("half-0")))
    assert counted(tree, shelf) == (3, 1, 1)


# --- others ----------------------------------------------------------------------------------------------------------


def test_events_have_the_same_row_in_both_groups() -> None:
    event = {
        "apiVersion": "v1", "metadata": {"name": "e"}, "firstTimestamp": NOW, "lastTimestamp": NOW, "count": 3,
        "type": "Warning", "reason": "Failed", "message": " no ", "involvedObject": {"kind": "Pod", "name": "p"},
        "source": {"component": "kubelet", "host": "n1"},
    }  # fmt: skip
    shown = row("events", event)
    assert (shown["Object"], shown["Message"], shown["Source"], shown["Count"]) == ("pod/p", "no", "kubelet, n1", 3)
    new = KINDS["events.events.k8s.io"]
    assert new.to_version is not None
    assert row(new, new.to_version(event, "v1")) == shown


def test_cordoned_nodes_show_scheduling_disabled() -> None:
    node = {
        "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/control-plane": ""}},
        "spec": {"unschedulable": True},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.36.2"}},
    }
    shown = row("nodes", node)
    assert (shown["Status"], shown["Roles"]) == ("Ready,SchedulingDisabled", "control-plane")
    assert (shown["Version"], shown["Internal-IP"], shown["OS-Image"]) == ("v1.36.2", "<none>", "<unknown>")


@pytest.mark.parametrize(
    ("status", "state", "duration"),
    [
        ({}, "Running", ""),
        ({"startTime": "2026-01-02T03:03:05Z"}, "Running", "60s"),
        (
            {
                "startTime": "2026-01-02T03:03:05Z", "completionTime": "2026-01-02T03:03:15Z",
                "conditions": [{"type": "Complete", "status": "True"}],
            },
            "Complete",
            "10s",
        ),
        ({"conditions": [{"type": "Suspended", "status": "True"}]}, "Suspended", ""),
    ],
)  # fmt: skip
def test_job_status_and_completions(status: Tree, state: str, duration: str) -> None:
    shown = row(
        "jobs.batch", {"metadata": {"name": "j"}, "spec": {"completions": 2}, "status": {"succeeded": 1, **status}}
    )
    assert (shown["Status"], shown["Completions"], shown["Duration"]) == (state, "1/2", duration)


def test_services_show_ports_and_pending_addresses() -> None:
    spec = {
        "type": "LoadBalancer", "clusterIPs": ["10.96.0.9"], "selector": {"a": "b"},
        "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}],
    }  # fmt: skip
    shown = row("services", {"metadata": {"name": "s"}, "spec": spec})
    assert (shown["External-IP"], shown["Port(s)"]) == ("<pending>", "80:30080/TCP,53/UDP")

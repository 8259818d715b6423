"""Hypothetical changes: pods that lose devices, move, or fit nowhere, and the machines that they need."""

from __future__ import annotations

from dataclasses import replace as replace_fields

import pytest
from msgspec.structs import replace

from allotment.api.clusters.source import ClusterOrigin
from allotment.errors import InputError
from allotment.model.core import Node, PodStatus
from allotment.model.meta import Object
from allotment.screens.hypothetical_changes import Change, change_of
from allotment.screens.what_if import WhatIfRequest, WhatIfScreen, what_if
from allotment.watched.view import Place
from tests.unit.screens.clusters import fleet, pod, request, template, view

FIRST, SECOND = "t4-4x-pcie-1", "t4-4x-pcie-2"


def after(text: str, *objects: Object) -> WhatIfScreen:
    return what_if(view(*objects), WhatIfRequest((change_of(text),)))


def full(node: str, prefix: str = "job", namespace: str = "ml") -> list[Object]:
    """A pod on every device of a node."""
    return [
        each
        for number in range(4)
        for each in pod(f"{prefix}-{number}", f"gpu-{number}", node=node, owner=f"Job/{prefix}", namespace=namespace)
    ]


def test_pods_of_a_drained_node_move() -> None:
    screen = after(f"drain:{FIRST}", *fleet("t4-4x-pcie:2"), template(), *pod("a", "gpu-0", node=FIRST, owner="Job/a"))
    assert [(each.pod, each.claim, each.devices) for each in screen.losing] == [
        ("ml/a", "ml/a-gpu-x1", (f"{FIRST}/gpu-0",))
    ]
    assert [(each.pod, each.source, each.to) for each in screen.moving] == [("ml/a", FIRST, SECOND)]
    assert screen.stranded == ()
    assert screen.purchase is None
    assert screen.before == {"free": 7, "in-use": 1}
    assert screen.after == {"free": 3, "in-use": 1, "unschedulable": 4}
    assert screen.map is not None
    assert [node.name for node in screen.map.nodes] == [FIRST, SECOND]


@pytest.mark.parametrize(
    ("place", "origin", "command"),
    [
        ("cluster", ClusterOrigin("cluster", context="prod"), f"kubectl --context prod drain {FIRST}"),
        ("lab", ClusterOrigin("cluster", context="allotment"), f"kubectl --context allotment drain {FIRST}"),
        (
            "cluster",
            ClusterOrigin("cluster", (), ("--context", "a", "--kubeconfig", "b"), context="a"),
            f"kubectl --context a --kubeconfig b drain {FIRST}",
        ),
        ("cluster", ClusterOrigin("cluster"), ""),
        ("snapshot", ClusterOrigin("snapshot", ("--cluster", "dump.yaml")), ""),
        ("fleet", ClusterOrigin("hardware", ("--fleet", "t4-4x-pcie:2")), ""),
        ("none", ClusterOrigin(), ""),
    ],
)
def test_a_command_for_changes_names_the_cluster_that_it_changes(
    place: Place, origin: ClusterOrigin, command: str
) -> None:
    """Without a context, it would change whatever cluster kubectl has selected."""
    cluster = replace_fields(view(*fleet("t4-4x-pcie:2")), place=place, origin=origin)
    drained = what_if(cluster, WhatIfRequest((change_of(f"drain:{FIRST}"),)))
    assert drained.change_command.partition(" --ignore")[0] == command
    assert drained.command == ""
    added = WhatIfRequest((change_of(f"drain:{FIRST}"), change_of("add-machines:t4")))
    assert what_if(cluster, added).change_command == "", "kubectl adds no machine"


@pytest.mark.parametrize("change", [f"drain:{FIRST}", f"taint:{FIRST}:gpu=bad:NoExecute"])
def test_no_remedy_undoes_an_assumed_change(change: str) -> None:
    screen = after(change, *fleet("t4-4x-pcie"), template(), *full(FIRST))
    assert screen.counts["stranded"] == 4
    assert {each.remedy for each in screen.stranded} == {""}


def test_a_remedy_that_undoes_nothing_is_kept() -> None:
    """Another node is cordoned already."""
    nodes = [
        replace(each, spec=replace(each.spec, unschedulable=True))
        if isinstance(each, Node) and each.metadata.name == SECOND
        else each
        for each in fleet("t4-4x-pcie:2")
    ]
    screen = after(f"remove:{FIRST}", *nodes, template(), *full(FIRST))
    assert {each.remedy for each in screen.stranded} == {f"uncordon {SECOND}"}


def test_fewer_replicas_are_no_remedy_for_assumed_ones() -> None:
    screen = after(
        "scale:ml/deploy/web:6",
        *fleet("t4-4x-pcie"),
        template(),
        *pod("web-a", "gpu-0", node=FIRST, owner="Deployment/web"),
    )
    assert {each.remedy for each in screen.stranded} == {""}


def test_pods_without_room_are_stranded_with_the_code_of_explain() -> None:
    screen = after(f"remove:{FIRST}", *fleet("t4-4x-pcie:2"), template(), *full(FIRST), *full(SECOND, "other"))
    assert screen.counts == {"losing": 4, "moving": 0, "stranded": 4}
    assert {each.code for each in screen.stranded} == {"devices-in-use"}
    assert screen.purchase is not None
    assert screen.purchase.machines
    assert screen.map is not None
    assert screen.map.removed == (FIRST,)


def test_machines_are_only_for_stranded_pods() -> None:
    """Neither pods that move nor those that were pending before need some."""
    big = request(5)
    held = [each for number in range(2) for each in pod(f"held-{number}", f"gpu-{number}", node=SECOND)]
    pending = (template("big", big), *pod("big", of="big", spec=big, created="2026-03-01T00:00:00Z"))
    screen = after(f"remove:{FIRST}", *fleet("t4-4x-pcie:2"), template(), *full(FIRST), *held, *pending)
    assert screen.counts == {"losing": 4, "moving": 2, "stranded": 2}
    assert screen.purchase is not None
    assert [(each.instance, each.count) for each in screen.purchase.machines] == [("aws/g4dn.xlarge", 2)]
    assert screen.purchase.unserved == ()


def test_devices_are_given_in_scheduling_order() -> None:
    """Of the pods of the drained node the oldest ones get the devices that are left."""
    young = [
        each
        for number in range(2)
        for each in pod(f"young-{number}", f"gpu-{number}", node=FIRST, created="2026-02-01T00:00:00Z")
    ]
    old = [
        each
        for number in range(2, 4)
        for each in pod(f"old-{number}", f"gpu-{number}", node=FIRST, created="2026-01-01T00:00:00Z")
    ]
    held = [each for number in range(2) for each in pod(f"held-{number}", f"gpu-{number}", node=SECOND)]
    screen = after(f"drain:{FIRST}", *fleet("t4-4x-pcie:2"), template(), *young, *old, *held)
    assert [each.pod for each in screen.moving] == ["ml/old-2", "ml/old-3"]
    assert [each.pod for each in screen.stranded] == ["ml/young-0", "ml/young-1"]


def test_a_pod_that_was_pending_before_does_not_hide_an_equal_one() -> None:
    old, _ = pod("old", owner="Job/job", created="2025-01-01T00:00:00Z")
    without_claim = replace(old, status=PodStatus(phase="Pending"))
    screen = after(
        f"remove:{FIRST}", *fleet("t4-4x-pcie:2"), template(), *full(FIRST), *full(SECOND, "other"), without_claim
    )
    assert screen.counts["stranded"] == 4
    assert "ml/old" not in [each.pod for each in screen.stranded]


def test_pods_of_daemon_sets_stay_on_a_drained_node() -> None:
    daemon = pod("agent", "gpu-0", node=FIRST, owner="DaemonSet/agent")
    assert after(f"drain:{FIRST}", *fleet("t4-4x-pcie:2"), template(), *daemon).losing == ()
    assert len(after(f"remove:{FIRST}", *fleet("t4-4x-pcie:2"), template(), *daemon).losing) == 1


def test_a_failed_device_is_gone() -> None:
    screen = after(f"fail-device:{FIRST}/gpu-0", *fleet("t4-4x-pcie"), template(), *pod("a", "gpu-0", node=FIRST))
    assert [(each.pod, each.source, each.to) for each in screen.moving] == [("ml/a", FIRST, FIRST)]
    assert screen.moving[0].devices == (f"{FIRST}/gpu-1",)
    assert screen.after == {"free": 2, "in-use": 1}


def test_taints_evict_only_with_no_execute() -> None:
    objects = (*fleet("t4-4x-pcie:2"), template(), *pod("a", "gpu-0", node=FIRST))
    assert after(f"taint:{FIRST}:gpu=bad:NoSchedule", *objects).losing == ()
    assert len(after(f"taint:{FIRST}:gpu=bad:NoExecute", *objects).moving) == 1
    device = after(f"taint:{FIRST}/gpu-0:gpu=bad:NoExecute", *objects)
    assert device.moving[0].devices == (f"{FIRST}/gpu-1",)
    assert device.after == {"free": 6, "in-use": 1, "tainted": 1}


def test_more_replicas_take_devices_and_fewer_release_them() -> None:
    objects = (*fleet("t4-4x-pcie"), template(), *pod("web-a", "gpu-0", node=FIRST, owner="Deployment/web"))
    more = after("scale:ml/deploy/web:6", *objects)
    assert (len(more.moving), len(more.stranded)) == (3, 2)
    assert {each.source for each in more.moving} == {""}
    fewer = after("scale:ml/deploy/web:0", *objects)
    assert (len(fewer.losing), fewer.after) == (1, {"free": 4})


def test_another_mig_mode_takes_the_devices_of_the_node() -> None:
    objects = (*fleet("2xa100-40gb"), template(), *pod("a", "gpu-0", node="2xa100-40gb-1"))
    screen = after("mig-mode:2xa100-40gb-1:static-mig=1g.5gb:7", *objects)
    assert [each.pod for each in screen.losing] == ["ml/a"]
    assert screen.after == {"free": 14}
    assert [each.code for each in screen.stranded] == ["class-matches-nothing"]


def test_another_release_restarts_the_pods_with_devices() -> None:
    screen = after("kube-version:1.35", *fleet("t4-4x-pcie"), template(), *pod("a", "gpu-3", node=FIRST))
    assert screen.changes == ("Kubernetes 1.35 instead of 1.36: 1 pod with devices restarts",)
    assert [each.pod for each in screen.moving] == ["ml/a"]


def test_machines_are_added_under_new_names() -> None:
    big = request(5)
    screen = after(
        "add-machines:dgx-a100-40gb:2,t4-4x-pcie", *fleet("t4-4x-pcie"), template(spec=big), *pod("a", spec=big)
    )
    assert screen.before == {"free": 4}
    assert screen.after == {"free": 19, "in-use": 5}
    assert [(each.pod, each.source, each.to) for each in screen.moving] == [("ml/a", "", "dgx-a100-40gb-1")]
    assert screen.map is not None
    assert "t4-4x-pcie-1-new-1" in [node.name for node in screen.map.nodes]


def test_changes_follow_each_other() -> None:
    objects = (*fleet("t4-4x-pcie"), template(), *pod("a", "gpu-0", node=FIRST))
    changes = (change_of("add-machines:a10"), change_of(f"drain:{FIRST}"))
    screen = what_if(view(*objects), WhatIfRequest(changes))
    assert [each.to for each in screen.moving] == ["a10-1"]


def test_without_changes_there_are_only_choices() -> None:
    screen = what_if(view(*fleet("t4-4x-pcie"), *pod("a", "gpu-0", node=FIRST, owner="Job/a")), WhatIfRequest())
    assert screen.targets is not None
    assert (screen.targets.nodes, screen.targets.workloads) == ((FIRST,), ("ml/Job/a",))
    assert screen.map is None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (Change("drain", "t4-4x-pcie-9"), "no node 't4-4x-pcie-9'"),
        (Change("fail-device", f"{FIRST}/gpu-9"), "no device"),
        (Change("taint", FIRST, "gpu"), r"expected KEY\[=VALUE\]:EFFECT"),
        (Change("scale", "ml/deploy/web", "2"), "has no pod"),
        (Change("scale", "web", "2"), "expected NAMESPACE/KIND/NAME"),
        (Change("mig-mode", FIRST, "dynamic-mig"), "does not support MIG"),
        (Change("kube-version", "", "1.2"), "expected one of"),
        (Change("add-machines", "nonsense"), "unknown hardware"),
        (Change("add-machines", "t4:9000"), "at most"),
    ],
)
def test_unknown_targets_and_values_are_errors(change: Change, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        what_if(view(*fleet("t4-4x-pcie")), WhatIfRequest((change,)))


def test_an_unknown_action_is_an_error() -> None:
    with pytest.raises(InputError, match="expected one of drain"):
        change_of("explode:node-a")


def test_the_cluster_itself_does_not_change() -> None:
    cluster = view(*fleet("t4-4x-pcie:2"), template(), *full(FIRST))
    before = cluster.free.to_dict()
    what_if(cluster, WhatIfRequest((change_of(f"remove:{FIRST}"),)))
    assert cluster.free.to_dict() == before

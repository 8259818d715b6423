"""Labs without some programs, whose work other programs do."""

from __future__ import annotations

from pathlib import Path

import pytest

from allotment import Lab
from allotment.lab.driver_environment import DriverEnvironment
from allotment.lab.node_drivers import NodeDrivers
from allotment.lab.programs import NAMES, Issuers, UnknownProgram, excluded_programs, programs
from allotment.model.features import Features
from allotment.node.kubelet import Kubelets

POD = """
apiVersion: v1
kind: Pod
metadata: {name: waiting}
spec: {containers: [{name: main, image: busybox}]}
"""


def test_controllers_can_be_selected_by_one_name() -> None:
    gone = excluded_programs(["controllers"])
    ground = DriverEnvironment(Kubelets(), {}, Features("1.36"), "boot")
    left = {"compute-domains", "drivers", "joining", "kubelets", "scheduler", "volume-provisioner"}
    issuers = Issuers(lambda account, secret: "", "", Path())
    assert set(programs(ground, NodeDrivers("drivers", ground), gone, issuers=issuers)) == left
    assert gone | left | {"controllers"} == set(NAMES)


def test_an_unknown_program_is_reported() -> None:
    with pytest.raises(UnknownProgram, match="unknown program 'schedular': expected one of controllers, "):
        Lab(without=["schedular"])


def test_without_a_scheduler_pods_are_bound_by_others() -> None:
    with Lab(fleet="t4-4x-pcie", speed=20, without=["scheduler"]) as lab:
        lab.apply(POD)
        assert "nodeName" not in lab.get("pod", "waiting")["spec"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "waiting"},
            "target": {"kind": "Node", "name": "t4-4x-pcie-1"},
        }
        lab.client.create(lab.resource("pod"), binding, "default", name="waiting", subresource="binding")
        (pod,) = lab.wait("pod/waiting")
        assert pod["spec"]["nodeName"] == "t4-4x-pcie-1"


def test_without_kubelets_nodes_are_not_registered() -> None:
    assert excluded_programs(["kubelets"]) == {"joining", "kubelets"}

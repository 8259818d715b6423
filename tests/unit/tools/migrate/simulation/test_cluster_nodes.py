"""The remaining resources of a cluster's nodes, minus those of running pods."""

from __future__ import annotations

from allotment.model.core import Pod
from allotment.model.trees import Tree, to_value
from allotment.tools.migrate.simulation.cluster_nodes import extended_of

GPU = "nvidia.com/gpu"


def container(name: str, gpus: int, **more: str) -> Tree:
    return {"name": name, "resources": {"limits": {GPU: str(gpus), "cpu": "1"}}, **more}


def test_gpus_of_an_init_container_add_to_those_of_earlier_sidecars() -> None:
    sidecar = container("sidecar", 1, restartPolicy="Always")
    before = {"initContainers": [sidecar, container("init", 4)], "containers": [container("main", 2)]}
    after = {"initContainers": [container("init", 4), sidecar], "containers": [container("main", 2)]}
    assert [extended_of(to_value({"spec": spec}, Pod)) for spec in (before, after)] == [{GPU: 5}, {GPU: 4}]

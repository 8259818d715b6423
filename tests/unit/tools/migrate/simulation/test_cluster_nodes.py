"""What is left of the nodes of a cluster beside the pods that run there."""

from __future__ import annotations

from allotment.model.core import Pod
from allotment.model.trees import Tree, to_value
from allotment.tools.migrate.simulation.cluster_nodes import extended_of

GPU = "nvidia.com/gpu"


def container(name: str, gpus: int, **more: str) -> Tree:
    return {"name": name, "resources": {"limits": {GPU: str(gpus), "cpu": "1"}}, **more}


def test_an_init_container_has_its_gpus_beside_those_of_sidecars_before_it() -> None:
    sidecar = container("sidecar", 1, restartPolicy="Always")
    before = {"initContainers": [sidecar, container("init", 4)], "containers": [container("main", 2)]}
    after = {"initContainers": [container("init", 4), sidecar], "containers": [container("main", 2)]}
    assert [extended_of(to_value({"spec": spec}, Pod)) for spec in (before, after)] == [{GPU: 5}, {GPU: 4}]

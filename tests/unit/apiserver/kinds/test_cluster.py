from tests.unit.apiserver.shelf import created, updated, write


def test_new_nodes_get_a_not_ready_taint_unless_simulated() -> None:
    result, _ = created("nodes", {"metadata": {"name": "n"}}, write())
    assert result["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    result, _ = created("nodes", {"metadata": {"name": "n"}}, write(user="system:node:simulated"))
    assert not (result.get("spec") or {}).get("taints")


def test_a_namespace_gets_a_name_label_and_a_finalizer() -> None:
    result, errors = created("namespaces", {"metadata": {"name": "shop"}}, write(namespace=""))
    assert errors == []
    assert result["metadata"]["labels"] == {"kubernetes.io/metadata.name": "shop"}
    assert (result["spec"], result["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})


def test_system_priorities_are_reserved() -> None:
    _, errors = created(
        "priorityclasses.scheduling.k8s.io", {"metadata": {"name": "high"}, "value": 2_000_000_000}, write()
    )
    assert errors == ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"]


def test_the_value_of_a_priority_class_is_immutable() -> None:
    old = {"metadata": {"name": "a"}, "value": 1, "preemptionPolicy": "Never"}
    assert updated("priorityclasses.scheduling.k8s.io", {**old, "value": 2}, old, write())[1] == [
        "value: Forbidden: may not be changed in an update."
    ]

from allotment.model.quota import is_in_scope, usage
from allotment.model.trees import Tree

CLAIMS = "resourceclaims.resource.k8s.io"


def usage_of(bucket: str, tree: Tree, extended: str = "") -> dict[str, str]:
    return {name: str(amount) for name, amount in sorted(usage(bucket, tree, lambda class_name: extended).items())}


def container(**requests: str) -> Tree:
    return {"name": "c", "resources": {"requests": requests}}


def test_claim_counts_as_object_devices_and_extended_resource() -> None:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}}
    assert usage_of(CLAIMS, {"spec": {"devices": {"requests": [request]}}}, "example.com/gpu") == {
        f"count/{CLAIMS}": "1",
        "gpu.deviceclass.resource.k8s.io/devices": "2",
        "requests.deviceclass.resource.kubernetes.io/gpu": "2",
        "requests.example.com/gpu": "2",
    }


def test_maximum_of_alternatives_counts_for_each_class() -> None:
    alternatives = [
        {"deviceClassName": "large", "count": 1}, {"deviceClassName": "small", "count": 4},
        {"deviceClassName": "small", "allocationMode": "All"},
    ]  # fmt: skip
    found = usage_of(CLAIMS, {"spec": {"devices": {"requests": [{"name": "r", "firstAvailable": alternatives}]}}})
    assert found["large.deviceclass.resource.k8s.io/devices"] == "1"
    assert found["small.deviceclass.resource.k8s.io/devices"] == "32"


def test_finished_pods_count_only_as_objects() -> None:
    pod = {"spec": {"containers": [container(cpu="1")]}, "status": {"phase": "Failed"}}
    assert usage_of("pods", pod) == {"count/pods": "1"}


def test_extended_resources_count_under_requests() -> None:
    pod = {"spec": {"containers": [container(**{"example.com/gpu": "2"})]}}
    assert usage_of("pods", pod) == {"count/pods": "1", "pods": "1", "requests.example.com/gpu": "2"}


def test_scopes_select_pods() -> None:
    best_effort = {"spec": {}, "status": {"qosClass": "BestEffort"}}
    assert is_in_scope({"scopes": ["BestEffort"]}, "pods", best_effort)
    assert not is_in_scope({"scopes": ["NotBestEffort"]}, "pods", best_effort)
    assert not is_in_scope({"scopes": ["BestEffort"]}, "configmaps", {})
    high = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}
    assert is_in_scope({"scopeSelector": high}, "pods", {"spec": {"priorityClassName": "high"}})
    assert not is_in_scope({"scopeSelector": high}, "pods", {"spec": {}})

import gzip
import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from allotment.apiserver.kinds.binding_and_eviction import bind, evict
from allotment.apiserver.kinds.pod_spec_diff import pod_spec_text, unified_diff
from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree
from tests.unit.apiserver.shelf import Shelf, created, updated, write

RESOURCES = "spec.containers[0].resources"
ALWAYS = "requiredDuringSchedulingIgnoredDuringExecution"


def shelf(*more: tuple[str, Tree]) -> Shelf:
    account = {"metadata": {"name": "default", "namespace": "ns", "uid": "a-1"}}
    return Shelf([("serviceaccounts", account), *more])


def pod(**spec: Any) -> Tree:
    containers = spec.pop("containers", [{"name": "c", "image": "busybox"}])
    return {"metadata": {"name": "p", "namespace": "ns"}, "spec": {"containers": containers, **spec}}


def container(name: str, cpu: str) -> Tree:
    return {"name": name, "image": "x", "resources": {"limits": {"cpu": cpu}}}


def admitted(tree: Tree, *more: tuple[str, Tree], subresource: str = "") -> Tree:
    result, errors = created("pods", tree, write(shelf(*more), subresource=subresource))
    assert errors == []
    return result


def rejection(tree: Tree, *more: tuple[str, Tree]) -> str:
    with pytest.raises(StatusError) as refusal:
        created("pods", tree, write(shelf(*more)))
    return str(refusal.value)


def test_a_new_pod_gets_a_token_tolerations_a_priority_and_a_status() -> None:
    result = admitted(pod())
    spec = result["spec"]
    assert spec["serviceAccountName"] == spec["serviceAccount"] == "default"
    volume = spec["volumes"][0]["name"]
    assert volume.startswith("kube-api-access-")
    mount = {"name": volume, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    assert spec["containers"][0]["volumeMounts"] == [mount]
    assert {item["key"]: item["tolerationSeconds"] for item in spec["tolerations"]} == {
        "node.kubernetes.io/not-ready": 300,
        "node.kubernetes.io/unreachable": 300,
    }
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert result["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_admission_does_not_modify_its_argument() -> None:
    original = pod(initContainers=[{"name": "i", "image": "x"}])
    before = deepcopy(original)
    created("pods", original, write(shelf()))
    before["metadata"]["uid"] = original["metadata"]["uid"]
    assert original == before


def test_a_service_account_can_disable_token_mounting() -> None:
    without_token = {"metadata": {"name": "quiet", "namespace": "ns"}, "automountServiceAccountToken": False}
    result = admitted(pod(serviceAccountName="quiet"), ("serviceaccounts", without_token))
    assert "volumes" not in result["spec"]


def test_existing_tolerations_of_unreachable_nodes_are_kept() -> None:
    result = admitted(pod(tolerations=[{"operator": "Exists"}]))
    assert result["spec"]["tolerations"] == [{"operator": "Exists"}]


def test_a_missing_service_account_is_reported() -> None:
    assert rejection(pod(serviceAccountName="ghost")) == (
        'pods "p" is forbidden: error looking up service account ns/ghost: serviceaccount "ghost" not found'
    )


def test_a_missing_priority_class_is_reported() -> None:
    assert rejection(pod(priorityClassName="ghost")) == (
        'pods "p" is forbidden: no PriorityClass with name ghost was found'
    )


def test_the_default_priority_class_is_used() -> None:
    default_class = {
        "metadata": {"name": "default-class"},
        "value": 7,
        "globalDefault": True,
        "preemptionPolicy": "Never",
    }
    spec = admitted(pod(), ("priorityclasses.scheduling.k8s.io", default_class))["spec"]
    assert (spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"]) == ("default-class", 7, "Never")


def test_gated_pods_have_a_condition() -> None:
    condition = admitted(pod(schedulingGates=[{"name": "example.com/wait"}]))["status"]["conditions"][0]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")


def test_limit_ranges_set_defaults_and_enforce_bounds() -> None:
    bounds = {
        "metadata": {"name": "lr", "namespace": "ns"},
        "spec": {
            "limits": [
                {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}, "max": {"cpu": "2"}}
            ]
        },
    }
    result = admitted(pod(), ("limitranges", bounds))
    assert result["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}}
    assert result["status"]["qosClass"] == "Burstable"
    assert (
        "LimitRanger plugin set: cpu request for container c; cpu limit"
        in result["metadata"]["annotations"]["kubernetes.io/limit-ranger"]
    )
    over_limit = pod(containers=[{"name": "c", "image": "x", "resources": {"limits": {"cpu": "3"}}}])
    assert rejection(over_limit, ("limitranges", bounds)) == (
        'pods "p" is forbidden: maximum cpu usage per Container is 2, but limit is 3'
    )


def test_limit_ranges_of_pods_count_the_peak_usage() -> None:
    bounds = {"metadata": {"name": "lr", "namespace": "ns"}, "spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}}
    parts: Tree = {
        "initContainers": [{**container("proxy", "100m"), "restartPolicy": "Always"}, container("init", "950m")],
        "containers": [container("main", "200m")],
    }
    message = 'pods "p" is forbidden: maximum cpu usage per Pod is 1, but limit is '
    assert rejection(pod(**parts), ("limitranges", bounds)) == f"{message}1050m"
    pod_level = {"limits": {"cpu": "2"}}
    assert rejection(pod(**{**parts, "resources": pod_level}), ("limitranges", bounds)) == f"{message}2"
    admitted(pod(**{**parts, "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}}), ("limitranges", bounds))
    per_container = {**bounds, "spec": {"limits": [{"type": "Container", "max": {"cpu": "500m"}}]}}
    assert rejection(pod(**parts), ("limitranges", per_container)) == (
        'pods "p" is forbidden: maximum cpu usage per Container is 500m, but limit is 950m'
    )


def test_quotas_count_existing_pods() -> None:
    quota = {"metadata": {"name": "q", "namespace": "ns"}, "spec": {"hard": {"pods": "1", "requests.cpu": "4"}}}
    cpu = [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]
    admitted(pod(containers=cpu), ("resourcequotas", quota))
    other: Tree = {
        "metadata": {"name": "o", "namespace": "ns"},
        "spec": {"containers": cpu},
        "status": {"phase": "Running"},
    }
    assert rejection(pod(containers=cpu), ("resourcequotas", quota), ("pods", other)) == (
        'pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
    )
    other["status"]["phase"] = "Succeeded"
    admitted(pod(containers=cpu), ("resourcequotas", quota), ("pods", other))
    assert rejection(pod(), ("resourcequotas", quota)) == (
        'pods "p" is forbidden: failed quota: q: must specify requests.cpu for: c'
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": []}, "spec.containers: Required value"),
        (
            {"restartPolicy": "Maybe"},
            'spec.restartPolicy: Unsupported value: "Maybe": supported values: "Always", "OnFailure", "Never"',
        ),
        (
            {
                "containers": [
                    {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}
                ]
            },
            'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
        ),
        (
            {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]},
            "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
        ),
        (
            {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"gpu": "1"}}}]},
            f'{RESOURCES}.limits[gpu]: Invalid value: "gpu": must be a standard resource for containers',
        ),
        (
            {"containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]},
            'spec.containers[0].volumeMounts[0].name: Not found: "v"',
        ),
        (
            {"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "j"}]},
            'spec.containers[1].name: Duplicate value: "c"',
        ),
        (
            {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 70000}]}]},
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        ({"volumes": [{"name": "v", "hostPath": {}}]}, "spec.volumes[0].hostPath.path: Required value"),
        (
            {"tolerations": [{"key": "k", "operator": "Exists", "value": "x"}]},
            "spec.tolerations[0].operator: Invalid value: \"x\": value must be empty when `operator` is 'Exists'",
        ),
        (
            {"nodeName": "n", "schedulingGates": [{"name": "g"}]},
            "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
        ),
        (
            {"affinity": {"podAffinity": {ALWAYS: [{"topologyKey": ""}]}}},
            f"spec.affinity.podAffinity.{ALWAYS}[0].topologyKey: Required value: can not be empty",
        ),
    ],
)
def test_validation_errors_have_kubernetes_texts(spec: Tree, expected: str) -> None:
    _, errors = created("pods", pod(**spec), write(shelf()))
    assert expected in errors


def test_sysctls_have_distinct_names_of_namespaces_that_the_pod_does_not_share_with_its_host() -> None:
    names = ["bar..", "", "net.ipv4.x", "net/ipv4.x", "kernel.shm", "kernel.shm", "vm.x"]
    sysctls = [{"name": name, "value": "1"} for name in names]
    spec = {"hostNetwork": True, "hostIPC": True, "securityContext": {"sysctls": sysctls}}
    path = "spec.securityContext.sysctls"
    pattern = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
    network, ipc = (f"may not be specified when '{field}' is true" for field in ("hostNetwork", "hostIPC"))
    assert created("pods", pod(**spec), write(shelf()))[1] == [
        f'{path}[0].name: Invalid value: "bar..": must have at most 253 characters and match regex {pattern}',
        f"{path}[1].name: Required value",
        f'{path}[2].name: Invalid value: "net.ipv4.x": {network}',
        f'{path}[3].name: Invalid value: "net/ipv4.x": {network}',
        f'{path}[4].name: Invalid value: "kernel.shm": {ipc}',
        f'{path}[5].name: Duplicate value: "kernel.shm"',
        f'{path}[5].name: Invalid value: "kernel.shm": {ipc}',
    ]
    assert created("pods", pod(securityContext={"sysctls": sysctls[-1:]}), write(shelf()))[1] == []


def test_diffs_of_forbidden_updates_match_the_recordings(shared: Callable[[str], Path]) -> None:
    with gzip.open(shared("vectors/apiserver/26-pods.jsonl.gz"), "rt") as lines:
        rows = {row["seq"]: row for row in map(json.loads, lines)}

    def spec(number: int) -> Tree:
        found: Tree = rows[number]["response"]["body"]["spec"]
        return found

    def message(number: int) -> str:
        return str(rows[number]["response"]["body"]["details"]["causes"][0]["message"]).partition("\n")[2]

    old, new = spec(2), deepcopy(spec(2))
    new["containers"][0]["command"] = ["x"]
    assert unified_diff(pod_spec_text(old, "1.36"), pod_spec_text(new, "1.36")) == message(8)
    new = {**spec(9), "nodeName": "a100-node"}
    assert unified_diff(pod_spec_text(spec(9), "1.36"), pod_spec_text(new, "1.36")) == message(10)


def test_the_internal_types_of_1_37_have_host_namespaces_in_the_pod() -> None:
    host = {"containers": [], "hostNetwork": True, "securityContext": {"runAsUser": 1}}
    before, after = (json.loads(pod_spec_text(host, release)) for release in ("1.36", "1.37"))
    assert (before["SecurityContext"]["HostNetwork"], after["HostNetwork"]) == (True, True)
    assert "HostNetwork" not in after["SecurityContext"]
    assert pod_spec_text(host, "1.34") == pod_spec_text(host, "1.36")


def test_a_list_that_a_client_sent_empty_is_not_null_in_a_message() -> None:
    printed = json.loads(pod_spec_text({"containers": [{"name": "c", "args": []}]}, "1.37"))["Containers"][0]
    assert (printed["Args"], printed["Command"]) == ([], None)


def test_most_fields_of_a_pod_are_immutable() -> None:
    old = admitted(pod())
    new = deepcopy(old)
    new["spec"]["containers"][0]["image"] = "busybox:2"
    assert updated("pods", new, old, write(shelf()))[1] == []
    new["spec"]["nodeSelector"] = {"a": "b"}
    (error,) = updated("pods", new, old, write(shelf()))[1]
    assert error.startswith("spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`")
    assert '+ "NodeSelector": {' in error


def test_the_node_selector_of_a_gated_pod_can_only_be_narrowed() -> None:
    old = admitted(pod(schedulingGates=[{"name": "g"}], nodeSelector={"a": "b"}))
    narrower = deepcopy(old)
    narrower["spec"]["nodeSelector"]["c"] = "d"
    del narrower["spec"]["schedulingGates"]
    assert updated("pods", narrower, old, write(shelf()))[1] == []
    wider = deepcopy(old)
    del wider["spec"]["nodeSelector"]
    assert len(updated("pods", wider, old, write(shelf()))[1]) == 1


def test_applying_a_manifest_again_keeps_fields_set_by_admission() -> None:
    old = admitted(pod())
    manifest = deepcopy(old)
    for name in ("priority", "preemptionPolicy", "tolerations"):
        del manifest["spec"][name]
    result, errors = updated("pods", manifest, old, write(shelf()))
    assert errors == []
    assert result["spec"]["priority"] == 0
    assert result["spec"]["tolerations"] == old["spec"]["tolerations"]


def test_status_writes_do_not_change_the_spec() -> None:
    old = admitted(pod())
    new = deepcopy(old)
    new["spec"]["nodeName"], new["status"] = "n", {"phase": "Running"}
    result, errors = updated("pods", new, old, write(shelf(), subresource="status"))
    assert errors == []
    assert result["spec"] == old["spec"]
    assert result["status"] == {"phase": "Running", "qosClass": "BestEffort"}


def test_a_resize_cannot_change_the_qos_class() -> None:
    old = admitted(pod())
    new = deepcopy(old)
    new["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    assert updated("pods", new, old, write(shelf(), subresource="resize"))[1] == [
        'spec: Invalid value: "BestEffort": Pod QOS Class may not change as a result of resizing'
    ]
    burstable = [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]
    old = admitted(pod(containers=burstable))
    new = deepcopy(old)
    new["spec"]["containers"][0].update(image="other", resources={"requests": {"cpu": "2"}})
    result, errors = updated("pods", new, old, write(shelf(), subresource="resize"))
    assert errors == []
    assert result["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "2"}}
    assert result["spec"]["containers"][0]["image"] == "x"


# --- binding and eviction --------------------------------------------------------------------------------------------


def binding(node: str) -> Tree:
    return {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": node}}


def test_a_pod_can_be_bound_once() -> None:
    unbound = admitted(pod())
    unbound["status"]["nominatedNodeName"] = "n1"
    bound = bind(unbound, "p", binding("n1"), write())
    assert bound["spec"]["nodeName"] == "n1"
    assert [(c["type"], c["status"]) for c in bound["status"]["conditions"]] == [("PodScheduled", "True")]
    assert "nominatedNodeName" not in bound["status"]
    assert "nodeName" not in unbound["spec"]
    with pytest.raises(StatusError) as refusal:
        bind(bound, "p", binding("n2"), write())
    assert refusal.value.code == 409
    assert str(refusal.value).endswith('pod p is already assigned to node "n1"')


def test_a_binding_without_a_target_is_rejected() -> None:
    with pytest.raises(StatusError) as refusal:
        bind(admitted(pod()), "p", {"metadata": {"name": "p"}, "target": {}}, write())
    assert (refusal.value.code, str(refusal.value)) == (500, "target.name: Required value")


@pytest.mark.parametrize("named", [{}, {"metadata": {"name": "other"}}])
def test_bindings_and_evictions_have_the_name_of_the_pod(named: Tree) -> None:
    with pytest.raises(StatusError, match="name in URL does not match name in Binding object"):
        bind(admitted(pod()), "p", {**named, "target": {"name": "n1"}}, write())
    with pytest.raises(StatusError, match="name in URL does not match name in Eviction object"):
        evict(admitted(pod()), "p", named, write())


def budget(allowed: int) -> Tree:
    return {
        "metadata": {"name": "b", "namespace": "ns", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "minAvailable": 1},
        "status": {"observedGeneration": 1, "disruptionsAllowed": allowed, "desiredHealthy": 1, "currentHealthy": 1},
    }


def test_evictions_are_counted_by_the_disruption_budget() -> None:
    running = admitted(pod())
    running["metadata"]["labels"] = {"app": "x"}
    running["status"].update(phase="Running", conditions=[{"type": "Ready", "status": "True"}])
    eviction = evict(
        running, "p", {"metadata": {"name": "p"}}, write(shelf(("poddisruptionbudgets.policy", budget(1))))
    )
    assert eviction.budget is not None
    assert eviction.budget["status"]["disruptionsAllowed"] == 0
    assert eviction.budget["status"]["disruptedPods"] == {"p": "2026-01-02T03:04:05Z"}
    assert eviction.pod["status"]["conditions"][-1]["reason"] == "EvictionByEvictionAPI"
    with pytest.raises(StatusError) as refusal:
        evict(running, "p", {"metadata": {"name": "p"}}, write(shelf(("poddisruptionbudgets.policy", budget(0)))))
    assert refusal.value.code == 429
    assert refusal.value.status["details"]["causes"][0]["message"] == (
        "The disruption budget b needs 1 healthy pods and has 1 currently"
    )

from copy import deepcopy
from typing import Any

import pytest

from allotment.apiserver.kinds.autoscalers import autoscaler_from_version, autoscaler_to_version
from allotment.apiserver.kinds.cron_jobs import schedule_problem
from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree
from tests.unit.apiserver.shelf import KINDS, Shelf, created, updated, write

TEMPLATE: Tree = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def named(name: str = "x", **more: Any) -> Tree:
    return {"metadata": {"name": name, "namespace": "ns"}, **more}


# --- services --------------------------------------------------------------------------------------------------------


def service(**spec: Any) -> Tree:
    return named(
        spec={
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            **spec,
        }
    )


def test_services_get_addresses_of_their_own() -> None:
    shelf = Shelf()
    taken = set()
    for number in range(20):
        tree = service()
        tree["metadata"].update(name=f"s{number}", uid=f"u{number}")
        made, errors = created("services", tree, write(shelf))
        assert errors == []
        assert made["spec"]["clusterIPs"] == [made["spec"]["clusterIP"]]
        assert made["spec"]["clusterIP"].startswith("10.96.")
        taken.add(made["spec"]["clusterIP"])
        shelf.put("services", made)
    assert len(taken) == 20


def test_node_ports_are_chosen_from_their_range() -> None:
    made, errors = created("services", service(type="NodePort"), write())
    assert errors == []
    assert 30000 <= made["spec"]["ports"][0]["nodePort"] <= 32767


def test_addresses_asked_for_are_in_range_and_free() -> None:
    other = service(clusterIP="10.96.0.10")
    other["metadata"]["uid"] = "other"
    refused = r'spec.clusterIPs: Invalid value: \["10.96.0.10"\]: failed to allocate IP 10.96.0.10: provided IP is alr'
    with pytest.raises(StatusError, match=refused):
        created("services", service(clusterIP="10.96.0.10"), write(Shelf([("services", other)])))
    with pytest.raises(StatusError, match=r"is not in the valid range. The range of valid IPs is 10.96.0.0/16"):
        created("services", service(clusterIP="1.2.3.4"), write())
    with pytest.raises(StatusError, match="range of valid ports is 30000-32767"):
        created("services", service(type="NodePort", ports=[{"port": 80, "protocol": "TCP", "nodePort": 80}]), write())


def test_a_service_changes_its_type_and_keeps_what_fits() -> None:
    old, _ = created("services", service(type="LoadBalancer", externalTrafficPolicy="Local"), write())
    assert old["spec"]["healthCheckNodePort"]
    new = deepcopy(old)
    new["spec"]["type"] = "NodePort"
    made, errors = updated("services", new, old, write())
    assert errors == []
    assert made["spec"]["ports"] == old["spec"]["ports"]
    assert "healthCheckNodePort" not in made["spec"]
    new["spec"]["type"] = "ClusterIP"
    made, errors = updated("services", new, old, write())
    assert errors == []
    assert "nodePort" not in made["spec"]["ports"][0]
    assert made["spec"]["clusterIP"] == old["spec"]["clusterIP"]
    outside = {"type": "ExternalName", "externalName": "a.example"}
    made, errors = updated("services", named(spec={**new["spec"], **outside}), old, write())
    assert errors == []
    assert not {"clusterIP", "clusterIPs", "ipFamilies"} & made["spec"].keys()


def test_a_headless_service_without_pods_may_be_of_both_families() -> None:
    made, errors = created("services", service(clusterIP="None", ports=[]), write())
    assert errors == []
    assert made["spec"]["ipFamilies"] == ["IPv4", "IPv6"]
    made, errors = created("services", service(clusterIP="None", selector={"a": "b"}), write())
    assert made["spec"]["ipFamilies"] == ["IPv4"]


def test_services_warn_of_what_they_ignore() -> None:
    told: list[str] = []
    tree = service(externalIPs=["1.2.3.4"], externalName="x", internalTrafficPolicy="Cluster")
    tree["spec"]["externalTrafficPolicy"] = "Cluster"
    assert created("services", tree, write()._replace(warn=told.append))[1] == []
    assert told == [
        "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        'spec.externalName is ignored when spec.type is not "ExternalName"',
    ]


def test_an_address_stays_when_a_manifest_without_it_is_applied() -> None:
    old, _ = created("services", service(), write())
    made, errors = updated("services", service(), old, write())
    assert errors == []
    assert made["spec"]["clusterIP"] == old["spec"]["clusterIP"]
    moved = service(clusterIP="10.96.9.9")
    assert updated("services", moved, old, write())[1] == [
        'spec.clusterIPs[0]: Invalid value: ["10.96.9.9"]: may not change once set'
    ]


# --- workloads -------------------------------------------------------------------------------------------------------


def deployment(**spec: Any) -> Tree:
    return named(spec={"selector": {"matchLabels": {"app": "x"}}, "template": deepcopy(TEMPLATE), **spec})


def test_a_plain_deployment_passes() -> None:
    assert created("deployments.apps", deployment(), write())[1] == []


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"selector": None}, "spec.selector: Required value"),
        (
            {"selector": {"matchLabels": {"app": "y"}}},
            'spec.template.metadata.labels: Invalid value: {"app":"x"}: `selector` does not match template `labels`',
        ),
        ({"replicas": -1}, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        (
            {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}},
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
        ),
    ],
)
def test_mistakes_in_deployments(spec: Tree, wanted: str) -> None:
    assert wanted in created("deployments.apps", deployment(**spec), write())[1]


def test_only_the_server_counts_changes_of_a_daemon_sets_template() -> None:
    word = "deprecated.daemonset.template.generation"
    spec = {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}
    old, errors = created("daemonsets.apps", named(spec=spec), write())
    assert errors == []
    assert old["metadata"]["annotations"] == {word: "1"}
    new = deepcopy(old)
    new["metadata"]["annotations"] = {word: "7", "a": "b"}
    same, _ = updated("daemonsets.apps", new, old, write())
    assert same["metadata"]["annotations"] == {word: "1", "a": "b"}
    new["spec"]["template"]["spec"]["containers"][0]["image"] = "j"
    changed, _ = updated("daemonsets.apps", new, old, write())
    assert changed["metadata"]["annotations"] == {word: "2", "a": "b"}


def test_a_stateful_set_mounts_what_it_claims() -> None:
    template = deepcopy(TEMPLATE)
    template["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    claim: Tree = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    spec = {"selector": {"matchLabels": {"app": "x"}}, "template": template, "volumeClaimTemplates": [claim]}
    missing = "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value"
    assert created("statefulsets.apps", named(spec=spec), write())[1] == [missing]
    claim["spec"]["resources"] = {"requests": {"storage": "1Gi"}}
    assert created("statefulsets.apps", named(spec=spec), write())[1] == []


def test_how_many_pods_of_a_stateful_set_may_be_away_is_not_a_field_yet() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 2}}
    spec = {**deployment()["spec"], "podManagementPolicy": "Parallel", "updateStrategy": strategy}
    made, errors = created("statefulsets.apps", named(spec=spec), write())
    assert errors == []
    assert made["spec"]["updateStrategy"]["rollingUpdate"] == {"partition": 0}


def test_a_selector_never_changes() -> None:
    old, _ = created("deployments.apps", deployment(), write())
    new = deepcopy(old)
    new["spec"]["selector"]["matchLabels"]["more"] = "z"
    new["spec"]["template"]["metadata"]["labels"]["more"] = "z"
    assert updated("deployments.apps", new, old, write())[1] == [
        'spec.selector: Invalid value: {"matchLabels":{"app":"x","more":"z"}}: field is immutable'
    ]


def job(**spec: Any) -> Tree:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    return named(spec={"template": template, **spec})


def test_jobs_get_a_selector_of_their_own() -> None:
    made, errors = created("jobs.batch", job(), write())
    assert errors == []
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u-1"}}
    assert made["spec"]["template"]["metadata"]["labels"]["job-name"] == "x"
    assert made["metadata"]["labels"] == made["spec"]["template"]["metadata"]["labels"]


def test_jobs_end() -> None:
    always = job()
    always["spec"]["template"]["spec"]["restartPolicy"] = "Always"
    assert created("jobs.batch", always, write())[1] == [
        'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'
    ]


def test_the_labels_of_a_jobs_pods_are_the_servers() -> None:
    labelled = job()
    labelled["spec"]["template"]["metadata"] = {"labels": {"app": "x", "job-name": "other"}}
    made, errors = created("jobs.batch", labelled, write())
    assert made["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "x"
    assert [error.partition(":")[0] for error in errors] == ["spec.template.metadata.labels[job-name]"]


def test_completions_of_indexed_jobs_change_with_parallelism() -> None:
    old, _ = created("jobs.batch", job(completionMode="Indexed", completions=2, parallelism=2), write())
    new = deepcopy(old)
    new["spec"]["completions"] = 3
    wanted = "spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism"
    assert updated("jobs.batch", new, old, write())[1] == [wanted]
    new["spec"]["parallelism"] = 3
    assert updated("jobs.batch", new, old, write())[1] == []


def test_pods_of_a_job_that_waits_may_still_be_moved() -> None:
    old, _ = created("jobs.batch", job(suspend=True), write())
    new = deepcopy(old)
    new["spec"]["template"]["spec"]["nodeSelector"] = {"a": "b"}
    new["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    assert updated("jobs.batch", new, old, write())[1] == []
    old["spec"]["suspend"] = False
    (error,) = updated("jobs.batch", new, old, write())[1]
    assert error.startswith('spec.template: Invalid value: {"labels":{')
    assert '"Spec":{"Volumes":null,' in error
    assert error.endswith("}}: field is immutable")


@pytest.mark.parametrize("text", ["*/5 * * * *", "0 0 1 jan sun", "0-30/10,45 8-18 * * 1-5", "@daily", "@every 1h30m"])
def test_schedules_that_can_be_read(text: str) -> None:
    assert schedule_problem(text) == ""


@pytest.mark.parametrize(
    "text", ["* * *", "60 * * * *", "* * 0 * *", "*/0 * * * *", "a * * * *", "5-1 * * * *", "@never"]
)
def test_schedules_that_cannot(text: str) -> None:
    assert schedule_problem(text)


# --- configuration ---------------------------------------------------------------------------------------------------


def test_immutable_configuration_stays() -> None:
    old = named(data={"a": "1"}, immutable=True)
    assert updated("configmaps", named(data={"a": "2"}, immutable=True), old, write())[1] == [
        "data: Forbidden: field is immutable when `immutable` is set"
    ]
    assert updated("configmaps", named(data={"a": "1"}), old, write())[1] == [
        "immutable: Forbidden: field is immutable when `immutable` is set"
    ]


def test_strings_of_a_secret_become_data() -> None:
    given = named(stringData={"u": "p"})
    made, errors = created("secrets", given, write())
    assert errors == []
    assert (made["data"], made["type"]) == ({"u": "cA=="}, "Opaque")
    assert "stringData" not in made
    assert "stringData" in given


def test_secrets_of_a_type_have_its_keys() -> None:
    assert created("secrets", named(type="kubernetes.io/tls"), write())[1] == [
        "data[tls.crt]: Required value",
        "data[tls.key]: Required value",
    ]


def test_quotas_hold_for_every_kind() -> None:
    quota = named("q", spec={"hard": {"count/configmaps": "0"}})
    with pytest.raises(StatusError, match="exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=0"):
        created("configmaps", named(), write(Shelf([("resourcequotas", quota)])))


# --- the cluster -----------------------------------------------------------------------------------------------------


def test_new_nodes_are_not_ready_unless_simulated() -> None:
    made, _ = created("nodes", {"metadata": {"name": "n"}}, write())
    assert made["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    made, _ = created("nodes", {"metadata": {"name": "n"}}, write(user="system:node:simulated"))
    assert not (made.get("spec") or {}).get("taints")


def test_a_namespace_carries_its_name_and_the_finalizer() -> None:
    made, errors = created("namespaces", {"metadata": {"name": "shop"}}, write(namespace=""))
    assert errors == []
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "shop"}
    assert (made["spec"], made["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})


def test_system_priorities_are_the_systems() -> None:
    _, errors = created(
        "priorityclasses.scheduling.k8s.io", {"metadata": {"name": "high"}, "value": 2_000_000_000}, write()
    )
    assert errors == ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"]


def test_the_value_of_a_priority_class_stays() -> None:
    old = {"metadata": {"name": "a"}, "value": 1, "preemptionPolicy": "Never"}
    assert updated("priorityclasses.scheduling.k8s.io", {**old, "value": 2}, old, write())[1] == [
        "value: Forbidden: may not be changed in an update."
    ]


def test_events_are_where_their_object_is() -> None:
    event = named(involvedObject={"namespace": "other", "kind": "Pod", "name": "p"})
    assert created("events", event, write())[1] == [
        'involvedObject.namespace: Invalid value: "other": does not match event.namespace'
    ]


def test_events_are_the_same_in_both_groups() -> None:
    kind = KINDS["events.events.k8s.io"]
    assert kind.to_version is not None
    assert kind.from_version is not None
    stored = {"apiVersion": "v1", "kind": "Event", "message": "m", "involvedObject": {"kind": "Pod"}, "count": 2}
    new = kind.to_version(stored, "v1")
    assert (new["note"], new["regarding"], new["deprecatedCount"]) == ("m", {"kind": "Pod"}, 2)
    assert kind.from_version(new, "v1") == stored


def test_an_autoscaler_of_the_first_version_keeps_its_other_metrics() -> None:
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
    other = {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}}}
    stored = named(apiVersion="autoscaling/v2", spec={"maxReplicas": 3, "metrics": [cpu, other]}, status={})
    old = autoscaler_to_version(stored, "v1")
    assert old["spec"] == {"maxReplicas": 3, "targetCPUUtilizationPercentage": 80}
    assert autoscaler_from_version(old, "v1")["spec"] == stored["spec"]

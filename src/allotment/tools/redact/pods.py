"""Redaction of pods and pod templates to the fields that schedulers and drivers read."""

from __future__ import annotations

from allotment.model.pod_groups import group_name
from allotment.model.trees import Tree
from allotment.tools.redact.messages import redact_message
from allotment.tools.redact.pseudonyms import Pseudonyms, only
from allotment.vocabulary.driver_host_paths import driver_path
from allotment.vocabulary.kubernetes_programs import REGISTRY, feature_gates, gates_flag, program_of

_SPEC = (
    "schedulerName", "priority", "preemptionPolicy", "restartPolicy", "overhead", "resources", "schedulingGates",
    "hostNetwork", "terminationGracePeriodSeconds", "os",
)  # fmt: skip
_STATUS = ("phase", "qosClass", "startTime", "reason")
#: Resources of a pod or container on its node during a resize.
_AMOUNTS = ("resources", "allocatedResources")
_CONDITION = ("type", "status", "reason", "lastTransitionTime", "observedGeneration")


def pod_spec(names: Pseudonyms, spec: Tree) -> Tree:
    """The fields of a pod's spec that affect scheduling."""
    found = only(spec, _SPEC)
    names.keep("lease", spec.get("schedulerName") or "")  # the Lease of the scheduler has this name
    for field in ("initContainers", "containers"):
        if spec.get(field):
            found[field] = [_container(names, item) for item in spec[field]]
    if spec.get("nodeName"):
        found["nodeName"] = names.of("node", spec["nodeName"])
    if spec.get("priorityClassName"):
        found["priorityClassName"] = names.of("priority", spec["priorityClassName"])
    if group := group_name(spec):
        found["schedulingGroup"] = {"podGroupName": names.of("podgroup", group)}
    if spec.get("nodeSelector"):
        found["nodeSelector"] = names.labels(spec["nodeSelector"])
    for field in ("affinity", "topologySpreadConstraints"):
        if spec.get(field):
            found[field] = names.selectors(spec[field])
    if spec.get("tolerations"):
        found["tolerations"] = [keyed(names, item) for item in spec["tolerations"]]
    if spec.get("resourceClaims"):
        found["resourceClaims"] = [claim_entry(names, item) for item in spec["resourceClaims"]]
    for volume in spec.get("volumes") or ():
        # Volumes are removed, but a message of a scheduler may name one.
        names.of("volume", (volume.get("persistentVolumeClaim") or {}).get("claimName") or "")
    folders = [(volume.get("hostPath") or {}).get("path") or "" for volume in spec.get("volumes") or ()]
    kept = [kept_path for folder in folders if (kept_path := driver_path(folder))]
    if kept:
        found["volumes"] = [{"name": f"volume-{n}", "hostPath": {"path": folder}} for n, folder in enumerate(kept)]
    return found


def _container(names: Pseudonyms, container: Tree) -> Tree:
    found: Tree = {"name": names.of("container", container.get("name", ""))}
    if program := program_of(container.get("image") or ""):  # their releases and gates are compared by the doctor
        found["image"] = f"{REGISTRY}/{program.name}:{program.version}"
        if words := (*(container.get("command") or ()), *(container.get("args") or ())):
            found["command"] = [program.name, gates_flag(feature_gates(words))]
    elif container.get("image"):
        found["image"] = names.of("image", container["image"])
    ports = [only(item, ("containerPort", "hostPort", "protocol")) for item in container.get("ports") or ()]
    if ports:
        found["ports"] = ports
    return {**found, **only(container, ("resources", "restartPolicy"))}


def keyed(names: Pseudonyms, item: Tree) -> Tree:
    """A taint or toleration of a node, with its value redacted like that of a label."""
    return {**item, "value": names.value(str(item.get("key", "")), item["value"])} if item.get("value") else dict(item)


def claim_entry(names: Pseudonyms, entry: Tree) -> Tree:
    """An entry that refers to a claim or template."""
    found = dict(entry)
    for field, kind in (("resourceClaimName", "claim"), ("resourceClaimTemplateName", "template")):
        if entry.get(field):
            found[field] = names.of(kind, entry[field])
    return found


def pod_status(names: Pseudonyms, status: Tree) -> Tree:
    """The status of a pod, with the message of its scheduler."""
    found = only(status, (*_STATUS, *_AMOUNTS))
    if status.get("conditions"):
        found["conditions"] = [condition(names, item) for item in status["conditions"]]
    if status.get("nominatedNodeName"):
        found["nominatedNodeName"] = names.of("node", status["nominatedNodeName"])
    if status.get("resourceClaimStatuses"):
        found["resourceClaimStatuses"] = [claim_entry(names, item) for item in status["resourceClaimStatuses"]]
    for field in ("initContainerStatuses", "containerStatuses"):
        if status.get(field):
            found[field] = [_container_status(names, item) for item in status[field]]
    extended = status.get("extendedResourceClaimStatus")
    if extended:
        mappings = [
            {**item, "containerName": names.of("container", item.get("containerName", ""))}
            for item in extended.get("requestMappings") or ()
        ]
        claim = names.of("claim", extended.get("resourceClaimName", ""))
        found["extendedResourceClaimStatus"] = {"resourceClaimName": claim, "requestMappings": mappings}
    return found


def _container_status(names: Pseudonyms, status: Tree) -> Tree:
    """The status of a container: readiness, waiting reason, and the health of its devices."""
    kept = only(status, ("ready", "restartCount", *_AMOUNTS))
    found: Tree = {"name": names.of("container", status.get("name", "")), **kept}
    waiting = (status.get("state") or {}).get("waiting")
    if waiting:
        found["state"] = {"waiting": only(waiting, ("reason",))}
    if status.get("allocatedResourcesStatus"):
        found["allocatedResourcesStatus"] = [
            {"resources": [only(each, ("health",)) for each in item.get("resources") or ()]}
            for item in status["allocatedResourcesStatus"]
        ]
    return found


def condition(names: Pseudonyms, item: Tree) -> Tree:
    """A condition; only the message of PodScheduled is kept, because its possible names are known."""
    found = only(item, _CONDITION)
    if item.get("type") == "PodScheduled" and item.get("message"):
        found["message"] = redact_message(names, str(item["message"]))
    return found

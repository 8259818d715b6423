"""Describes pods: node, containers, claims with their devices, conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from allotment.cli.describe.page import NONE, Page, full
from allotment.model.trees import Tree


def pod(page: Page, tree: Tree, claims: Mapping[str, Tree]) -> None:
    """Describe a pod; ``claims``: its existing claims."""
    metadata, spec, status = tree["metadata"], tree.get("spec") or {}, tree.get("status") or {}
    page.field(0, "Name", metadata.get("name", ""))
    page.field(0, "Namespace", metadata.get("namespace", ""))
    page.field(0, "Priority", spec.get("priority", 0))
    if spec.get("priorityClassName"):
        page.field(0, "Priority Class Name", spec["priorityClassName"])
    page.field(0, "Service Account", spec.get("serviceAccountName") or "default")
    node, host = spec.get("nodeName"), status.get("hostIP")
    page.field(0, "Node", f"{node}/{host}" if node and host else node or NONE)
    if status.get("startTime"):
        page.field(0, "Start Time", full(status["startTime"]))
    page.mapping(0, "Labels", metadata.get("labels"))
    page.annotations(tree)
    _add_state(page, tree)
    page.field(0, "IP", status.get("podIP") or NONE)
    page.controller(tree)
    for field, label in (("initContainers", "Init Containers"), ("containers", "Containers")):
        if spec.get(field):
            page.line(0, f"{label}:")
            states = {entry.get("name"): entry for entry in status.get(f"{field[:-1]}Statuses") or ()}
            for container in spec[field]:
                _add_container(page, container, states.get(container.get("name"), {}))
    _add_claims(page, tree, claims)
    page.conditions(tree)
    _add_volumes(page, spec.get("volumes") or ())
    page.field(0, "QoS Class", status.get("qosClass") or NONE)
    page.mapping(0, "Node-Selectors", spec.get("nodeSelector"))
    page.several(0, "Tolerations", (toleration(entry) for entry in spec.get("tolerations") or ()))


def _add_state(page: Page, tree: Tree) -> None:
    status, metadata = tree.get("status") or {}, tree["metadata"]
    if deleted := metadata.get("deletionTimestamp"):
        page.field(0, "Status", f"Terminating (since {full(deleted)})")
        page.field(0, "Termination Grace Period", f"{metadata.get('deletionGracePeriodSeconds', 0)}s")
    else:
        page.field(0, "Status", status.get("phase") or NONE)
    for label, key in (("Reason", "reason"), ("Message", "message")):
        if status.get(key):
            page.field(0, label, status[key])


def _add_container(page: Page, container: Tree, status: Tree) -> None:
    page.line(1, f"{container.get('name')}:")
    if status.get("containerID"):
        page.field(2, "Container ID", status["containerID"])
    page.field(2, "Image", container.get("image", ""))
    ports = [f"{entry.get('containerPort')}/{entry.get('protocol') or 'TCP'}" for entry in container.get("ports") or ()]
    page.field(2, "Ports" if len(ports) > 1 else "Port", ", ".join(ports) or NONE)
    for label, key in (("Command", "command"), ("Args", "args")):
        if container.get(key):
            page.line(2, f"{label}:")
            for word in container[key]:
                for line in str(word).rstrip("\n").split("\n"):
                    page.line(3, line)
    if status:
        _add_run(page, "State", status.get("state"))
        if status.get("lastState"):
            _add_run(page, "Last State", status["lastState"])
        page.field(2, "Ready", "True" if status.get("ready") else "False")
        page.field(2, "Restart Count", status.get("restartCount", 0))
    resources = container.get("resources") or {}
    for label, key in (("Limits", "limits"), ("Requests", "requests")):
        if resources.get(key):
            page.line(2, f"{label}:")
            for name, amount in sorted(resources[key].items()):
                page.field(3, name, amount)
    if resources.get("claims"):
        words = (
            entry["name"] + (f"/{entry['request']}" if entry.get("request") else "") for entry in resources["claims"]
        )
        page.field(2, "Claims", ", ".join(words))
    for kind in ("liveness", "readiness", "startup"):
        if probe := container.get(f"{kind}Probe"):
            page.field(2, kind.capitalize(), _probe(probe))
    _add_environment(page, container)
    page.several(2, "Mounts", (_mount(entry) for entry in container.get("volumeMounts") or ()))


def _add_run(page: Page, label: str, state: Tree | None) -> None:
    name: str = next(iter(state or ()), "waiting")
    run: Tree = (state or {}).get(name) or {}
    page.field(2, label, name.capitalize())
    for key, words in (("reason", "Reason"), ("message", "Message"), ("exitCode", "Exit Code"), ("signal", "Signal")):
        if run.get(key) not in (None, ""):
            page.field(3, words, run[key])
    for key, words in (("startedAt", "Started"), ("finishedAt", "Finished")):
        if run.get(key):
            page.field(3, words, full(run[key]))


def _probe(probe: Tree) -> str:
    times = (
        f"delay={probe.get('initialDelaySeconds', 0)}s timeout={probe.get('timeoutSeconds', 1)}s "
        f"period={probe.get('periodSeconds', 10)}s #success={probe.get('successThreshold', 1)} "
        f"#failure={probe.get('failureThreshold', 3)}"
    )
    if http := probe.get("httpGet"):
        scheme = str(http.get("scheme") or "HTTP").lower()
        return f"http-get {scheme}://{http.get('host') or ''}:{http.get('port')}{http.get('path') or ''} {times}"
    if command := probe.get("exec"):
        return f"exec [{' '.join(command.get('command') or ())}] {times}"
    if socket := probe.get("tcpSocket"):
        return f"tcp-socket {socket.get('host') or ''}:{socket.get('port')} {times}"
    return f"grpc {(probe.get('grpc') or {}).get('port', '')} {times}"


def _add_environment(page: Page, container: Tree) -> None:
    if container.get("envFrom"):
        page.line(2, "Environment Variables from:")
        for entry in container["envFrom"]:
            kind = "ConfigMap" if "configMapRef" in entry else "Secret"
            source = entry.get("configMapRef") or entry.get("secretRef") or {}
            optional = "true" if source.get("optional") else "false"
            page.line(3, str(source.get("name", "")), kind, f"Optional: {optional}")
    variables = container.get("env") or ()
    page.line(2, "Environment:", *([] if variables else [NONE]))
    for entry in variables:
        page.field(3, str(entry.get("name")), _variable(entry))


def _variable(variable: Tree) -> str:
    source = variable.get("valueFrom") or {}
    if "fieldRef" in source:
        return f"({source['fieldRef'].get('apiVersion') or 'v1'}:{source['fieldRef'].get('fieldPath')})"
    if "resourceFieldRef" in source:
        return f"({source['resourceFieldRef'].get('resource')})"
    for key, label in (("secretKeyRef", "secret"), ("configMapKeyRef", "config map")):
        if key in source:
            return f"<set to the key '{source[key].get('key')}' of {label} '{source[key].get('name')}'>"
    return str(variable.get("value") or "")


def _mount(mount: Tree) -> str:
    path = f",path={mount['subPath']!r}" if mount.get("subPath") else ""
    return f"{mount.get('mountPath')} from {mount.get('name')} ({'ro' if mount.get('readOnly') else 'rw'}{path})"


def _add_claims(page: Page, tree: Tree, claims: Mapping[str, Tree]) -> None:
    """Add the pod's claims and their devices, which kubectl does not show."""
    entries = [(entry.get("name", ""), name, template) for entry, name, template in claims_of(tree)]
    extended = ((tree.get("status") or {}).get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
    entries += [("extended resources", extended, "")] if extended else []
    if not entries:
        return
    page.line(0, "Resource Claims:")
    for entry_name, name, template in entries:
        page.line(1, f"{entry_name}:")
        if template:
            page.field(2, "Template", template)
        page.field(
            2, "Claim", (name or "not created yet") if name in claims or not name else f"{name} (does not exist)"
        )
        if name in claims:
            page.field(2, "Devices", _devices(claims[name]))


def claims_of(tree: Tree) -> list[tuple[Tree, str, str]]:
    """Yield each claim entry of a pod with its claim, if it exists, and its template."""
    made = {status.get("name"): status for status in (tree.get("status") or {}).get("resourceClaimStatuses") or ()}
    found = []
    for entry in (tree.get("spec") or {}).get("resourceClaims") or ():
        own = entry.get("resourceClaimName") or made.get(entry.get("name"), {}).get("resourceClaimName") or ""
        found.append((entry, str(own), str(entry.get("resourceClaimTemplateName") or "")))
    return found


def _devices(claim: Tree) -> str:
    allocation = (claim.get("status") or {}).get("allocation")
    if not allocation:
        return "not allocated"
    results = (allocation.get("devices") or {}).get("results") or ()
    return (
        ", ".join(f"{result.get('device')} ({result.get('pool')}, {result.get('driver')})" for result in results)
        or NONE
    )


def _add_volumes(page: Page, volumes: Any) -> None:
    if not volumes:
        page.line(0, "Volumes:", NONE)
        return
    page.line(0, "Volumes:")
    for volume in volumes:
        kind, source = next(((key, value) for key, value in volume.items() if key != "name"), ("emptyDir", {}))
        page.line(1, f"{volume.get('name')}:")
        page.field(2, "Type", kind[:1].upper() + kind[1:])
        for key, value in sorted((source or {}).items()):
            if not isinstance(value, dict | list) and key != "defaultMode":
                page.field(2, key[:1].upper() + key[1:], value)


def toleration(entry: Tree) -> str:
    """Format a toleration as kubectl does.

    >>> toleration({"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
    'gpu:NoExecute op=Exists for 300s'
    """
    value = f"={entry['value']}" if entry.get("value") else ""
    effect = f":{entry['effect']}" if entry.get("effect") else ""
    exists = " op=Exists" if entry.get("operator") == "Exists" else ""
    seconds = f" for {entry['tolerationSeconds']}s" if entry.get("tolerationSeconds") is not None else ""
    return f"{entry.get('key') or ''}{value}{effect}{exists}{seconds}".strip()

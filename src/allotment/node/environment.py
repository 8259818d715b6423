"""A container's environment variables: those of the image, Kubernetes and the manifest, in that order."""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from allotment.cluster.client import Client, Resource
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import CONFIG_MAPS, SECRETS
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree
from allotment.node.device_view import ContainerDevice
from allotment.node.runtimes.runtime import NotStarted
from allotment.node.service_variables import service_variables

_REFERENCE: Final = re.compile(r"\$\$|\$\(([^)]*)\)")
_CONFIG_ERROR: Final = "CreateContainerConfigError"
_KEYED: Final = re.compile(r"(metadata\.(?:labels|annotations))\['([^']+)'\]")


async def environment_of(
    pod: Tree, spec: Tree, *, node: Tree, pod_ip: str, devices: tuple[ContainerDevice, ...],
    services: Callable[[str], Iterable[Tree]], client: Client,
) -> dict[str, str]:  # fmt: skip
    """The variables of a container. Raises NotStarted when a ConfigMap, a Secret or a key of it is missing."""
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOSTNAME": pod["metadata"]["name"],
        "HOME": "/root",
        **service_variables(pod, services),
    }
    uuids = [device.uuid for device in devices if "nvidia" in device.driver and device.uuid]
    if uuids:
        environment["NVIDIA_VISIBLE_DEVICES"] = ",".join(uuids)
    namespace = pod["metadata"].get("namespace", "")
    for source in spec.get("envFrom") or ():
        for kind, resource in (("configMapRef", CONFIG_MAPS), ("secretRef", SECRETS)):
            if kind in source:
                data = await data_of(client, resource, source[kind], namespace)
                environment |= {f"{source.get('prefix', '')}{key}": value for key, value in data.items()}
    for entry in spec.get("env") or ():
        if "valueFrom" not in entry:
            environment[entry["name"]] = resolved(entry.get("value", ""), environment)
            continue
        value = await _value(pod, spec, entry["valueFrom"], node, pod_ip, lambda r, s: data_of(client, r, s, namespace))
        if value is not None:
            environment[entry["name"]] = value
    return environment


async def data_of(client: Client, resource: Resource, reference: Tree, namespace: str) -> dict[str, str]:
    """The data of a ConfigMap or Secret as text; empty if it is optional and missing. Raises NotStarted."""
    try:
        tree = await client.get(resource, reference["name"], namespace)
    except StatusError as error:
        if error.code == 404 and reference.get("optional"):
            return {}
        message = f'{resource.kind.lower()} "{reference["name"]}" not found' if error.code == 404 else str(error)
        raise NotStarted(_CONFIG_ERROR, message) from error
    except Unreachable as error:
        raise NotStarted(_CONFIG_ERROR, str(error)) from error
    data = tree.get("data") or {}
    if resource is SECRETS:
        return {key: base64.b64decode(value).decode(errors="replace") for key, value in data.items()}
    return dict(data)


async def _value(
    pod: Tree, spec: Tree, source: Tree, node: Tree, pod_ip: str,
    data_of: Callable[[Resource, Tree], Awaitable[Mapping[str, str]]],
) -> str | None:  # fmt: skip
    """The value of a ``valueFrom`` source; None if it is optional and missing."""
    if field := source.get("fieldRef"):
        return field_of(pod, field["fieldPath"], _address(node), pod_ip)
    if field := source.get("resourceFieldRef"):
        return amount_of(pod, field.get("containerName") or spec["name"], field, node)
    for kind, resource in (("configMapKeyRef", CONFIG_MAPS), ("secretKeyRef", SECRETS)):
        if reference := source.get(kind):
            data = await data_of(resource, reference)
            if reference["key"] in data:
                return data[reference["key"]]
            if reference.get("optional"):
                return None
            where = f"{pod['metadata'].get('namespace', '')}/{reference['name']}"
            raise NotStarted(_CONFIG_ERROR, f"couldn't find key {reference['key']} in {resource.kind} {where}")
    return ""


def field_of(pod: Tree, path: str, host_ip: str, pod_ip: str) -> str:
    """A pod field of the downward API."""
    metadata, spec = pod["metadata"], pod["spec"]
    if found := _KEYED.fullmatch(path):
        return str((metadata.get(found.group(1).partition(".")[2]) or {}).get(found.group(2), ""))
    if path in ("metadata.labels", "metadata.annotations"):
        entries = sorted((metadata.get(path.partition(".")[2]) or {}).items())
        return "\n".join(f'{key}="{value}"' for key, value in entries)
    fields = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata.get("namespace", ""),
        "metadata.uid": metadata.get("uid", ""),
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "status.podIP": pod_ip,
        "status.podIPs": pod_ip,
        "status.hostIP": host_ip,
        "status.hostIPs": host_ip,
    }
    return str(fields.get(path, ""))


def amount_of(pod: Tree, name: str, field: Tree, node: Tree) -> str:
    """A container's resource amount in units of the divisor, rounded up; an unset limit is the node's allocatable."""
    containers = (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"])
    resources: Tree = next((each.get("resources") or {} for each in containers if each["name"] == name), {})
    bound, _, resource = field["resource"].partition(".")
    amount = (resources.get(bound) or {}).get(resource)
    if amount is None and bound == "limits":
        amount = ((node.get("status") or {}).get("allocatable") or {}).get(resource)
    divisor = str(field.get("divisor") or "0")
    unit = Quantity.parse(divisor if divisor != "0" else "1")
    return str(-(-Quantity.parse(str(amount or "0")).nano // unit.nano))


def _address(node: Tree) -> str:
    addresses = (node.get("status") or {}).get("addresses") or ()
    return next((str(entry["address"]) for entry in addresses if entry.get("type") == "InternalIP"), "127.0.0.1")


def resolved(text: str, environment: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` as Kubernetes does in commands and values; unknown names stay, ``$$`` becomes ``$``."""

    def value(found: re.Match[str]) -> str:
        return "$" if found.group(1) is None else environment.get(found.group(1), found.group(0))

    return _REFERENCE.sub(value, text)

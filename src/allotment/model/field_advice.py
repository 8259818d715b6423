"""Advice for common mistakes in claims and pods: fields that were invented or are in the wrong object, and values that
the API server rejects with a text that does not say what to do.

The rows are tables by struct and field, and by the API server's text. All tools that report such an error read them,
so that `allot explain`, `allot apply` and `allot check` give the same advice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from allotment.model.editing.edits import Edit, InsertItem, Nest, Remove, RenameKey, SetValue
from allotment.model.loading.marks import Path, at
from allotment.model.quantity import Quantity
from allotment.model.written_amounts import intended_amount


class FieldAdvice(NamedTuple):
    """A sentence about the mistake and the remedy. ``fix`` and ``edits``: the change, if one meaning is likely."""

    sentence: str
    fix: str = ""
    edits: tuple[Edit, ...] = ()


class _UnknownField(NamedTuple):
    """A field that its struct does not have, with the mapping that contains it."""

    path: Path
    parent: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.path[-1])

    @property
    def value(self) -> Any:
        return self.parent.get(self.name)

    @property
    def request(self) -> tuple[Path, Mapping[str, Any]]:
        """The path and the mapping of the request's fields: ``exactly``, if the field is next to it."""
        exactly = self.parent.get("exactly")
        above = self.path[:-1]
        return ((*above, "exactly"), exactly) if isinstance(exactly, dict) else (above, self.parent)


# --- unknown fields --------------------------------------------------------------------------------------------------


def unknown_field_advice(struct: str, path: Path, parent: Mapping[str, Any]) -> FieldAdvice | None:
    """The advice for an unknown field at ``path``, without a row None. ``struct``: the name of the Go type of
    ``parent``, which contains the field.

    >>> unknown_field_advice("ExactDeviceRequest", ("gpu",), {"gpu": 2}).sentence
    'a request has no field gpu: the number of devices is count'
    """
    removed = _REMOVED_FIELDS.get((struct, str(path[-1])))
    if removed is not None:
        return FieldAdvice(removed)
    field = _UnknownField(path, parent)
    if struct == "ResourceClaim" and "claims" not in path:  # the kind, not the item of a container
        return None
    row = _UNKNOWN_FIELDS.get((struct, field.name)) or _UNKNOWN_FIELDS.get((struct, ""))
    return row(field) if row is not None else None


def _driver(request: Mapping[str, Any]) -> str:
    """The domain of the driver's names, if the class tells it: the classes of whole GPUs have the driver's name."""
    name = request.get("deviceClassName")
    return name if isinstance(name, str) and name.startswith("gpu.") else ""


def _with_selector(field: _UnknownField, what: str, expression: str) -> FieldAdvice:
    """A property of the device, written as a field of the request. The expression has DRIVER for the domain."""
    path, request = field.request
    driver = _driver(request)
    sentence = f"a request selects devices by {what} with a CEL selector: {expression}"
    if not driver:
        return FieldAdvice(sentence)
    selectors, item = request.get("selectors"), {"cel": {"expression": expression.replace("DRIVER", driver)}}
    edit: Edit
    if isinstance(selectors, list) and selectors:
        edit = InsertItem((*path, "selectors"), len(selectors), item)
    elif not selectors:
        edit = SetValue((*path, "selectors"), [item], after="deviceClassName")
    else:
        return FieldAdvice(sentence)
    sentence = sentence.replace("DRIVER", driver)
    return FieldAdvice(sentence, f"select devices by {what}", (edit, Remove(field.path)))


def _memory(field: _UnknownField) -> FieldAdvice:
    amount = _quantity(field.value)
    compared = f'device.capacity["DRIVER"].memory.compareTo(quantity("{amount or "80Gi"}")) >= 0'
    advice = _with_selector(field, "memory", compared)
    return advice if amount else FieldAdvice(advice.sentence)


def _quantity(value: object) -> str:
    """The amount as a quantity; "80GB" becomes 80G. Empty for numbers without a unit, which are probably GiB."""
    intended = intended_amount(value) if isinstance(value, str) else ""
    return "" if intended.isdecimal() or not intended else str(Quantity.parse(intended))


def _model(field: _UnknownField) -> FieldAdvice:
    value = field.value
    if not isinstance(value, str) or not value or '"' in value or "\\" in value:
        value = ""
    condition = f'device.attributes["DRIVER"].productName == "{value or "NAME"}"'
    advice = _with_selector(field, "model", condition)
    return advice if value else FieldAdvice(advice.sentence)


def _count(field: _UnknownField) -> FieldAdvice:
    sentence = f"a request has no field {field.name}: the number of devices is count"
    path, request = field.request
    if type(field.value) is not int or field.value < 1 or "count" in request or request.get("allocationMode") == "All":
        return FieldAdvice(sentence)
    if path == field.path[:-1]:
        return FieldAdvice(sentence, "write count", (RenameKey(field.path, "count"),))
    edits = (SetValue((*path, "count"), field.value), Remove(field.path))
    return FieldAdvice(sentence, f"write count: {field.value} under exactly", edits)


def _class_name(field: _UnknownField) -> FieldAdvice:
    sentence = f"a request has no field {field.name}: the class is deviceClassName"
    path, request = field.request
    if not isinstance(field.value, str) or "deviceClassName" in request or path != field.path[:-1]:
        return FieldAdvice(sentence)
    return FieldAdvice(sentence, "write deviceClassName", (RenameKey(field.path, "deviceClassName"),))


def _of_claim(field: _UnknownField) -> FieldAdvice:
    """A field of a claim's request, in a container's list of claims."""
    sentence = (
        f"a container only names a claim of the pod's spec.resourceClaims: {field.name} is a field of the claim's "
        "request"
    )
    if not isinstance(field.parent.get("name"), str):
        return FieldAdvice(sentence)
    return FieldAdvice(sentence, f"remove {field.name}: the claim's request has it", (Remove(field.path),))


def _of_pod_claim(field: _UnknownField) -> FieldAdvice:
    return FieldAdvice(
        f"a container only names a claim of the pod's spec.resourceClaims: {field.name} is a field of the entry there"
    )


def _claim_of_pod(field: _UnknownField) -> FieldAdvice:
    return FieldAdvice(
        "did you mean resourceClaimName, which names a ResourceClaim, or resourceClaimTemplateName, which names a "
        "ResourceClaimTemplate?"
    )


def _template_of_pod(field: _UnknownField) -> FieldAdvice:
    sentence = "did you mean resourceClaimTemplateName?"
    if not isinstance(field.value, str) or field.parent.keys() & {"resourceClaimName", "resourceClaimTemplateName"}:
        return FieldAdvice(sentence)
    edits = (RenameKey(field.path, "resourceClaimTemplateName"),)
    return FieldAdvice(sentence, "write resourceClaimTemplateName", edits)


def _claims_of_container(field: _UnknownField) -> FieldAdvice:
    return FieldAdvice("resourceClaims is a field of the pod's spec: a container names its claims in resources.claims")


def _of_requests(field: _UnknownField) -> FieldAdvice:
    return FieldAdvice(f"{field.name} is a field of a request: devices.requests[].exactly.{field.name}")


def _capacity(field: _UnknownField) -> FieldAdvice | None:
    if _quantity(field.value) == "" and type(field.value) is not int:
        return None
    sentence = f"the amounts of a request's capacity are under requests: capacity.requests.{field.name}"
    if "requests" in field.parent:
        return FieldAdvice(sentence)
    return FieldAdvice(sentence, "move it under requests", (Nest(field.path[:-1], (field.name,), "requests"),))


def _resource(field: _UnknownField) -> FieldAdvice | None:
    if "/" not in field.name or type(field.value) not in (int, str):
        return None
    sentence = f"the amounts of a container's resources are under limits: resources.limits[{field.name}]"
    if "limits" in field.parent:
        return FieldAdvice(sentence)
    return FieldAdvice(sentence, "move it under limits", (Nest(field.path[:-1], (field.name,), "limits"),))


#: Fields of old manifests that were removed, by struct and field.
_REMOVED_FIELDS: Final = {
    ("PodResourceClaim", "source"): (
        "removed in Kubernetes 1.31: use resourceClaimName or resourceClaimTemplateName directly"
    ),
    ("DeviceSelector", "key"): "a selector is a CEL expression: `cel: {expression: …}`",
    ("DeviceSelector", "operator"): "a selector is a CEL expression: `cel: {expression: …}`",
    ("DeviceSelector", "values"): "a selector is a CEL expression: `cel: {expression: …}`",
    ("PodResourceClaim", "deviceClassName"): (
        "a pod references a claim or a template, whose requests name the class: use resourceClaimTemplateName"
    ),
    ("DeviceClassSpec", "suitableNodes"): "removed in Kubernetes 1.32",
    ("DeviceClassSpec", "driverName"): 'a class selects devices with CEL: device.driver == "…"',
    ("DeviceClassSpec", "parameters"): "a class selects devices with CEL, and has parameters for drivers in config",
    ("ResourceClaimSpec", "controller"): "removed in Kubernetes 1.32",
    ("ResourceClaimSpec", "resourceClassName"): "classic DRA, removed in Kubernetes 1.31: use `devices.requests`",
    ("ResourceClaimSpec", "parametersRef"): "classic DRA, removed in Kubernetes 1.31: use `devices.config`",
}
_REQUESTS: Final = ("ExactDeviceRequest", "DeviceSubRequest", "DeviceRequest")
_Row = Callable[[_UnknownField], FieldAdvice | None]
#: The rows by struct and field; an empty field is any other one.
_UNKNOWN_FIELDS: Final[dict[tuple[str, str], _Row]] = {
    **{(struct, name): _memory for struct in _REQUESTS for name in ("memory", "gpuMemory", "vram", "minMemory")},
    **{(struct, name): _model for struct in _REQUESTS for name in ("model", "product", "productName", "gpuModel")},
    **{
        (struct, name): _count
        for struct in _REQUESTS
        for name in ("gpu", "gpus", "devices", "number", "amount", "quantity", "nvidia.com/gpu", "amd.com/gpu")
    },
    **{(struct, name): _class_name for struct in _REQUESTS for name in ("class", "className", "resourceClassName")},
    **{
        ("ResourceClaim", name): _of_claim
        for name in ("deviceClassName", "deviceClass", "count", "allocationMode", "selectors", "memory")
    },
    ("ResourceClaim", "resourceClaimName"): _of_pod_claim,
    ("ResourceClaim", "resourceClaimTemplateName"): _of_pod_claim,
    **{("PodResourceClaim", name): _claim_of_pod for name in ("claim", "claimName", "resourceClaim")},
    **{
        ("PodResourceClaim", name): _template_of_pod
        for name in ("claimTemplateName", "template", "templateName", "resourceClaimTemplate")
    },
    ("Container", "resourceClaims"): _claims_of_container,
    ("ResourceClaimSpec", "deviceClassName"): _of_requests,
    ("DeviceClaim", "deviceClassName"): _of_requests,
    ("CapacityRequirements", ""): _capacity,
    ("ResourceRequirements", ""): _resource,
}


# --- rejected values -------------------------------------------------------------------------------------------------


def rejected_value_advice(path: Path, text: str, tree: Mapping[str, Any] | None = None) -> FieldAdvice | None:
    """The advice for a value that the API server rejects with ``text``, the error without the field; None without a
    row.

    ``path``: of the field as written. ``tree``: the object as written, if the edit is of interest.

    >>> rejected_value_advice(("count",), "Invalid value: 2: must not be specified when allocationMode is 'All'").fix
    'request 2 devices'
    """
    for pattern, row in _REJECTED_VALUES:
        found = pattern.search(text)
        if found is not None:
            shown = _SHOWN_VALUE.match(text)
            return row(path, _unquoted(shown[1]) if shown else "", tree or {})
    return None


_SHOWN_VALUE: Final = re.compile(r'Invalid value: ("(?:[^"\\]|\\.)*"|-?\d+)')


def _unquoted(shown: str) -> str:
    return re.sub(r"\\(.)", r"\1", shown[1:-1]) if shown.startswith('"') else shown


def _count_of_all(path: Path, value: str, tree: Mapping[str, Any]) -> FieldAdvice:
    devices = f"{value} device{'' if value == '1' else 's'}"
    sentence = (
        "allocationMode All requests every matching device of a node, so it has no count: remove allocationMode to "
        f"request {devices}, or remove count to request all"
    )
    return FieldAdvice(sentence, f"request {devices}", (Remove((*path[:-1], "allocationMode")),))


def _container_resource(path: Path, value: str, tree: Mapping[str, Any]) -> FieldAdvice:
    if not re.search("gpu|nvidia|amd|mig", value, re.IGNORECASE):
        return FieldAdvice(
            f'a container has no resource "{value}": the resources without a domain are cpu, memory, '
            "ephemeral-storage and hugepages-SIZE"
        )
    sentence = (
        f'a container has no resource "{value}": name a claim for the GPU in resources.claims, or the resource of a '
        "device plugin with its domain, such as nvidia.com/gpu"
    )
    resources = at(tree, path[:-2])
    claims = resources.get("claims") if isinstance(resources, dict) else None
    if not claims or not isinstance(resources, dict):
        return FieldAdvice(sentence)
    fields = [field for field in ("limits", "requests") if value in (resources.get(field) or {})]
    edits = tuple(_removal((*path[:-2], field), resources[field], value) for field in fields)
    return FieldAdvice(sentence, f"remove {value}: the container names a claim", edits)


def _removal(path: Path, amounts: Mapping[str, Any], name: str) -> Edit:
    """The edit that removes an amount, and the mapping that has no other one."""
    return Remove(path if len(amounts) == 1 else (*path, name))


_PLUGIN_RESOURCE: Final = re.compile(r"([a-z0-9-]+\.[a-z]+)/(gpu|mig-[a-z0-9.+-]+)(\.shared)?")


def plugin_class_advice(path: Path, value: str) -> FieldAdvice | None:
    """The advice for the class of a request at ``path``, if its name is that of a device plugin's resource.

    >>> plugin_class_advice(("deviceClassName",), "amd.com/gpu").fix
    'use class gpu.amd.com'
    """
    resource = _PLUGIN_RESOURCE.fullmatch(value)
    if path[-1:] != ("deviceClassName",) or resource is None:
        return None
    name = f"{resource[2].partition('-')[0]}.{resource[1]}"
    sentence = f"{value} is the name of a device plugin's resource: the class of the DRA driver is {name}"
    return FieldAdvice(sentence, f"use class {name}", (SetValue(path, name),))


def _part_of_device(path: Path, value: str, tree: Mapping[str, Any]) -> FieldAdvice | None:
    if not set(path) & {"limits", "requests"} or not _PLUGIN_RESOURCE.fullmatch(str(path[-1])):
        return None
    return FieldAdvice(
        f"a device plugin allocates whole devices of {path[-1]}: for a part of a GPU, name a claim for a MIG device or "
        "for a share of a GPU in resources.claims"
    )


def _object_name(path: Path, value: str, tree: Mapping[str, Any]) -> FieldAdvice:
    advice = plugin_class_advice(path, value)
    if advice is not None:
        return advice
    name = re.sub(r"[^a-z0-9.-]+", "-", value.lower()).strip("-.")
    sentence = (
        f'"{value}" is not a valid name: a name consists of lower-case letters, digits, "-" and ".", and starts and '
        "ends with a letter or a digit"
    )
    if not name or "/" in value or "{" in value or "$" in value:
        return FieldAdvice(sentence)
    return FieldAdvice(f"{sentence}, such as {name}", f"write {name}", (SetValue(path, name),))


def _label_name(path: Path, value: str, tree: Mapping[str, Any]) -> FieldAdvice:
    name = re.sub(r"[^a-z0-9-]+", "-", value.lower()).strip("-")[:63].strip("-")
    sentence = (
        f'"{value}" is not a valid name: this name consists of lower-case letters, digits and "-", and starts and ends '
        "with a letter or a digit"
    )
    # Other fields refer to this name, so a fix would have to change them, too.
    return FieldAdvice(f"{sentence}, such as {name}" if name else sentence)


def _label_value(path: Path, value: str, tree: Mapping[str, Any]) -> FieldAdvice:
    return FieldAdvice(
        f'"{value}" is not a valid label value: it consists of letters, digits, "-", "_" and ".", and starts and ends '
        "with a letter or a digit"
    )


def _qualified_key(path: Path, value: str, tree: Mapping[str, Any]) -> FieldAdvice:
    return FieldAdvice(
        f'"{value}" is not a valid key: a key is a name of letters, digits, "-", "_" and ".", with a DNS name and a '
        'slash before it or without, such as "example.com/name"'
    )


def _identifier(path: Path, value: str, tree: Mapping[str, Any]) -> FieldAdvice:
    return FieldAdvice(
        f'"{value}" is not a valid name of an attribute or a capacity: it consists of letters, digits and "_", and '
        "starts with a letter"
    )


_RejectedRow = Callable[[Path, str, Mapping[str, Any]], FieldAdvice | None]
#: The rows by a part of the API server's text; the first that matches is used.
_REJECTED_VALUES: Final[tuple[tuple[re.Pattern[str], _RejectedRow], ...]] = (
    (re.compile("must not be specified when allocationMode is 'All'"), _count_of_all),
    (re.compile("must be a standard resource (type or fully qualified|for containers)"), _container_resource),
    (re.compile("must be an integer$"), _part_of_device),
    (re.compile("(name|prefix) part |a valid label key"), _qualified_key),
    (re.compile("a lowercase RFC 1123 subdomain must consist"), _object_name),
    (re.compile("a lowercase RFC 1123 label must consist|must not contain dots"), _label_name),
    (re.compile("a valid label must be an empty string"), _label_value),
    (re.compile("a valid C identifier"), _identifier),
)

"""Table rows of built-in kinds other than pods, workloads and device resources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from allotment.apiserver.kinds.events import EVENTS_V1, from_events_v1
from allotment.apiserver.kinds.kind import TableConverter
from allotment.apiserver.reads.columns import NONE, age, age_of, duration, labels, name_of, selector, shortened, table
from allotment.model.group_versions import SCHEDULED, to_hub
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree

_UNSET: Final = "<unset>"
_UNKNOWN: Final = "<unknown>"
_ROLE: Final = "node-role.kubernetes.io/"
_MODES: Final = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


def _spec(tree: Tree) -> Tree:
    return tree.get("spec") or {}


def _status(tree: Tree) -> Tree:
    return tree.get("status") or {}


def _simple_row(*cells: Callable[[Tree], Any], aged: bool = True) -> Callable[[Tree, str], list[Any]]:
    """A row function for a name, some cells and, unless ``aged`` is false, an age."""

    def row(tree: Tree, now: str) -> list[Any]:
        row_cells = [name_of(tree), *(cell(tree) for cell in cells)]
        return [*row_cells, age_of(tree, now)] if aged else row_cells

    return row


# --- nodes, namespaces, events ---------------------------------------------------------------------------------------


def _node(tree: Tree, now: str) -> list[Any]:
    status, spec = _status(tree), _spec(tree)
    ready = next((item for item in status.get("conditions") or () if item.get("type") == "Ready"), None)
    state = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    if spec.get("unschedulable"):
        state += ",SchedulingDisabled"
    own = tree["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE) for key in own if key.startswith(_ROLE)} - {""}
    if own.get("kubernetes.io/role"):
        roles.add(own["kubernetes.io/role"])
    info: Tree = status.get("nodeInfo") or {}
    addresses = {item.get("type"): item.get("address") for item in reversed(status.get("addresses") or ())}
    kernel = info.get("kernelVersion") or _UNKNOWN
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        name_of(tree), state, ",".join(sorted(roles)) or NONE, age_of(tree, now), info.get("kubeletVersion") or "",
        addresses.get("InternalIP") or NONE, addresses.get("ExternalIP") or NONE, info.get("osImage") or _UNKNOWN,
        kernel, info.get("containerRuntimeVersion") or _UNKNOWN,
    ]  # fmt: skip


def _event(tree: Tree, now: str) -> list[Any]:
    if tree.get("apiVersion") == EVENTS_V1:
        tree = from_events_v1(tree, "v1")
    first = age(tree.get("firstTimestamp") or tree.get("eventTime"), now)
    last = age(tree["lastTimestamp"], now) if tree.get("lastTimestamp") else first
    count, series = tree.get("count") or 1, tree.get("series")
    if series is not None:
        last, count = age(series.get("lastObservedTime"), now), series.get("count") or 0
    involved, source = tree.get("involvedObject") or {}, tree.get("source") or {}
    target = str(involved.get("kind") or "").lower()
    if involved.get("name"):
        target = f"{target}/{involved['name']}"
    component = source.get("component") or tree.get("reportingComponent") or ""
    instance = source.get("host") or tree.get("reportingInstance") or ""
    return [
        last, tree.get("type") or "", tree.get("reason") or "", target, involved.get("fieldPath") or "",
        f"{component}, {instance}" if instance else component, (tree.get("message") or "").strip(), first, count,
        name_of(tree),
    ]  # fmt: skip


# --- services and networking -----------------------------------------------------------------------------------------


def _service(tree: Tree, now: str) -> list[Any]:
    spec = _spec(tree)
    ports = ",".join(
        f"{port.get('port')}:{port['nodePort']}/{port.get('protocol')}"
        if port.get("nodePort")
        else f"{port.get('port')}/{port.get('protocol')}"
        for port in spec.get("ports") or ()
    )
    addresses = spec.get("clusterIPs") or [NONE]
    return [
        name_of(tree), spec.get("type") or "", addresses[0], _external(tree, spec), ports or NONE, age_of(tree, now),
        labels(spec.get("selector")),
    ]  # fmt: skip


def _external(tree: Tree, spec: Tree) -> str:
    kind, own = spec.get("type"), list(spec.get("externalIPs") or ())
    if kind == "ExternalName":
        return str(spec.get("externalName") or "")
    if kind == "LoadBalancer":
        ingresses = (_status(tree).get("loadBalancer") or {}).get("ingress") or ()
        own = sorted({item.get("ip") or item.get("hostname") or "" for item in ingresses} - {""}) + own
        return ",".join(own) or "<pending>"
    return ",".join(own) or NONE


def _endpoints(tree: Tree) -> str:
    texts: list[str] = []
    for subset in tree.get("subsets") or ():
        addresses = [item.get("ip") or "" for item in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        texts += [f"{ip}:{port.get('port')}" for port in ports for ip in addresses] if ports else addresses
    return shortened(texts)


def _hosts(tree: Tree) -> str:
    rules: Sequence[Tree] = _spec(tree).get("rules") or ()
    hosts = [rule["host"] for rule in rules if rule.get("host")]
    if not hosts:
        return "*"
    text = ",".join(hosts[:3])
    return f"{text} + {len(rules) - 3} more..." if len(hosts) > 3 else text


def _ingress_address(tree: Tree) -> str:
    ingresses = (_status(tree).get("loadBalancer") or {}).get("ingress") or ()
    return ",".join(sorted({item.get("ip") or item.get("hostname") or "" for item in ingresses} - {""}))


def _parent(tree: Tree) -> str:
    parent = _spec(tree).get("parentRef")
    if parent is None:
        return NONE
    group, resource = parent.get("group") or "", parent.get("resource") or ""
    where = f"/{parent['namespace']}" if parent.get("namespace") else ""
    return f"{resource}{'.' + group if group else ''}".lower() + f"{where}/{parent.get('name') or ''}"


def _api_service(tree: Tree, now: str) -> list[Any]:
    service = _spec(tree).get("service")
    shown = "Local" if service is None else f"{service.get('namespace', '')}/{service.get('name', '')}"
    available = "Unknown"
    for condition in _status(tree).get("conditions") or ():
        if condition["type"] == "Available":
            reason = condition.get("reason") if condition["status"] != "True" else ""
            available = f"{condition['status']} ({reason})" if reason else condition["status"]
    return [name_of(tree), shown, available, age_of(tree, now)]


def _ingress_class(tree: Tree, now: str) -> list[Any]:
    spec, parameters = _spec(tree), _spec(tree).get("parameters")
    text = NONE
    if parameters is not None:
        group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
        text = f"{parameters.get('kind') or ''}{group}/{parameters.get('name') or ''}"
    name = _default(tree, "ingressclass.kubernetes.io/is-default-class")
    return [name, spec.get("controller") or "", text, age_of(tree, now)]


def _default(tree: Tree, annotation: str) -> str:
    own = tree["metadata"].get("annotations") or {}
    return name_of(tree) + (" (default)" if own.get(annotation) == "true" else "")


def _slice_ports(tree: Tree) -> str:
    ports = tree.get("ports") or ()
    return shortened([str(port.get("port") or port.get("name") or "*") for port in ports]) if ports else _UNSET


def _slice_addresses(tree: Tree) -> str:
    addresses = [address for endpoint in tree.get("endpoints") or () for address in endpoint.get("addresses") or ()]
    return shortened(addresses) if addresses else _UNSET


# --- storage ---------------------------------------------------------------------------------------------------------


def _modes(modes: Sequence[str] | None) -> str:
    return ",".join(_MODES[mode] for mode in _MODES if mode in (modes or ()))


def _phase(tree: Tree) -> str:
    return "Terminating" if tree["metadata"].get("deletionTimestamp") else _status(tree).get("phase") or ""


def _volume(tree: Tree, now: str) -> list[Any]:
    spec, claim = _spec(tree), _spec(tree).get("claimRef")
    return [
        name_of(tree), str((spec.get("capacity") or {}).get("storage", "0")), _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy") or "", _phase(tree),
        f"{claim.get('namespace') or ''}/{claim.get('name') or ''}" if claim else "",
        spec.get("storageClassName") or "", spec.get("volumeAttributesClassName") or _UNSET,
        _status(tree).get("reason") or "", age_of(tree, now), spec.get("volumeMode") or _UNSET,
    ]  # fmt: skip


def _volume_claim(tree: Tree, now: str) -> list[Any]:
    spec, status = _spec(tree), _status(tree)
    bound = spec.get("volumeName") or ""
    return [
        name_of(tree), _phase(tree), bound, str((status.get("capacity") or {}).get("storage", "0")) if bound else "",
        _modes(status.get("accessModes")) if bound else "", spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or _UNSET, age_of(tree, now), spec.get("volumeMode") or _UNSET,
    ]  # fmt: skip


def _csi_driver(tree: Tree, now: str) -> list[Any]:
    spec = _spec(tree)
    requests = spec.get("tokenRequests")
    return [
        name_of(tree), spec.get("attachRequired", True), bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        _UNSET if requests is None else ",".join(item.get("audience") or "" for item in requests),
        bool(spec.get("requiresRepublish")), ",".join(spec.get("volumeLifecycleModes") or ()) or NONE,
        age_of(tree, now),
    ]  # fmt: skip


# --- access, bounds, the rest ----------------------------------------------------------------------------------------


def _binding(tree: Tree, now: str) -> list[Any]:
    reference, by_kind = tree.get("roleRef") or {}, dict[str, list[str]]()
    for subject in tree.get("subjects") or ():
        name = subject.get("name") or ""
        if subject.get("kind") == "ServiceAccount":
            name = f"{subject.get('namespace') or ''}/{name}"
        by_kind.setdefault(subject.get("kind") or "", []).append(name)
    names = [", ".join(by_kind.get(kind, ())) for kind in ("User", "Group", "ServiceAccount")]
    role = f"{reference.get('kind') or ''}/{reference.get('name') or ''}"
    return [name_of(tree), role, age_of(tree, now), *names]


def _quota(tree: Tree, now: str) -> list[Any]:
    status = _status(tree)
    used, parts = status.get("used") or {}, dict[bool, list[str]]({False: [], True: []})
    for name, hard in sorted((status.get("hard") or {}).items()):
        text = f"{name}: {Quantity.parse(str(used.get(name, '0')))}/{Quantity.parse(str(hard))}"
        parts[name.startswith("limits.")].append(text)
    return [name_of(tree), ", ".join(parts[False]), ", ".join(parts[True]), age_of(tree, now)]


def _budget(tree: Tree, now: str) -> list[Any]:
    spec = _spec(tree)
    bounds = [str(spec[name]) if spec.get(name) is not None else "N/A" for name in ("minAvailable", "maxUnavailable")]
    return [name_of(tree), *bounds, _status(tree).get("disruptionsAllowed") or 0, age_of(tree, now)]


def _priority_class(tree: Tree, now: str) -> list[Any]:
    return [
        name_of(tree), tree.get("value") or 0, bool(tree.get("globalDefault")), age_of(tree, now),
        tree.get("preemptionPolicy") or "",
    ]  # fmt: skip


def _pod_group(tree: Tree, now: str) -> list[Any]:
    tree = to_hub(tree)
    spec = _spec(tree)
    conditions = {item.get("type"): item for item in _status(tree).get("conditions") or ()}
    state = "Pending"
    if (scheduled := conditions.get(SCHEDULED)) is not None:
        state = "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"
    if "DisruptionTarget" in conditions:
        state = conditions["DisruptionTarget"].get("reason") or ""
    reference = spec.get("workloadRef")
    workload = NONE if reference is None else reference.get("workloadName") or ""
    return [name_of(tree), _policy(spec), workload, state, age_of(tree, now)]


def _composite_pod_group(tree: Tree, now: str) -> list[Any]:
    spec = _spec(tree)
    workload = (spec.get("workloadRef") or {}).get("workloadName") or NONE
    return [name_of(tree), _policy(spec), workload, age_of(tree, now)]


def _policy(spec: Tree) -> str:
    return "Basic" if (spec.get("schedulingPolicy") or {}).get("gang") is None else "Gang"


def _param_kind(tree: Tree) -> str:
    kind = _spec(tree).get("paramKind")
    return f"{kind.get('apiVersion')}/{kind.get('kind')}" if kind else _UNSET


def _param_ref(tree: Tree) -> str:
    reference = _spec(tree).get("paramRef") or {}
    if reference.get("name"):
        return f"{reference.get('namespace') or '*'}/{reference['name']}"
    return selector(reference["selector"]) if reference.get("selector") else _UNSET


def _signing_request(tree: Tree, now: str) -> list[Any]:
    spec, status = _spec(tree), _status(tree)
    conditions = {item.get("type") for item in status.get("conditions") or ()}
    state = next(
        (condition_type for condition_type in ("Denied", "Approved") if condition_type in conditions), "Pending"
    )
    state += ",Failed" if "Failed" in conditions else ""
    state += ",Issued" if status.get("certificate") else ""
    seconds = spec.get("expirationSeconds")
    requested = NONE if seconds is None else duration(seconds)
    signer = spec.get("signerName") or NONE
    return [name_of(tree), age_of(tree, now), signer, spec.get("username") or "", requested, state]


def _at(*steps: str, default: Any = "") -> Callable[[Tree], Any]:
    def read(tree: Tree) -> Any:
        value: Any = tree
        for step in steps:
            value = value.get(step) if isinstance(value, dict) else None
        return default if value is None else value

    return read


def _length(*steps: str) -> Callable[[Tree], int]:
    read = _at(*steps, default=())

    def count(tree: Tree) -> int:
        return len(read(tree))

    return count


def _flag(*steps: str) -> Callable[[Tree], bool]:
    read = _at(*steps, default=False)

    def shown_type(tree: Tree) -> bool:
        return bool(read(tree))

    return shown_type


def _entries(tree: Tree) -> int:
    return len(tree.get("data") or ()) + len(tree.get("binaryData") or ())


_ADMISSION: Final = "admissionregistration.k8s.io"
_RBAC: Final = "rbac.authorization.k8s.io"
_EVENTS: Final = table(
    _event, "Last Seen", "Type", "Reason", "Object", "Subobject*", "Source*", "Message", "First Seen*", "Count*",
    "Name*",
)  # fmt: skip
_BINDINGS: Final = table(_binding, "Name", "Role", "Age", "Users*", "Groups*", "ServiceAccounts*")
_POLICY: Final = {
    f"{kind}admissionpolicies.{_ADMISSION}": table(
        _simple_row(_length("spec", part), _param_kind), "Name", f"{part.title()}:integer", "ParamKind", "Age"
    )
    for kind, part in (("validating", "validations"), ("mutating", "mutations"))
}
_POLICY_BINDINGS: Final = {
    f"{kind}admissionpolicybindings.{_ADMISSION}": table(
        _simple_row(_at("spec", "policyName"), _param_ref), "Name", "PolicyName", "ParamRef", "Age"
    )
    for kind in ("validating", "mutating")
}
_WEBHOOKS: Final = {
    f"{kind}webhookconfigurations.{_ADMISSION}": table(
        _simple_row(_length("webhooks")), "Name", "Webhooks:integer", "Age"
    )
    for kind in ("validating", "mutating")
}

TABLES: Final[Mapping[str, TableConverter]] = {
    "nodes": table(
        _node, "Name", "Status", "Roles", "Age", "Version", "Internal-IP*", "External-IP*", "OS-Image*",
        "Kernel-Version*", "Container-Runtime*",
    ),
    "namespaces": table(_simple_row(_at("status", "phase")), "Name", "Status", "Age"),
    "events": _EVENTS,
    "events.events.k8s.io": _EVENTS,
    "services": table(_service, "Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector*"),
    "endpoints": table(_simple_row(_endpoints), "Name", "Endpoints", "Age"),
    "endpointslices.discovery.k8s.io": table(
        _simple_row(_at("addressType"), _slice_ports, _slice_addresses),
        "Name", "AddressType", "Ports", "Endpoints", "Age",
    ),
    "ingresses.networking.k8s.io": table(
        _simple_row(
            _at("spec", "ingressClassName", default=NONE), _hosts, _ingress_address,
            lambda tree: "80, 443" if _spec(tree).get("tls") else "80",
        ),
        "Name", "Class", "Hosts", "Address", "Ports", "Age",
    ),
    "apiservices.apiregistration.k8s.io": table(_api_service, "Name", "Service", "Available", "Age"),
    "ingressclasses.networking.k8s.io": table(_ingress_class, "Name", "Controller", "Parameters", "Age"),
    "networkpolicies.networking.k8s.io": table(
        _simple_row(lambda tree: selector(_spec(tree).get("podSelector"))), "Name", "Pod-Selector", "Age"
    ),
    "servicecidrs.networking.k8s.io": table(
        _simple_row(lambda tree: ",".join(_spec(tree).get("cidrs") or ())), "Name", "CIDRs", "Age"
    ),
    "certificatesigningrequests.certificates.k8s.io": table(
        _signing_request, "Name", "Age", "SignerName", "Requestor", "RequestedDuration", "Condition"
    ),
    "ipaddresses.networking.k8s.io": table(_simple_row(_parent, aged=False), "Name", "ParentRef"),
    "configmaps": table(_simple_row(_entries), "Name", "Data", "Age"),
    "secrets": table(_simple_row(_at("type"), _length("data")), "Name", "Type", "Data", "Age"),
    "serviceaccounts": table(_simple_row(), "Name", "Age"),
    "resourcequotas": table(_quota, "Name", "Request", "Limit", "Age"),
    "persistentvolumes": table(
        _volume, "Name", "Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim", "StorageClass",
        "VolumeAttributesClass", "Reason", "Age", "VolumeMode*",
    ),
    "persistentvolumeclaims": table(
        _volume_claim, "Name", "Status", "Volume", "Capacity", "Access Modes", "StorageClass",
        "VolumeAttributesClass", "Age", "VolumeMode*",
    ),
    "storageclasses.storage.k8s.io": table(
        lambda tree, now: [
            _default(tree, _DEFAULT_CLASS), tree.get("provisioner") or "", tree.get("reclaimPolicy") or "Delete",
            tree.get("volumeBindingMode") or "Immediate", bool(tree.get("allowVolumeExpansion")), age_of(tree, now),
        ],
        "Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age",
    ),
    "volumeattributesclasses.storage.k8s.io": table(_simple_row(_at("driverName")), "Name", "DriverName", "Age"),
    "volumeattachments.storage.k8s.io": table(
        _simple_row(
            _at("spec", "attacher"), _at("spec", "source", "persistentVolumeName"), _at("spec", "nodeName"),
            _flag("status", "attached"),
        ),
        "Name", "Attacher", "PV", "Node", "Attached:boolean", "Age",
    ),
    "csinodes.storage.k8s.io": table(_simple_row(_length("spec", "drivers")), "Name", "Drivers:integer", "Age"),
    "csidrivers.storage.k8s.io": table(
        _csi_driver, "Name", "AttachRequired:boolean", "PodInfoOnMount:boolean", "StorageCapacity:boolean",
        "TokenRequests", "RequiresRepublish:boolean", "Modes", "Age",
    ),
    f"rolebindings.{_RBAC}": _BINDINGS,
    f"clusterrolebindings.{_RBAC}": _BINDINGS,
    "poddisruptionbudgets.policy": table(
        _budget, "Name", "Min Available", "Max Unavailable", "Allowed Disruptions:integer", "Age"
    ),
    "leases.coordination.k8s.io": table(_simple_row(_at("spec", "holderIdentity")), "Name", "Holder", "Age"),
    "priorityclasses.scheduling.k8s.io": table(
        _priority_class, "Name", "Value:integer", "Global-Default:boolean", "Age", "PreemptionPolicy"
    ),
    "podgroups.scheduling.k8s.io": table(_pod_group, "Name", "Policy", "Workload", "Status", "Age"),
    "compositepodgroups.scheduling.k8s.io": table(_composite_pod_group, "Name", "Policy", "Workload", "Age"),
    "workloads.scheduling.k8s.io": table(_simple_row(), "Name", "Age"),
    "runtimeclasses.node.k8s.io": table(_simple_row(_at("handler")), "Name", "Handler", "Age"),
    **_POLICY,
    **_POLICY_BINDINGS,
    **_WEBHOOKS,
}  # fmt: skip

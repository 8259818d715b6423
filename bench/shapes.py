"""The benchmark's input: clusters and the pods that arrive on them, as Kubernetes JSON.

Both sides read the same files, so that neither has an advantage from its own loader. The allocator of kube-scheduler
1.36.2 was measured on the five shapes before this project began; the searches are those on which its work doubles with
each device. Nodes differ: one in ten has T4s, three have A100s, the rest H100s; every device has its own uuid and PCI
address, as real ones do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Object = dict[str, Any]

DRIVER = "gpu.example.com"
SIZES = (100, 1000, 5000)
#: The last of these is the project's target.
SEARCH_SIZES = (8, 12, 16, 20, 22, 24, 32, 48, 64)
#: The API allows no more devices in one claim.
CLAIM_LIMIT = 32

#: The features that kube-scheduler 1.36 enables in its allocator by default.
FEATURES = {
    "adminAccess": True,
    "consumableCapacity": True,
    "deviceBindingAndStatus": True,
    "deviceTaints": True,
    "listTypeAttributes": False,
    "partitionableDevices": True,
    "prioritizedList": True,
}

CLASSES: list[Object] = [
    {
        "metadata": {"name": "gpu"},
        "spec": {
            "selectors": [
                {"cel": {"expression": f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == "gpu"'}}
            ]
        },
    },
    {
        "metadata": {"name": "mig"},
        "spec": {
            "selectors": [
                {"cel": {"expression": f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == "mig"'}}
            ]
        },
    },
]


def _gpu(name: str, product: str, memory: str, node: int, index: int, root: str) -> Object:
    return {
        "name": name,
        "attributes": {
            "type": {"string": "gpu"},
            "productName": {"string": product},
            "uuid": {"string": f"GPU-{node:08x}-{index:04x}"},
            "index": {"int": index},
            "driverVersion": {"version": "580.65.6"},
            "resource.kubernetes.io/pcieRoot": {"string": root},
            "resource.kubernetes.io/pciBusID": {"string": f"0000:{16 * index + 7:02x}:00.0"},
        },
        "capacity": {"memory": {"value": memory}},
    }


def _node(number: int) -> Object:
    return {"metadata": {"name": f"node-{number:04}"}, "spec": {}, "status": {}}


def _slice(name: str, node: str, count: int, **content: Any) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": count},
            **content,
        },
    }


def _full_gpus(number: int) -> list[Object]:
    """Eight whole GPUs on two PCIe roots."""
    product, memory = [("H100", "80Gi"), ("A100", "40Gi"), ("T4", "16Gi")][(number % 10 >= 6) + (number % 10 == 9)]
    node = f"node-{number:04}"
    devices = [_gpu(f"gpu-{i}", product, memory, number, i, f"pci0000:{16 * (i // 4):02x}") for i in range(8)]
    return [_slice(f"{node}-gpus", node, 1, devices=devices)]


def _mig(number: int) -> list[Object]:
    """Two A100s, each offered whole, as either of two halves or as a seventh: four devices over one counter set."""
    node = f"node-{number:04}"
    counter_sets, devices = [], []
    for gpu in range(2):
        memory_slices = {f"memory-slice-{i}": {"value": "1"} for i in range(8)}
        whole = {"multiprocessors": {"value": "98"}, "copy-engines": {"value": "7"}, **memory_slices}
        counter_sets.append({"name": f"gpu-{gpu}", "counters": whole})
        device = _gpu(f"gpu-{gpu}", "A100", "40Gi", number, gpu, f"pci0000:{16 * gpu:02x}")
        device["consumesCounters"] = [{"counterSet": f"gpu-{gpu}", "counters": whole}]
        devices.append(device)
        for profile, first, length, memory in (
            ("3g.20gb", 0, 4, "20Gi"),
            ("3g.20gb", 4, 4, "20Gi"),
            ("1g.5gb", 0, 1, "5Gi"),
        ):
            name = f"gpu-{gpu}-mig-{profile.replace('.', '-')}-{first}"
            part = _gpu(name, "A100", memory, number, gpu, f"pci0000:{16 * gpu:02x}")
            part["attributes"]["type"] = {"string": "mig"}
            part["attributes"]["profile"] = {"string": profile}
            compute = int(profile[0])
            taken = {f"memory-slice-{i}": {"value": "1"} for i in range(first, first + length)}
            taken |= {"multiprocessors": {"value": str(14 * compute)}, "copy-engines": {"value": str(compute)}}
            part["consumesCounters"] = [{"counterSet": f"gpu-{gpu}", "counters": taken}]
            devices.append(part)
    return [
        _slice(f"{node}-counters", node, 2, sharedCounters=counter_sets),
        _slice(f"{node}-devices", node, 2, devices=devices),
    ]


def _claim(*requests: Object, constraints: list[Object] | None = None, name: str = "claim") -> Object:
    devices: Object = {"requests": list(requests)}
    if constraints:
        devices["constraints"] = constraints
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": devices}, "status": {}}


def _want(expression: str | None = None, count: int = 1, device_class: str = "gpu") -> Object:
    request: Object = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}
    if expression is not None:
        request["selectors"] = [{"cel": {"expression": expression}}]
    return request


def _request(name: str, **want: Any) -> Object:
    return {"name": name, "exactly": _want(**want)}


MEMORY = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("{{}}")) >= 0'
PRODUCT = f'device.attributes["{DRIVER}"].productName == "{{}}"'
PROFILE = f'device.attributes["{DRIVER}"].profile == "{{}}"'
SAME_ROOT = [{"matchAttribute": "resource.kubernetes.io/pcieRoot"}]

ANY_LARGE_GPU = [_claim(_request("gpu", expression=MEMORY.format("40Gi")))]
UNSATISFIABLE = "unsatisfiable"

#: name -> (claims of each pod, pods that fit on a node, seconds upstream may use at 100, 1,000 and 5,000 nodes)
SHAPES: dict[str, tuple[list[Object], float, tuple[float, float, float]]] = {
    "1 GPU by CEL": (ANY_LARGE_GPU, 7.2, (4, 5, 6)),
    "4 GPUs, one pcieRoot": (
        [_claim(_request("gpus", expression=MEMORY.format("40Gi"), count=4), constraints=SAME_ROOT)],
        1.8,
        (4, 5, 6),
    ),
    "firstAvailable of 3": (
        [
            _claim(
                {
                    "name": "gpu",
                    "firstAvailable": [
                        {"name": "b200", **_want(PRODUCT.format("B200"))},
                        {"name": "large", **_want(MEMORY.format("141Gi"))},
                        {"name": "any", **_want(MEMORY.format("40Gi"))},
                    ],
                }
            )
        ],
        7.2,
        (4, 5, 6),
    ),
    "MIG over shared counters": (
        [_claim(_request("mig", expression=PROFILE.format("3g.20gb"), device_class="mig"))],
        4,
        (4, 6, 14),
    ),
    # Between two of these a pod of the first shape is placed, so that a refusal cannot simply be cached.
    UNSATISFIABLE: ([_claim(_request("gpu", expression=PRODUCT.format("B200")))], 7.2, (4, 5, 8)),
}


def _pods(name: str, nodes: int) -> int:
    """As many pods as fill 60 % of the cluster; upstream places as many as its time allows."""
    return int(nodes * SHAPES[name][1] * 0.6)


def _cluster(nodes: int, slices: Iterator[Object], cases: list[Object]) -> Object:
    return {
        "features": FEATURES,
        "nodes": [_node(n) for n in range(nodes)],
        "classes": CLASSES,
        "slices": list(slices),
        "cases": cases,
    }


def scheduling() -> Iterator[Object]:
    """The five shapes at each size, as clusters with the cases to be run on them."""
    for column, nodes in enumerate(SIZES):
        for layout, names in (
            (_full_gpus, [n for n in SHAPES if "MIG" not in n]),
            (_mig, ["MIG over shared counters"]),
        ):
            cases = [
                {
                    "name": f"{name} @ {nodes}",
                    "series": "",
                    "pods": _pods(name, nodes),
                    "claims": SHAPES[name][0],
                    "background": ANY_LARGE_GPU if name == UNSATISFIABLE else [],
                    "limitSeconds": SHAPES[name][2][column],
                }
                for name in names
            ]
            yield _cluster(nodes, (s for n in range(nodes) for s in layout(n)), cases)


def _spread(wanted: int) -> list[Object]:
    """Distribute this many devices over as few claims as the limit per claim allows."""
    counts = [min(CLAIM_LIMIT, wanted - i) for i in range(0, wanted, CLAIM_LIMIT)]
    return [_claim(_request("gpus", count=count), name=f"claim-{i}") for i, count in enumerate(counts)]


def _one_more_than_free(n: int) -> tuple[list[int], list[Object]]:
    return [n], _spread(n + 1)


def _equal_roots(n: int) -> tuple[list[int], list[Object]]:
    # A constraint applies to one claim, so 32 devices, half of 62, are the maximum here.
    half = min(n // 2, CLAIM_LIMIT - 1)
    return [half, half], [_claim(_request("gpus", count=half + 1), constraints=SAME_ROOT)]


def _two_of_k(n: int) -> tuple[list[int], list[Object]]:
    k = n // 2
    requests = [_request("a", count=k), _request("b", count=k)]
    claims = [_claim(*requests)] if 2 * k <= CLAIM_LIMIT else [_claim(r, name=f"claim-{r['name']}") for r in requests]
    return [2 * k - 1], claims


#: name -> function of n that returns the free devices on each PCIe root of one node, and the pod's claims
SEARCHES = {
    "n free, n+1 wanted": _one_more_than_free,
    "matchAttribute, two equal roots": _equal_roots,
    "two requests of k, 2k−1 devices": _two_of_k,
}


def searches(limit_seconds: float = 3) -> Iterator[Object]:
    """Refusals on one node of n devices that a depth-first search finds only after trying every subset."""
    for name, build in SEARCHES.items():
        for n in SEARCH_SIZES:
            roots, claims = build(n)
            devices = [
                _gpu(f"gpu-{root}-{i}", "H100", "80Gi", 0, i, f"pci0000:{root:02x}")
                for root, free in enumerate(roots)
                for i in range(free)
            ]
            case = {
                "name": f"{name} @ {n}",
                "series": name,
                "pods": 3,
                "claims": claims,
                "background": [],
                "limitSeconds": limit_seconds,
            }
            yield _cluster(1, iter([_slice("node-0000-gpus", "node-0000", 1, devices=devices)]), [case])


#: The number of devices on which one selector is evaluated.
SPREAD = 40_000
EXPRESSIONS = (
    f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == "gpu"',
    MEMORY.format("40Gi"),
    f'{PRODUCT.format("H100")} && {MEMORY.format("40Gi")} && device.attributes["{DRIVER}"].index < 4',
    f'device.attributes["{DRIVER}"].driverVersion.isGreaterThan(semver("570.0.0"))',
    f'["H100", "A100"].exists(p, p == device.attributes["{DRIVER}"].productName)',
    f'device.attributes["{DRIVER}"].productName.matches("^(H|A)100$")',
)


def selectors() -> Object:
    """Selectors, and devices of three models for them, each device different from the others."""
    devices = [device for number in range(128) for slice_ in _full_gpus(number) for device in slice_["spec"]["devices"]]
    return {"driver": DRIVER, "expressions": list(EXPRESSIONS), "devices": devices}


def write(path: Path, clusters: Iterator[Object]) -> None:
    """Write clusters, one per line."""
    with path.open("w", encoding="utf-8") as file:
        for cluster in clusters:
            json.dump(cluster, file, separators=(",", ":"))
            file.write("\n")

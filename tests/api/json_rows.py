"""Commands that print JSON, each with an expression that has the same value: the rows of ``test_json_equality.py``.

They are run in a folder with the files of ``write_files``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from allotment import (
    Cluster,
    Lab,
    check,
    claim,
    describe_claims,
    doctor,
    explain,
    explain_classes,
    fix,
    free,
    migrate,
    plan,
    reference,
    replay,
)

_APP: Final = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpus}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: COUNT}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  containers: [{name: main, image: train, resources: {claims: [{name: gpus}]}}]
  resourceClaims: [{name: gpus, resourceClaimTemplateName: gpus}]
"""
_PLUGIN: Final = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      containers:
      - name: main
        image: llm
        resources: {limits: {nvidia.com/gpu: 1}}
"""
#: A workload without devices, for `allot claim --for`.
_IDLE: Final = _PLUGIN.replace("        resources: {limits: {nvidia.com/gpu: 1}}\n", "")
_CLASS: Final = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: small}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.nvidia.com"'}}]}
"""
#: A claim in the form of v1beta1, which has a safe fix.
_FLAT: Final = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: flat}
spec: {devices: {requests: [{name: gpu, deviceClassName: gpu.nvidia.com}]}}
"""


def write_files(folder: Path) -> None:
    """Write the files that the rows name."""
    files = {
        "app.yaml": _APP.replace("COUNT", "2"),
        "big.yaml": _APP.replace("COUNT", "8"),
        "plugin.yaml": _PLUGIN,
        "idle.yaml": _IDLE,
        "class.yaml": _CLASS,
        "flat.yaml": _FLAT,
        "broken.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: 1}\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    snapshot = reference.slices("t4-4x-pcie", everything=True)
    (folder / "snap.json").write_text(json.dumps(snapshot))


class Row(NamedTuple):
    """``words``: the command, without the ``option`` for JSON. ``value``: the same in Python.

    ``changing``: keys whose values differ from run to run.
    """

    words: str
    value: Callable[[], object]
    option: str = "-o json"
    changing: Sequence[str] = ()


FILES: Final = (
    Row("explain -f app.yaml --fleet t4-4x-pcie", lambda: explain("app.yaml", Cluster.fleet("t4-4x-pcie")).to_dict()),
    Row("explain -f big.yaml --fleet t4-4x-pcie", lambda: explain("big.yaml", Cluster.fleet("t4-4x-pcie")).to_dict()),
    Row(
        "explain -f app.yaml --cluster snap.json --kube-version 1.35",
        lambda: explain("app.yaml", Cluster.snapshot("snap.json", kube="1.35")).to_dict(),
    ),
    Row(
        "explain pod/train -f app.yaml --cluster snap.json",
        lambda: explain("app.yaml", Cluster.snapshot("snap.json"), name="pod/train").to_dict(),
    ),
    Row(
        "explain -f class.yaml --fleet t4-4x-pcie",
        lambda: explain_classes("class.yaml", Cluster.fleet("t4-4x-pcie")).to_dict(),
    ),
    Row("free --fleet t4-4x-pcie", lambda: free(Cluster.fleet("t4-4x-pcie")).to_dict()),
    Row("free --cluster snap.json", lambda: free(Cluster.snapshot("snap.json")).to_dict()),
    Row("doctor --cluster snap.json", lambda: doctor(Cluster.snapshot("snap.json")).to_dict()),
    Row("doctor --list", reference.checks),
    Row("check app.yaml flat.yaml --isolated", lambda: check("app.yaml", "flat.yaml", isolated=True).to_dict()),
    Row("check big.yaml --fleet t4-4x-pcie", lambda: check("big.yaml", cluster=Cluster.fleet("t4-4x-pcie")).to_dict()),
    Row("check flat.yaml", lambda: check("flat.yaml").to_sarif(), option="-o sarif"),
    Row("check flat.yaml --fix", lambda: fix("flat.yaml").to_dict()),
    Row("rule", lambda: {"rules": reference.rules()}),
    Row("rule S101", lambda: reference.rule("S101")),
    Row("migrate plugin.yaml", lambda: migrate("plugin.yaml").to_dict()),
    Row(
        "migrate plugin.yaml --fleet t4-4x-pcie",
        lambda: migrate("plugin.yaml", cluster=Cluster.fleet("t4-4x-pcie")).to_dict(),
    ),
    Row("plan app.yaml --catalog aws", lambda: plan("app.yaml", catalog=["aws"]).to_dict()),
    Row(
        "plan big.yaml --catalog aws --max-machines 1 --types aws/g4dn.* --compare",
        lambda: plan("big.yaml", catalog=["aws"], max_machines=1, types=["aws/g4dn.*"], compare=True).to_dict(),
    ),
    Row("claim --gpus 2", lambda: claim(gpus=2).to_dict()),
    Row(
        "claim --for deploy/llm -f idle.yaml",
        lambda: claim(workload="deploy/llm", objects="idle.yaml").to_dict(),
    ),
    Row(
        "claim --for deploy/llm -f idle.yaml --patch",
        lambda: claim(workload="deploy/llm", objects="idle.yaml").patch,
    ),
    Row("claim show app.yaml", lambda: [each.to_dict() for each in describe_claims("app.yaml")]),
    Row("catalog list aws/g5.*", lambda: {"instanceTypes": reference.instance_types("aws/g5.*")}),
    Row("catalog show aws/p5.48xlarge", lambda: reference.instance_type("aws/p5.48xlarge")),
    Row("catalog slices aws/g5.xlarge", lambda: reference.instance_slices("aws/g5.xlarge")),
    Row("catalog export kwok aws/g5.xlarge", lambda: reference.exported("kwok", "aws/g5.xlarge")),
    Row("fleet list", reference.fleet),
    Row("fleet show t4", lambda: reference.hardware("t4")),
    Row("fleet slices t4", lambda: reference.slices("t4")),
    Row("vocabulary", reference.vocabulary),
    Row("vocabulary nvidia", lambda: reference.vocabulary("nvidia")),
    Row("vocabulary nvidia memory", lambda: reference.vocabulary("nvidia", "memory")),
    Row("schema", reference.schema, option=""),
    Row("schema ResourceClaim", lambda: reference.schema("ResourceClaim"), option=""),
    Row("metrics list", lambda: {"metrics": reference.metrics()}),
    Row("examples list", reference.examples),
    Row("version", reference.versions),
    Row("status", lambda: {"labs": reference.labs()}),
    Row("rbac reader", lambda: reference.permissions("reader")),
    Row("rbac --list", reference.components),
    Row(
        "replay sample --policy first-fit --seeds 42 --load 0.5",
        lambda: [curve.to_dict() for curve in replay(policies=["first-fit"], seeds=[42], load=0.5)],
        changing=("seconds",),
    ),
)  # fmt: skip


def live_rows(lab: Lab) -> Mapping[str, Row]:
    """Rows for a running cluster, which is also the current context."""
    rows = (
        Row("explain", lambda: explain().to_dict()),
        Row("explain pod/large", lambda: explain(name="pod/large").to_dict()),
        Row("free", lambda: free().to_dict()),
        Row("doctor", lambda: doctor().to_dict(), changing=("age", "taken")),
        Row("plan --catalog aws", lambda: plan(catalog=["aws"]).to_dict()),
        Row("rbac reader --check", lambda: reference.missing_permissions("reader")),
        Row("get pod large", lambda: lab.get("pod", "large"), changing=("managedFields",)),
        Row("snapshot", lambda: Cluster.live().to_dict(), option="-o FILE", changing=("taken",)),
    )
    return {row.words: row for row in rows}


LIVE: Final = (
    "explain", "explain pod/large", "free", "doctor", "plan --catalog aws", "rbac reader --check", "get pod large",
    "snapshot",
)  # fmt: skip


def without(data: Any, keys: Sequence[str]) -> Any:
    """Return data without the values of some keys, at any depth."""
    if isinstance(data, dict):
        return {key: without(value, keys) for key, value in data.items() if key not in keys}
    return [without(value, keys) for value in data] if isinstance(data, list | tuple) else data

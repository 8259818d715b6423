"""The manifests of five articles, with their mistakes: the findings in each, and the result after all fixes.

The tables are the specification: exactly these findings are expected. Files that an article applies together are
checked together.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from allotment.model.loading import load_text
from allotment.tools.check.finding import Finding
from allotment.tools.check.fixer import fix
from allotment.tools.check.run import check
from tests.unit.tools.check.bundles import bundle_of

Shared = Callable[[str], Path]


class Seed(NamedTuple):
    """Files that are checked together; ``expected`` are the codes in order of position, as in ``S101 file:line``.

    ``fleet`` is hardware on which all pods get their devices after the fixes; empty if nothing is allocated.
    ``remaining`` are codes that no fix removes.
    """

    files: tuple[str, ...]
    expected: tuple[str, ...] = ()
    fleet: str = ""
    remaining: tuple[str, ...] = ()


SEEDS: Final[dict[str, Seed]] = {
    # --- one GPU, time-slicing, MPS, MIG ---------------------------------------------------------------------
    "001 slice in shorthand": Seed(
        ("seed001-resourceslice-fragment",),
        ("S114 :1", "S112 :2", "S112 :3", "S112 :4", "S112 :5", "S112 :7"),
        remaining=("S114",),
    ),
    "001 one Ampere GPU": Seed(
        ("seed001-rct-ampere-20gi", "seed001-deployment-single"), fleet="1xa100-40gb"
    ),
    "001 time-slicing": Seed(
        ("seed001-claim-timeslicing", "seed001-deployment-timeslicing"),
        ("V309 seed001-claim-timeslicing:25",),
        fleet="1xa100-40gb",
        remaining=("V309",),
    ),
    "001 MPS": Seed(
        ("seed001-claim-mps", "seed001-deployment-timeslicing"),
        ("V309 seed001-claim-mps:25", "M404 seed001-deployment-timeslicing:33"),
        fleet="1xa100-40gb",
        remaining=("V309",),
    ),
    "001 seven MIG devices": Seed(
        ("seed001-rct-mig", "seed001-deployment-mig"),
        ("M406 seed001-deployment-mig:18",),
        fleet="1xa100-40gb/dynamic-mig",
    ),
    # --- family 1: >= on quantities, flat requests in v1 -----------------------------------------------------
    "002 device plugin": Seed(("seed002-device-plugin-fragment",), ("S114 :1",), remaining=("S114",)),
    "002 training job": Seed(
        ("seed002-deviceclass-high-memory", "seed002-training-job"),
        ("C202 seed002-deviceclass-high-memory:10", "S102 seed002-training-job:11"),
        fleet="1xa100-80gb",
    ),
    "002 shared inference": Seed(("seed002-shared-inference",), ("S102 :10", "V306 :10"), fleet="t4"),
    "002 two MIG devices of one GPU": Seed(
        ("seed002-mig-mixed",), ("S102 :12", "S102 :19"), fleet="2xh100/dynamic-mig"
    ),
    # --- family 2: v1alpha3, key/operator/values, source -------------------------------------------------------
    "003 shared claim": Seed(
        ("seed003-shared-claim-v1alpha3",), ("S101 :1", "S105 :8", "S104 :10", "S103 :21"), fleet="a10g"
    ),
    "003 training": Seed(
        ("seed003-training-template-v1alpha3",), ("S101 :1", "S105 :9", "S104 :11", "S103 :31"), fleet="3xa100-40gb"
    ),
    # --- family 3: All, equality, AMD's deviceID ---------------------------------------------------------------
    "004 all GPUs": Seed(
        ("seed004-deviceclass-nvidia", "seed004-claim-all-gpus"), ("M401 seed004-claim-all-gpus:12",), "t4"
    ),
    "004 exactly 64Gi": Seed(
        ("seed004-deviceclass-nvidia", "seed004-rct-64gi"), ("M402 seed004-rct-64gi:17",), "a100-80gb"
    ),
    "004 any MIG device": Seed(
        ("seed004-rct-mig-1g", "seed004-job-tf-mnist"), ("V306 seed004-rct-mig-1g:12",), "a100-40gb/dynamic-mig"
    ),
    "004 two partitions": Seed(("seed004-claim-two-partitions",), ("V303 :10",), "mi300x-8x-oam/cpx"),
    "004 pod without its template": Seed(("seed004-pod-gpu-test2",), ("M405 :25",), remaining=("M405",)),
    "004 slice of an MI300X": Seed(("seed004-resourceslice-mi300x",), ("S111 :6",)),
    "004 slice of a partition": Seed(("seed004-resourceslice-partition",), ("S111 :6",)),
    "004 values of the operator": Seed(("seed004-helm-operator-values",), ("S114 :2",), remaining=("S114",)),
    "004 values of the driver": Seed(("seed004-helm-dra-values",), ("S114 :2", "V311 :3"), remaining=("S114",)),
    "004 old pod": Seed(("seed004-migration-old-fragment",), ("S114 :2",), remaining=("S114",)),
    "004 new pod": Seed(("seed004-migration-new-fragment",), ("S114 :2", "M405 :10"), remaining=("S114", "M405")),
    "004 a node's name": Seed(("seed004-nodeselector-fragment",), ("S114 :1",), remaining=("S114",)),
    "004 selector by attributes": Seed(("seed004-selector-attribute-fragment",), ("S114 :1",), remaining=("S114",)),
    "004 selector by capacity": Seed(
        ("seed004-selector-capacity-fragment",), ("S114 :1", "M402 :5"), remaining=("S114",)
    ),
    "004 selector by driver": Seed(("seed004-selector-driver-fragment",), ("S114 :1",), remaining=("S114",)),
    # --- family 4: accessors, "beta" -------------------------------------------------------------------------
    "005 device plugin": Seed(("seed005-device-plugin-fragment",), ("S114 :2",), remaining=("S114",)),
    "005 both": Seed(
        ("seed005-coexistence-fragment",), ("S114 :2", "S114 :9", "M405 :11"), remaining=("S114", "S114", "M405")
    ),
    "005 two H100": Seed(
        ("seed005-deviceclass-h100-v1beta1", "seed005-claim-training-v1beta1", "seed005-pod-distributed-training"),
        (
            "S101 seed005-claim-training-v1beta1:2",
            "C202 seed005-claim-training-v1beta1:16",
            "C204 seed005-claim-training-v1beta1:16",
            "C205 seed005-claim-training-v1beta1:16",
            "C204 seed005-claim-training-v1beta1:17",
            "C205 seed005-claim-training-v1beta1:17",
            "S101 seed005-deviceclass-h100-v1beta1:2",
            "V305 seed005-deviceclass-h100-v1beta1:10",
            "C204 seed005-deviceclass-h100-v1beta1:11",
            "C205 seed005-deviceclass-h100-v1beta1:11",
        ),
        fleet="2xh100",
        remaining=("V301",),
    ),
    "005 a MIG device": Seed(
        ("seed005-claim-mig-v1beta1",),
        ("S101 :2", "V306 :10", "C204 :14", "C205 :14"),
        fleet="h100/dynamic-mig",
    ),
}  # fmt: skip

seeds = pytest.mark.parametrize("seed", SEEDS.values(), ids=[name.replace(" ", "-") for name in SEEDS])


def _texts(seed: Seed, shared: Shared) -> dict[str, str]:
    return {f"{name}.yaml": shared(f"manifests/{name}.yaml").read_text("utf-8") for name in seed.files}


def _code_and_line(finding: Finding, alone: bool) -> str:
    file = "" if alone else finding.where.file.removesuffix(".yaml")
    return f"{finding.code} {file}:{finding.where.line}"


@seeds
def test_findings(seed: Seed, shared: Shared) -> None:
    findings = check(bundle_of(_texts(seed, shared)))
    reported = [_code_and_line(finding, alone=len(seed.files) == 1) for finding in findings]
    assert sorted(reported) == sorted(seed.expected), "\n".join(f"{f.code} {f.where} {f.message}" for f in findings)


@seeds
def test_fixed_manifests_fit(seed: Seed, shared: Shared) -> None:
    texts = _texts(seed, shared)
    fixed = fix(bundle_of(texts), unsafe=True)
    fixed_texts = {**texts, **fixed.texts}
    findings = check(bundle_of(fixed_texts, fleet=seed.fleet))
    assert sorted(f.code for f in findings) == sorted(seed.remaining), "\n".join(
        f"{f.code} {f.where} {f.message}" for f in findings
    )
    assert fix(bundle_of(fixed_texts), unsafe=True).texts == {}


@seeds
def test_fixes_keep_comments(seed: Seed, shared: Shared) -> None:
    texts = _texts(seed, shared)
    for name, text in fix(bundle_of(texts), unsafe=True).texts.items():
        assert not load_text(text, name).problems
        for line in texts[name].splitlines():
            _, mark, comment = line.partition("# ")
            if mark and "'" not in line:
                assert f"# {comment}" in text


def test_every_seed_is_listed(shared: Shared) -> None:
    listed = {name for seed in SEEDS.values() for name in seed.files}
    assert {path.stem for path in shared("manifests/README.md").parent.glob("seed*.yaml")} == listed

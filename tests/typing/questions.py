"""Questions and their results, as type checkers see them; ``type: ignore`` marks what they must reject."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, assert_type

import allotment
from allotment import Cluster, Manifests
from allotment.tools.free import DeviceState


def clusters() -> None:
    assert_type(Cluster.fleet("t4:2", "dgx-a100-40gb", kube="1.36"), Cluster)
    assert_type(Cluster.snapshot("snapshot.yaml", Path("more"), gates={"DRAPartitionableDevices": True}), Cluster)
    assert_type(Cluster.live("production", kubeconfig=Path("config"), gates=["DRAPartitionableDevices=true"]), Cluster)
    assert_type(Cluster().to_dict(redact=True), dict[str, Any])
    Cluster.fleet(machines=2)  # type: ignore[call-arg]
    Cluster("1.36")  # type: ignore[call-arg]


def manifests() -> None:
    loaded = allotment.load("app.yaml", Path("folder"), sys.stdin, {"kind": "Pod"}, ["a.yaml", ["b.yaml"]])
    assert_type(loaded, Manifests)
    assert_type(loaded[0].tree, dict[str, Any])
    assert_type(loaded.names, tuple[str, ...])
    allotment.load(b"app.yaml")  # type: ignore[arg-type]


def explanations() -> None:
    explanation = allotment.explain("app.yaml", Cluster.fleet("t4"))
    assert_type(explanation, allotment.Explanation)
    for answer in explanation.answers:
        assert_type(answer, allotment.Answer)
        assert_type(answer.fits, bool)
        if answer.reasons is not None:
            assert_type(answer.reasons.headline.summary, str)
    assert_type(explanation.to_dict(), dict[str, Any])
    assert_type(allotment.explain_classes("class.yaml", Cluster.fleet("t4")), allotment.ClassExplanation)
    allotment.explain(cluster="t4")  # type: ignore[arg-type]


def devices() -> None:
    for node in allotment.free(Cluster.fleet("t4"), tolerations=["dedicated=ml:NoSchedule"]).nodes:
        for device in node.devices:
            assert_type(device.state, DeviceState)
            for amount in device.capacity:
                assert_type(amount.total - amount.left, allotment.Quantity)


def findings() -> None:
    report = allotment.check("app.yaml", Path("more"), select=["S", "V301"], drivers={"gpu.nvidia.com": "25.8"})
    assert_type(report.findings, Sequence[allotment.Finding])
    assert_type(report.findings[0].where.line, int)
    assert_type(report.fails, bool)
    assert_type(allotment.fix("app.yaml", write=True).texts, Mapping[str, str])
    assert_type(allotment.migrate("app.yaml"), allotment.MigrationReport)
    allotment.check("app.yaml", fail_on="fatal")  # type: ignore[arg-type]


def machines() -> None:
    found = allotment.plan("app.yaml", catalog=["aws", Path("prices.csv")], max_spot=0.5, budget="12.50")
    assert_type(found, allotment.MachinePlan)
    assert_type(found.total, Decimal)
    assert_type([machine.usd_per_hour for machine in found.machines], list[Decimal])
    assert_type(allotment.replay(policies=["first-fit"], seeds=[42]), tuple[allotment.Curve, ...])
    allotment.plan("app.yaml", capacity_type="cheap")  # type: ignore[arg-type]


def claims() -> None:
    assert_type(allotment.claim(gpus=2, memory="40GB").text, str)
    assert_type(allotment.describe_claims("app.yaml"), tuple[allotment.ClaimSentence, ...])
    assert_type(allotment.doctor(Cluster.live(), select=["D5"]), allotment.DoctorReport)


def errors() -> None:
    try:
        allotment.load("app.yaml")
    except allotment.InvalidManifests as error:
        for problem in error.problems:
            assert_type(problem, allotment.InputProblem)
            assert_type(problem.position.line, int)
    except allotment.InputError as error:
        assert_type((error.problem, error.hint, error.argument), tuple[str, str, str])


def unknown_names() -> None:
    allotment.explane("app.yaml")  # type: ignore[attr-defined]

"""A plan as data."""

from __future__ import annotations

import json
from decimal import Decimal

from msgspec.structs import asdict, replace

from allotment.model.problems import InputProblem, Position
from allotment.planning.comparison import BaselineResult
from allotment.planning.machine_plan import MachinePlan
from allotment.planning.report import ProvisioningPlan
from tests.unit.planning.sample_plans import machine, mixed_plan, placement, plan_of_machines


def answer(plan: ProvisioningPlan) -> MachinePlan:
    return MachinePlan(**asdict(plan))


def test_an_unknown_bound_is_null() -> None:
    data = replace(answer(mixed_plan()), bound=Decimal(0)).to_dict()
    assert (data["bound"], data["gap"]) == (None, None)


def test_empty_fields_are_included() -> None:
    plan = plan_of_machines([machine("n", "aws/g5.xlarge", "a10g", "1.006", placement("a", "n", "gpu-0"))], "1")
    data = answer(plan).to_dict()
    (machine_,) = data["machines"]
    assert (machine_["taints"], machine_["layout"]) == ([], [])
    assert machine_["seats"][0]["claims"][0]["devices"][0]["share"] == {}
    assert machine_["seats"][0]["pod"] == {"namespace": "default", "name": "a"}


def test_json_always_has_every_field() -> None:
    keys = [
        "verdict", "total", "bound", "gap", "machines", "existing", "unserved", "choices", "relaxations", "untried",
        "notes", "catalogProblems",
    ]  # fmt: skip
    assert list(MachinePlan().to_dict()) == keys
    data = answer(mixed_plan()).to_dict()
    assert list(data) == keys
    assert data["total"] == "26.637027"
    assert data["choices"][0]["verdicts"][0]["serves"] is True
    assert data["choices"][0]["verdicts"][-1]["perHour"] is None
    assert json.dumps(data)


def test_optional_parts_are_last() -> None:
    ignored = InputProblem(code="catalog-row", message="expected a price", position=Position("own.csv", 3, 1))
    result = BaselineResult(rules="Karpenter", machines=2, total=Decimal("2.012"), unserved=1)
    plan = MachinePlan(catalog_problems=(ignored,), compared=(result,), next="allot plan app.yaml --why")
    data = plan.to_dict()
    assert list(data)[-3:] == ["catalogProblems", "compared", "next"]
    assert data["catalogProblems"] == [
        {"code": "catalog-row", "file": "own.csv", "line": 3, "column": 1, "message": "expected a price"}
    ]
    assert data["compared"] == [{"rules": "Karpenter", "machines": 2, "total": "2.012", "unserved": 1}]
    assert data["next"] == "allot plan app.yaml --why"

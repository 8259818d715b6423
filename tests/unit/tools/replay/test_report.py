"""Curves: mean and range over seeds, and known or unknown costs."""

from __future__ import annotations

import csv
import io
from decimal import Decimal

from allotment.api.replays.experiment import gpu_prices
from allotment.fleet.catalog import catalog
from allotment.tools.replay.manifests import PRODUCTS
from allotment.tools.replay.report import CurvePoint, Range, RunOutcome, cost_per_hour, curves_of, to_csv


def outcome(policy: str, seed: int, *allocated: float, usd: float | None = 2.0, seconds: float = 1.0) -> RunOutcome:
    points = tuple(CurvePoint(float(n), share, 1.0, 0.0, 3, usd) for n, share in enumerate(allocated))
    return RunOutcome("f", policy, seed, seconds, points)


def test_mean_minimum_and_maximum_over_seeds() -> None:
    [curve] = curves_of([outcome("a", 1, 0.0, 10.0), outcome("a", 2, 0.0, 20.0, seconds=3.0)])
    assert curve.steps[1].allocated == Range(15.0, 10.0, 20.0)
    assert (curve.steps[1].runs, curve.seconds) == (2, 2.0)


def test_only_steps_that_all_runs_have_are_compared() -> None:
    [curve] = curves_of([outcome("a", 1, 0.0, 10.0, 30.0), outcome("a", 2, 0.0, 20.0)])
    assert [step.at for step in curve.steps] == [0.0, 1.0]


def test_a_cost_is_unknown_if_it_is_unknown_for_one_run() -> None:
    [curve] = curves_of([outcome("a", 1, 0.0), outcome("a", 2, 0.0, usd=None)])
    assert curve.steps[0].usd is None
    [row] = csv.DictReader(io.StringIO(to_csv([curve])))
    assert (row["usd_per_hour_mean"], row["usd_per_hour_max"]) == ("", "")


def test_throughout_is_the_mean_except_for_refused() -> None:
    [curve] = curves_of([outcome("a", 1, 0.0, 10.0, 20.0)])
    assert curve.throughout().allocated.mean == 10.0
    assert curve.throughout().refused == curve.steps[-1].refused


def test_unused_nodes_cost_nothing_and_need_no_price() -> None:
    prices = {"T4": Decimal("0.5")}
    assert cost_per_hour([("T4", 4), ("no-such-model", 8)], [2, 0], prices) == 4.0
    assert cost_per_hour([("T4", 4), ("no-such-model", 8)], [2, 1], prices) is None
    assert cost_per_hour([("", 0)], [1], prices) is None


def test_a_gpu_costs_its_share_of_the_cheapest_machine_with_it() -> None:
    prices = gpu_prices(catalog(), PRODUCTS)
    assert prices["T4"] == Decimal("0.526")  # the smallest machine with one T4
    assert "no-such-model" not in prices
    assert all(price > 0 for price in prices.values())

"""``replay``: the arguments and their errors; the curves are those of the command."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from allotment.api.replay import replay
from allotment.cli.main import main
from allotment.errors import InputError, InvalidManifests


def without_seconds(curves: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**curve, "seconds": 0} for curve in curves]


def test_the_command_prints_the_curves(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "sample", "--policy", "fgd,random", "--seeds", "1-2", "--jobs", "1", "-o", "json"]) == 0
    printed = capsys.readouterr().out
    curves = replay("sample", policies=["fgd", "random"], seeds=[1, 2])
    assert [curve.policy for curve in curves] == ["random", "fgd"]
    assert without_seconds(json.loads(printed)) == without_seconds([curve.to_dict() for curve in curves])


def test_seeds_by_default() -> None:
    assert replay(policies="fgd", load=0.2)[0].steps[0].runs == 5
    assert replay(policies="fgd", use_times=True)[0].steps[0].runs == 1


def test_runs_can_be_in_processes() -> None:
    one, two = (replay(policies=["fgd"], seeds=[1, 2], load=0.5, processes=number) for number in (1, 2))
    assert one[0].steps == two[0].steps


@pytest.mark.parametrize(
    ("request_replay", "message"),
    [
        (lambda: replay("sampel"), "sampel: no such file or directory"),
        (lambda: replay(__file__), "nodes: no nodes specified"),
        (lambda: replay(policies=["best-fti"]), "unknown policy 'best-fti'"),
        (lambda: replay(load=0), "load: expected a fraction of the GPUs, at most 10, found 0"),
        (lambda: replay(load=130), "load: expected a fraction of the GPUs, at most 10, found 130"),
        (lambda: replay(processes=0), "processes: expected a number >= 1, found 0"),
    ],
)
def test_errors_name_the_argument(request_replay: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        request_replay()


def test_invalid_rows_of_prices_are_refused(tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text("provider,instance_type,vcpu,memory_gib,gpu_count,gpu,on_demand_usd_per_hour\nus,a,8,64,1,l4,-1\n")
    with pytest.raises(InvalidManifests, match=r"own\.csv:2:"):
        replay(catalog=[own])

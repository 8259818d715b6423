"""``allot replay`` as a user runs it: the result first, progress on standard error, stored results, errors."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from allotment.api.replays.experiment import policies_named
from allotment.cli.replay.options import seeds_of, share_of
from allotment.errors import InputError
from allotment.tools.replay.report import COLUMNS
from tests.unit.cli.conftest import Allot

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn-0,64000,262144,2,T4\nn-1,64000,262144,2,unheard-of\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np-0,4000,8192,1,1000\np-1,4000,8192,1,500\np-2,1000,1024,0,0\n"


@pytest.fixture
def trace(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "pods.csv").write_text(PODS)
    (tmp_path / "nodes.csv").write_text(NODES)
    return str(tmp_path / "pods.csv"), str(tmp_path / "nodes.csv")


def test_the_first_line_is_the_result_followed_by_a_row_for_each_policy(allot: Allot) -> None:
    ran = allot("replay", "sample", "--policy", "fgd,lookahead", "--policy", "random", "--seeds", "42", "--jobs", "1")
    assert ran.code == 0
    first, _, head, *rows = ran.out.splitlines()
    assert first.startswith("lookahead leaves ")
    assert first.endswith(" of 352 GPUs unallocated when pods have requested 100 % of them.")
    assert head.split() == ["POLICY", "UNALLOCATED", "SPREAD", "FRAGMENTED", "USD/GPU-H", "RUNS", "TIME"]
    assert [row.split()[0] for row in rows] == ["random", "fgd", "lookahead"]
    assert all(len(row) <= 80 for row in (head, *rows))


def test_progress_is_on_standard_error(allot: Allot) -> None:
    ran = allot("replay", "sample", "--policy", "fgd", "--seeds", "1,2", "--jobs", "1")
    assert [line.split(":")[0] for line in ran.err.splitlines()] == ["[1/2] fgd, seed 1", "[2/2] fgd, seed 2"]
    assert "% allocated" in ran.err


def test_replay_with_times_reports_unplaced_requests(allot: Allot) -> None:
    ran = allot("replay", "sample", "--use-times", "--policy", "lookahead", "--jobs", "1")
    assert ran.out.startswith("lookahead refuses ")
    assert "REFUSED" in ran.out


def test_curves_as_csv_have_a_row_for_each_policy_and_step(allot: Allot) -> None:
    ran = allot("replay", "sample", "--policy", "fgd,best-fit", "--seeds", "1-3", "--jobs", "1", "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert tuple(rows[0]) == COLUMNS
    assert {row["policy"] for row in rows} == {"fgd", "best-fit"}
    for row in rows:
        assert row["runs"] == "3"
        least, mean, most = (float(row[f"allocated_pct_{statistic}"]) for statistic in ("min", "mean", "max"))
        assert least <= mean + 1e-9 <= most + 2e-9
        assert float(row["unallocated_pct_mean"]) == pytest.approx(100 - mean, abs=2e-4)
        assert float(row["usd_per_hour_mean"]) >= 0
    assert [float(row["at_pct"]) for row in rows if row["policy"] == "fgd"][:3] == [0, 1, 2]


def test_curves_as_json(allot: Allot) -> None:
    ran = allot("replay", "sample", "--policy", "fgd", "--seeds", "1", "--jobs", "1", "-o", "json")
    [curve] = json.loads(ran.out)
    assert curve["policy"] == "fgd"
    assert curve["steps"][0]["allocated"] == {"mean": 0.0, "least": 0.0, "most": 0.0}


def test_an_unknown_price_is_not_zero(allot: Allot, trace: tuple[str, str]) -> None:
    pods, nodes = trace
    ran = allot("replay", pods, "--nodes", nodes, "--policy", "first-fit", "--seeds", "1", "--jobs", "1", "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    by_step = {float(row["at_pct"]): row["usd_per_hour_mean"] for row in rows}
    assert float(by_step[25.0]) > 0  # only the T4s are in use
    assert by_step[100.0] == ""
    result = allot("replay", pods, "--nodes", nodes, "--policy", "first-fit", "--seeds", "1", "--jobs", "1")
    assert "unknown" in result.out


def test_stored_runs_are_not_repeated(allot: Allot, tmp_path: Path) -> None:
    words = ("replay", "sample", "--policy", "fgd,best-fit", "--jobs", "1", "--output-dir", str(tmp_path / "out"))
    first = allot(*words, "--seeds", "1-2")
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "runs").iterdir()}
    assert sorted(path.name for path in kept) == ["best-fit-1.json", "best-fit-2.json", "fgd-1.json", "fgd-2.json"]
    again = allot(*words, "--seeds", "1-3")
    assert again.err.splitlines()[0] == "4 of 6 runs found in the output directory"
    assert len(again.err.splitlines()) == 3
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert first.code == again.code == 0
    assert len(list(csv.DictReader((tmp_path / "out" / "curves.csv").read_text().splitlines()))) > 100


def test_stored_results_of_another_experiment_are_ignored(allot: Allot, tmp_path: Path) -> None:
    words = (
        "replay",
        "sample",
        "--policy",
        "fgd",
        "--seeds",
        "1",
        "--jobs",
        "1",
        "--output-dir",
        str(tmp_path / "out"),
    )
    allot(*words)
    again = allot(*words, "--load", "110%")
    assert "made before" not in again.err
    assert "[1/1]" in again.err


def test_a_damaged_file_is_regenerated(allot: Allot, tmp_path: Path) -> None:
    words = (
        "replay",
        "sample",
        "--policy",
        "fgd",
        "--seeds",
        "1",
        "--jobs",
        "1",
        "--output-dir",
        str(tmp_path / "out"),
    )
    whole = allot(*words, "-o", "csv").out
    (tmp_path / "out" / "runs" / "fgd-1.json").write_text('{"fingerprint":')
    assert allot(*words, "-o", "csv").out == whole


def test_result_is_independent_of_the_number_of_processes(allot: Allot) -> None:
    words = ("replay", "sample", "--policy", "fgd,random", "--seeds", "1-2", "-o", "csv")
    assert allot(*words, "--jobs", "2").out == allot(*words, "--jobs", "1").out


def test_after_a_kill_it_resumes_and_leaves_no_process(tmp_path: Path, allot: Allot) -> None:
    out = tmp_path / "out"
    words = ["replay", "sample", "--policy", "first-fit,fgd", "--seeds", "1-7", "--jobs", "2", "--output-dir", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-c", _MAIN, *words],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    _until(lambda: len(list(out.glob("runs/*.json"))) >= 2, "two runs are made")
    process.send_signal(signal.SIGKILL)
    process.wait()
    _until(lambda: not _alive(process.pid), "the workers have ended")
    kept = {path: path.stat().st_mtime_ns for path in out.glob("runs/*.json")}
    assert len(kept) >= 2
    ran = allot(*words[:-4], "--jobs", "1", "--output-dir", str(out), "-o", "csv")
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert ran.out == allot(*words[:-4], "--jobs", "1", "-o", "csv").out
    assert not list(out.glob("runs/.*"))


_MAIN = "from allotment.cli.main import main\nimport sys\nif __name__ == '__main__':\n    sys.exit(main())\n"


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _until(holds: Callable[[], bool], message: str) -> None:
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end, message
        time.sleep(0.02)


def test_invalid_rows_are_reported_individually(allot: Allot, trace: tuple[str, str]) -> None:
    pods, nodes = trace
    Path(pods).write_text(PODS + "p-3,many,1,0,0\np-0,1,1,0,0\n")
    ran = allot("replay", pods, "--nodes", nodes)
    assert ran.code == 2
    assert f"{pods}:5:5: bad-row: cpu_milli: expected a number, found 'many'" in ran.err
    assert f"{pods}:6:1: bad-row: duplicate name 'p-0'" in ran.err
    assert ran.err.splitlines()[-1] == "Found 2 errors."


def test_invalid_price_file_is_rejected_before_any_run(allot: Allot, trace: tuple[str, str], tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text("provider,instance_type,on_demand_usd_per_hour\naws,p4d.24xlarge,-1\n")
    ran = allot("replay", trace[0], "--nodes", trace[1], "--catalog", str(own))
    assert (ran.code, ran.out) == (2, "")
    assert f"{own}:2:18: bad-cell: on_demand_usd_per_hour: expected USD per hour" in ran.err


def test_a_model_outside_the_table_is_priced_by_its_name(allot: Allot, tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.csv"
    pods = tmp_path / "pods.csv"
    pods.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\nweb,1000,1024,1,1000\n")
    for model, known in (("A100", True), ("H100", True), ("ZX81", False)):
        nodes.write_text(f"sn,cpu_milli,memory_mib,gpu,model\nn,96000,393216,8,{model}\n")
        out = allot("replay", str(pods), "--nodes", str(nodes), "--policy", "first-fit", "--jobs", "1").out
        assert ("unknown" not in out) == known


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("nowhere.csv", "--nodes", "nowhere.csv"), "nowhere.csv: no such file or directory"),
        ((__file__,), "no nodes specified"),
        (("sampel",), "sampel: no such file or directory did you mean sample?"),
        (("sample", "--policy", "best-fti"), "unknown policy 'best-fti'"),
        (("sample", "--seeds", "51-42"), "--seeds '51-42': 51-42 ends before it begins"),
        (("sample", "--load", "lots"), "--load 'lots': expected a percentage of the GPUs, at most 1000 %"),
        (("sample", "--jobs", "0"), "--jobs 0: expected a number >= 1"),
        (("sample", "--picture", "curves.gif"), "--picture curves.gif: expected a name that ends in .svg or .png"),
        (("sample", "--picture", "/nowhere/c.svg"), "--picture /nowhere/c.svg: directory not found: /nowhere"),
    ],
)
def test_impossible_requests_fail_before_any_run(allot: Allot, words: tuple[str, ...], expected: str) -> None:
    ran = allot("replay", *words)
    assert ran.code == 2
    assert expected in " ".join(ran.err.split())


def test_nodes_without_gpus_are_rejected(allot: Allot, trace: tuple[str, str]) -> None:
    pods, nodes = trace
    Path(nodes).write_text("sn,cpu_milli,memory_mib,gpu,model\nn,1000,1000,0,\n")
    assert "none of the nodes has a GPU" in allot("replay", pods, "--nodes", nodes).err


def test_a_trace_without_times_rejects_use_times(allot: Allot, trace: tuple[str, str]) -> None:
    pods, nodes = trace
    assert "no pod has an arrival time" in " ".join(allot("replay", pods, "--nodes", nodes, "--use-times").err.split())


def test_the_picture_is_the_same_every_time(allot: Allot, tmp_path: Path) -> None:
    words = ("replay", "sample", "--policy", "fgd,lookahead", "--seeds", "1-2", "--jobs", "1")
    for name in ("a.svg", "b.svg"):
        assert allot(*words, "--picture", str(tmp_path / name)).code == 0
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert allot(*words, "--use-times", "--seeds", "1", "--picture", str(tmp_path / "c.png")).code == 0
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


def test_policies_seeds_and_shares_are_parsed() -> None:
    assert [policy.name for policy in policies_named(["fgd", "random"])] == ["random", "fgd"]
    assert len(policies_named([])) == 6
    assert seeds_of("42-51") == tuple(range(42, 52))
    assert share_of("130%") == share_of("130") == 1.3
    for wrong in ("", "1-", "a", "0-99999"):
        with pytest.raises(InputError):
            seeds_of(wrong)
    for wrong in ("0", "-5%", "1001%", "nan"):
        with pytest.raises(InputError):
            share_of(wrong)

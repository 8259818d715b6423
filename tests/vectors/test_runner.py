"""The vector runner's output and exit statuses."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vectors import __main__ as runner
from tests.vectors.result import Result


def fake_score(path: Path) -> Iterator[Result]:
    """A replacement for a set, whose rows contain whether they pass."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield Result(row["name"], row["passes"], "" if row["passes"] else "expected 1,\n found 2")


@pytest.fixture(autouse=True)
def _fake_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "scorer", lambda name: fake_score)


def recording(path: Path, **cases: bool) -> str:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"name": name, "passes": passes}) + "\n" for name, passes in cases.items())
    return str(path)


def test_all_passed_exits_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert runner.main(["cel", recording(tmp_path / "a.jsonl.gz", one=True, two=True)]) == 0
    assert capsys.readouterr().out == "passed 2 of 2\n"


def test_failing_cases_are_printed_first_and_the_score_last(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [recording(tmp_path / "a.jsonl.gz", one=True, two=False), recording(tmp_path / "b.jsonl.gz", three=False)]
    assert runner.main(["cel", *files]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "FAILED a.jsonl.gz: two: expected 1, found 2",
        "FAILED b.jsonl.gz: three: expected 1, found 2",
        "a.jsonl.gz: 1 of 2",
        "b.jsonl.gz: 0 of 1",
        "passed 1 of 3",
    ]


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (b"{", "not in the format of this set"),
        (b"{}\n", "not in the format of this set"),
        (b"[]\n", "not in the format of this set"),
        (b"\xff\n", "cannot be read"),
        (b"", "contains no case"),
    ],
)
def test_a_bad_file_is_one_line_and_exit_2(
    lines: bytes, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _refused(gzip.compress(lines), complaint, tmp_path, capsys)


@pytest.mark.parametrize("content", [b"not gzip", gzip.compress(b'{"name": "one", "passes": true}\n', mtime=0)[:-6]])
def test_half_a_file_is_one_line_and_exit_2(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _refused(content, "cannot be read", tmp_path, capsys)


def _refused(content: bytes, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(content)
    assert runner.main(["cel", str(path)]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith(f"error: {path}: {complaint}")
    assert err.count("\n") == 1


def test_a_missing_file_is_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert runner.main(["cel", str(tmp_path / "nope")]) == 2
    assert "no such file" in capsys.readouterr().err


def test_of_several_files_an_unreadable_one_is_reported_and_the_others_are_scored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runner.main(["cel", str(tmp_path / "nope"), recording(tmp_path / "a.jsonl.gz", one=True)]) == 2
    out, err = capsys.readouterr()
    assert out.splitlines() == ["a.jsonl.gz: 1 of 1", "passed 1 of 1"]
    assert "no such file" in err


@pytest.mark.parametrize("arguments", [[], ["cel"]])
def test_usage_is_exit_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert runner.main(arguments) == 2
    assert capsys.readouterr().err.startswith("usage:")


def test_unknown_set_names_the_known_ones(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.undo()
    assert runner.main(["cell", "a.jsonl.gz"]) == 2
    assert "allocator, apiserver, cel, validation" in capsys.readouterr().err

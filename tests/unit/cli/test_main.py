"""The command starts quickly, reports mistakes clearly, and ignores broken pipes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from allotment.cli import version as version_screen
from allotment.cli.main import EXIT_INTERNAL_ERROR, EXIT_INTERRUPTED, command_line
from tests.unit.cli.conftest import Allot

SRC = Path(__file__).parents[3] / "src"


def python(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [sys.executable, *words], capture_output=True, text=True, env=environment, timeout=240, check=False, **options
    )


def test_help_imports_nothing_but_argparse() -> None:
    script = (
        "import sys\n"
        "from allotment.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'msgspec', 'yaml', 're2', 'rich', 'allotment.engine', 'allotment.cel', 'allotment.fleet'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = python("-c", script)
    assert "explain" in done.stdout
    assert done.stderr == "[]\n"


def test_the_parser_of_one_command_equals_that_of_all() -> None:
    names = command_line()._commands()
    assert {"explain", "get", "version"} <= names.keys()
    for name, parser in names.items():
        alone = command_line(name)._commands()
        assert len(alone) < 8, "adding all takes a third of the time in which allot starts"
        assert alone[name].format_help() == parser.format_help()


def test_without_arguments_help_is_printed(allot: Allot) -> None:
    ran = allot("--debug")
    assert ran.code == 0
    assert ran.out.startswith("usage: allot")
    assert allot().code == 0
    assert allot("fleet").code == 2


@pytest.mark.parametrize(
    ("words", "problem", "hint"),
    [
        (["explian"], "unknown command 'explian'", "did you mean explain?"),
        (["free", "-o", "jsn"], "--output: expected one of wide, json, yaml, found 'jsn'", "did you mean json?"),
        (["free", "--nonsense"], "unrecognized arguments: --nonsense", "--help"),
        (["free"], "no cluster specified", "--cluster FILE"),
        (["explain"], "nothing to explain", "-f FILE"),
        (["free", "--fleet", "dgx-a10"], "unknown hardware 'dgx-a10'", "did you mean dgx-a100-40gb?"),
        (["free", "--fleet", "t4", "--cluster", "x"], "not allowed with", ""),
        (["free", "--fleet", "t4", "--kube-version", "3"], "expected one of 1.34", ""),
        (["free", "--fleet", "t4", "--feature-gates", "DRAX=true"], "unrecognized feature gate: DRAX", ""),
        (["examples", "print", "mpps"], "unknown example 'mpps'", "did you mean mps?"),
    ],
)
def test_mistake_is_one_error_with_hint(allot: Allot, words: list[str], problem: str, hint: str) -> None:
    ran = allot(*words)
    assert ran.code == 2
    assert ran.out == ""
    first, _, rest = ran.err.partition("\n")
    assert first.startswith("allot: error: ")
    assert problem in first
    assert hint in rest
    assert "Traceback" not in ran.err


def test_internal_error_is_reported_as_bug_with_traceback_on_debug(
    allot: Allot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> int:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(version_screen, "run", broken)
    ran = allot("version")
    assert ran.code == EXIT_INTERNAL_ERROR
    assert "internal error: ZeroDivisionError: oops" in ran.err
    assert "--debug" in ran.err
    with pytest.raises(ZeroDivisionError):
        allot("--debug", "version")


def test_interruption_is_quiet(allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(version_screen, "run", interrupted)
    assert allot("version") == (EXIT_INTERRUPTED, "", "")


def test_closed_pipe_is_not_an_error() -> None:
    command = f"'{sys.executable}' -m allotment.cli.main fleet slices b200 --mode dynamic-mig --gpus 8 | head -n 1"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SRC)},
        timeout=240,
        check=False,
    )
    assert done.stdout == "apiVersion: resource.k8s.io/v1\n"
    assert done.stderr == ""


def test_version_prints_supported_releases(allot: Allot) -> None:
    assert "models Kubernetes 1.34, 1.35, 1.36" in allot("version").out
    assert allot("version", "-o", "json").out.startswith('{\n    "allotment"')


def test_help_fits_80_columns(allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = allot("--help").out
    assert max(map(len, out.splitlines())) <= 80
    assert out.index(" explain ") < out.index(" check ") < out.index(" migrate ") < out.index(" up ")
    for command in ("check", "cluster-autoscaler", "rule", "vocabulary", "schema"):
        assert max(map(len, allot(command, "--help").out.splitlines())) <= 80
    assert max(map(len, allot("check", "-o", "xml").err.splitlines())) <= 80


def test_help_of_every_command_has_a_description(allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for words in (("explain",), ("free",), ("up",), ("driver",), ("driver", "run"), ("snapshot",), ("fleet", "list")):
        out = allot(*words, "--help").out
        usage, description, *_ = out.split("\n\n")
        assert usage.startswith(f"usage: allot {' '.join(words)} ")
        assert description[0].isupper(), words
        assert not description.startswith(("Positional", "Options")), words
        assert max(map(len, out.splitlines())) <= 80, words

"""Common first attempts of users, and the answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from allotment.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "problem", "hint"),
    [
        (["plan", "app.yaml", "--provider", "aws"], "unrecognized arguments: --provider aws", "use --catalog aws,gcp"),
        (["plan", "app.yaml", "--regions=a"], "unrecognized arguments: --regions=a", "use --zones"),
        (
            ["plan", "app.yaml", "--cataloge", "aws"],
            "unrecognized arguments: --cataloge aws",
            "did you mean --catalog?",
        ),
        (
            ["plan", "app.yaml", "--max-machines", "two"],
            "--max-machines: expected a whole number, found 'two'",
            "allot plan --help",
        ),
        (
            ["plan", "app.yaml", "--time-limit", "long"],
            "--time-limit: expected a number, found 'long'",
            "allot plan --help",
        ),
        (["plan", "app.yaml", "--budget"], "--budget: expected a value", "allot plan --help"),
        (
            ["run", "scheduler", "--bind-delay", "-3s"],
            "--bind-delay: expected a value >= 0, found -3s",
            "scheduler --help",
        ),
        (
            ["plan", "-o", "jsno"],
            "--output: expected one of wide, json, yaml, machines, nodeclaims, found 'jsno'",
            "json?",
        ),
        (["catalog", "h100"], "unknown command 'h100': expected one of list", "did you mean allot catalog list h100?"),
        (["catalog", "lst"], "unknown command 'lst'", "did you mean list?"),
        (["catalog", "export"], "the following arguments are required: FOR\n", "allot catalog export --help"),
        (["catalog", "export", "karpentr"], "FOR: expected one of karpenter", "did you mean karpenter?"),
        (["catalog", "list", "--nonsense"], "unrecognized arguments: --nonsense", "see allot catalog list --help"),
        (["down", "--name", "mine"], "unrecognized arguments: --name", "allot down NAME"),
    ],
)
def test_misspelt_arguments_are_corrected(
    arguments: list[str], problem: str, hint: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")

    with pytest.raises(SystemExit) as ended:
        main(arguments)

    error = capsys.readouterr().err
    assert ended.value.code == 2
    assert problem in error
    assert hint in error


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is always full")
def test_full_disk_is_not_an_internal_error() -> None:
    script = "import sys\nfrom allotment.cli.main import main\nsys.exit(main(['catalog', 'list']))\n"
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-c", script], check=False, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert ran.returncode == 2
    assert ran.stderr == "allot: error: cannot write the output: no space left on device\n"

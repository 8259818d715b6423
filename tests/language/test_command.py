"""``python -m tests.language``: output and exit status."""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

import pytest

from tests.language import help_pages, metrics
from tests.language.__main__ import main
from tests.language.files import hits_in_file
from tests.language.word_list import searcher


def test_hits_are_printed_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.py").write_text('asked = "it was told"\n')
    assert main([str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{tmp_path}/x.py:1: message: “told”: use ")
    assert lines[-1] == "1 in message, 1 in name"


def test_plain_files_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.py").write_text('"""A module with one constant."""\n\nSIZE = 1\n')
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == "none\n"


def test_a_path_that_does_not_exist_is_bad_usage(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main([str(tmp_path / "absent")])
    assert ended.value.code == 2


def test_the_help_of_nested_commands_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = argparse.ArgumentParser(prog="allot")
    driver = parser.add_subparsers().add_parser("driver", help="drivers of nodes")
    verify = driver.add_subparsers().add_parser("verify")
    verify.add_argument("--socket", help="where the driver is asked")
    monkeypatch.setattr(help_pages, "command_line", lambda: parser)
    (hit,) = help_pages.hits_in_help(searcher())
    assert (hit.path, hit.category, hit.word) == ("allot driver verify --help", "help", "asked")


def test_the_figures(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=Test", "-c", "user.email=test@example.com")
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    package = tmp_path / "src" / "allotment"
    package.mkdir(parents=True)
    (package / "a.py").write_text("class Pool: ...\nclass Device:\n    class Pool: ...\n")
    (package / "b.py").write_text("class Slice: ...\n")
    git("init", "--quiet")
    for subject in ("first", "short", "x" * 73):
        git("commit", "--quiet", "--allow-empty", "-m", subject)
    page = tmp_path / "page.md"
    page.write_text("It is told.\n")
    lines = list(metrics.lines(hits_in_file(page, searcher()), "HEAD~2", tmp_path))
    assert lines[:2] == ["modules: 2", "class names shared: 25.0% (3 names of 4 classes)"]
    assert "words to avoid, docs: 1" in lines
    assert "words to avoid, name: 0" in lines
    assert lines[-1] == "commit subjects over 72 characters: 50.0% (1 of 2)"


def test_an_unknown_commit_is_bad_usage(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--metrics", "--since", "no-such-commit", str(tmp_path)])
    assert ended.value.code == 2
    assert "--since no-such-commit" in capsys.readouterr().err

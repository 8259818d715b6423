"""``scripts/check_commit_message``: accepted messages, and the problems of others."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.language.word_list import ROOT

SCRIPT = ROOT / "scripts" / "check_commit_message"
problems = runpy.run_path(str(SCRIPT))["problems"]
LONG = "word " * 20


def _run(argument: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, argument], check=False, capture_output=True, text=True, cwd=cwd, timeout=60
    )


@pytest.mark.parametrize(
    "message",
    [
        "tests: check the leader lock in one place",
        "cli/output: fix the width of tables\n\nThe width was that of the first row.\n",
        "scheduler: pass the deadline to the binder",
        "docs: embed the picture",
        "engine: speed up the search",
        "lab: process signals in order",
        f"docs: add a link\n\nhttps://example.com/{'x' * 80}\n",
        f"docs: add a link\n\n- see https://example.com/{'x' * 80}\n",
        f"docs: add code\n\n    {LONG}\n\n```\n{LONG}\n```\n",
        f"docs: add a page\n\nCo-authored-by: {'Somebody ' * 8}<x@example.com>\n",
        "Merge branch 'main' into feature, with a name that is longer than seventy-two characters",
        'Revert "docs: Add a page."',
        "fixup! docs: add a page",
        f"docs: {'x' * 66}",
    ],
)
def test_messages_that_are_right(message: str) -> None:
    assert list(problems(message)) == []


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("add a page", "must be `area: what`"),
        ("Docs: add a page", "must be `area: what`"),
        ("docs:add a page", "must be `area: what`"),
        ("docs: added a page", "not “added”"),
        ("docs: adding a page", "not “adding”"),
        ("docs: adds a page", "not “adds”"),
        ("docs: Add a page", "not “Add”"),
        ("docs: the page is new", "not “the”"),
        ("docs: what the page says", "not “what”"),
        ("docs: add a page.", "must not end with a period"),
        (f"docs: {'x' * 67}", "at most 72 characters; it has 73"),
        ("docs: add a page\nbecause", "the second line must be blank"),
        (f"docs: add a page\n\n{LONG}", "must be wrapped at 72 characters"),
        (f"docs: add a page\n\n```\n```\n{LONG}", "must be wrapped at 72 characters"),
    ],
)
def test_messages_that_are_not(message: str, problem: str) -> None:
    (found,) = problems(message)
    assert problem in found


def test_as_a_hook_it_reads_what_git_shows_in_the_editor(tmp_path: Path) -> None:
    file = tmp_path / "COMMIT_EDITMSG"
    scissors = f"# {'-' * 24} >8 {'-' * 24}"
    file.write_text(f"\n# A comment.\ndocs: add a page\n\nBecause.\n# {LONG}\n{scissors}\n{LONG}\n")
    assert _run(file, tmp_path).returncode == 0
    file.write_text("Docs: added a page.\n")
    checked = _run(file, tmp_path)
    assert checked.returncode == 1
    assert checked.stdout.startswith("commit message: the subject must not end with a period\n")


def test_a_range_is_checked_commit_by_commit(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        identity = ("-c", "user.name=Test", "-c", "user.email=test@example.com")
        done = subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "--quiet")
    for message in ("first", "docs: add a page\n\nWhy.", "docs: changed it", "docs: change it"):
        git("commit", "--quiet", "--allow-empty", "-m", message)
    checked = _run("HEAD~3..HEAD", tmp_path)
    assert checked.returncode == 1
    (line,) = checked.stdout.splitlines()
    assert line.startswith(f"{git('rev-parse', '--short', 'HEAD~1')}: the description must begin with an imperative")
    assert _run("HEAD~1..HEAD", tmp_path).returncode == 0


def test_a_range_that_git_does_not_know_is_bad_usage(tmp_path: Path) -> None:
    assert _run("no-such..HEAD", ROOT).returncode == 2
    assert _run("--what", tmp_path).returncode == 2


def test_as_a_hook_it_refuses_a_commit(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / ".git" / "hooks" / "commit-msg").symlink_to(SCRIPT)
    commit = ["git", "-c", "user.name=Test", "-c", "user.email=test@example.com", "commit", "--allow-empty", "-m"]
    for message, status in (("Added it.", 1), ("docs: add it", 0)):
        done = subprocess.run([*commit, message], cwd=tmp_path, check=False, capture_output=True)
        assert done.returncode == status, done.stderr

"""The completion scripts in real shells, when TAB is pressed."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.completion.shells import terminal

_SCRIPT = "#!{python}\nimport sys\nfrom allotment.cli.main import main\nsys.exit(main())\n"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """``allot`` on the search path, with an empty home and an empty working directory."""
    programs, here = tmp_path / "bin", tmp_path / "here"
    programs.mkdir()
    (here / "manifests").mkdir(parents=True)
    (here / "many.yaml").touch()
    script = programs / "allot"
    script.write_text(_SCRIPT.format(python=sys.executable))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path), "TERM": "dumb", "PWD": str(here),
        "LC_ALL": "C.UTF-8", "XDG_CONFIG_HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path),
    }  # fmt: skip


_START = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source <(allot completion bash)"),
    "zsh": (
        ["zsh", "-f", "-i"],
        "autoload -U compinit; compinit -u -D; zstyle '*' insert-tab false; source <(allot completion zsh)",
    ),
}

#: The text before TAB, and the line after it.
_COMPLETED = {
    "allot expl": "allot explain ",
    "allot completion z": "allot completion zsh ",
    "allot catalog list --prov": "allot catalog list --provider ",
    "allot explain -f many": "allot explain -f many.yaml ",
    "allot explain --filename=many": "allot explain --filename=many.yaml ",
    "allot metrics alerts -d man": "allot metrics alerts -d manifests/",
    "allot get -o jsonp": "allot get -o jsonpath=",
    "allot get --output=jsonp": "allot get --output=jsonpath=",
    "allot delete --wait=f": "allot delete --wait=false ",
    "allot plan --catalog aws,gc": "allot plan --catalog aws,gcp ",
    "allot free --feature-gates DRAAdminAccess=f": "allot free --feature-gates DRAAdminAccess=false ",
    "allot free --feature-gates=DRAAdminAccess=f": "allot free --feature-gates=DRAAdminAccess=false ",
    "allot nothing ": "allot nothing ",
}


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_tab_completes(shell: str, environment: dict[str, str]) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    command, source = _START[shell]
    with terminal(command, environment) as screen:
        screen.type(f"cd {environment['PWD']}; {source}; echo is-$((40 + 2))\n")
        screen.awaits("is-42")
        for typed, line in _COMPLETED.items():
            screen.type(f"{typed}\t+\x01printf '%s\\n' '+\x05'\n")  # the line, between quotes, is printed
            assert f"\n+{line}+\r" in screen.awaits("+\r\n"), typed


def test_bash_shows_descriptions(environment: dict[str, str]) -> None:
    with terminal(_START["bash"][0], environment) as screen:
        screen.type(f"{_START['bash'][1]}; echo is-$((40 + 2))\n")
        screen.awaits("is-42")
        screen.type("allot d\t\t")
        screen.awaits("(delete objects)")


#: A line, and all that fish offers for it.
_OFFERED = [
    ("allot catal", ["catalog\tlist cloud instance types with prices and their ResourceSlices"]),
    ("allot delete --wait=f", ["--wait=false"]),
    ("allot explain -f man", ["manifests/", "many.yaml"]),
    ("allot metrics alerts -d man", ["manifests/"]),
    ("allot plan --catalog=aws,gc", ["--catalog=aws,gcp"]),
    ("allot free --feature-gates=DRAAdminAccess=f", ["--feature-gates=DRAAdminAccess=false"]),
    ("allot nothing ", []),
]


def test_fish_offers_completions(environment: dict[str, str]) -> None:
    if not shutil.which("fish"):
        pytest.skip("fish is not installed")
    for line, wanted in _OFFERED:
        story = "allot completion fish | source; complete -C $argv[1]"
        ran = subprocess.run(
            ["fish", "--no-config", "-c", story, line], env=environment, cwd=environment["PWD"], capture_output=True,
            text=True, check=True,
        )  # fmt: skip
        offered = ran.stdout.splitlines()
        names = offered if "\t" in "".join(wanted) else [candidate.partition("\t")[0] for candidate in offered]
        assert (sorted(names), ran.stderr) == (wanted, ""), line

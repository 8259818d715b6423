"""The last argument of a command line is completed from the parsers and the packaged data."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.cli.completion.command_line import Line
from allotment.cli.completion.completer import answer
from allotment.cli.completion.option_values import wanted
from allotment.cli.main import command_line
from allotment.cli.parser import Parser

#: What help calls values that are the user's own to find.
_FREE = {
    "KEY[=VALUE][:EFFECT]",
    "'>=24Gi'", "42-51", "50%", "A=true,B=false", "[ADDRESS:]PORT",
    "ADDRESS", "CLASS", "FAULT", "FIELDS", "HOST:PORT", "LABEL", "LABELS",
    "MIN:MAX:TYPE[/MODE]", "MODE", "MODEL", "MODES", "N", "NAMESPACE/NAME", "None", "PATTERN",
    "PERCENT", "DURATION", "SECONDS",
    "NODES", "ORIGIN", "RELEASE",
    "AMOUNT", "SIZE", "TYPE=N", "UID", "URL", "USD", "USER", "COMMAND", "X", "ZONE", "use [VERSION]",
}  # fmt: skip
#: Options of these names are free, too, where the value is called NAME.
_NEW_NAMES = {
    "--name", "--allowed-host", "--base-path",
    "--service-account", "--node-name", "--tls-san", "--lease-name", "--scheduler-name", "--stdin-filename",
    "vocabulary NAME",
}  # fmt: skip


def offered(*words: str) -> tuple[list[str], str]:
    """The completions, and the directive."""
    *candidates, directive = answer(command_line(), words).splitlines()
    return [candidate.partition("\t")[0] for candidate in candidates], directive


def text_of(*words: str) -> list[str]:
    """The printed lines without the directive."""
    return answer(command_line(), words).splitlines()[:-1]


def test_commands_have_descriptions() -> None:
    assert text_of("expl") == ["explain\tshow which devices a pod or claim gets, or why it gets none"]
    assert offered("driver", "") == (["run", "verify"], ":4")
    assert offered("run", "s") == (["scheduler"], ":4")
    assert offered("__compl") == ([], ":4"), "the command for shells is hidden"


def test_only_unused_options_are_offered() -> None:
    assert offered("check", "--is") == (["--isolated"], ":4")
    assert offered("check", "--isolated", "--is") == ([], ":4")
    assert offered("check", "--isolated", "--conf") == ([], ":4"), "one excludes the other"
    assert offered("check", "--select", "S", "--sel") == (["--select"], ":4"), "may be said again"
    assert offered("get", "--wat") == (["--watch"], ":4"), "other spellings are not shown"
    assert offered("plan", "--", "--") == ([], ":0"), "behind -- there are files only"
    assert text_of("up", "--bind") == ["--bind-address\taddress that the API server listens on (default: 127.0.0.1)"]
    assert offered("up", "--hos") == ([], ":4"), "old names are not shown"


def test_values_of_options_in_every_spelling() -> None:
    for words in (["-o", "js"], ["-n", "shop", "-o", "js"], ["-nshop", "--output", "js"], ["--output=js"]):
        assert offered("free", *words) == (["json"], ":4"), words
    assert offered("delete", "--wait=") == (["true", "false"], ":4")
    assert offered("get", "-o", "jsonp") == (["jsonpath="], ":6"), "something follows"
    assert offered("check", "--nothing=") == ([], ":4")


def test_lists_are_completed_after_a_comma() -> None:
    assert offered("plan", "--catalog", "g") == (["gcp"], ":0")
    assert offered("plan", "--catalog", "aws,gcp,a") == (["aws,gcp,azure"], ":0"), "what is there is not offered again"
    assert offered("check", "--select", "S101,V301") == (["S101,V301"], ":4")
    assert offered("up", "--fleet", "t4-4x-pcie", "dgx-1-") == (["dgx-1-v100"], ":4")


def test_files_and_directories_are_completed_by_the_shell() -> None:
    files = (["check", ""], ["explain", "-f", ""], ["explain", "-f", "a.yaml", ""], ["get", "--kubeconfig", ""])
    for words in files:
        assert offered(*words) == ([], ":0"), words
    for words in (["up", "--data-dir", ""], ["metrics", "alerts", "-d", ""], ["migrate", "-d", ""]):
        assert offered(*words) == ([], ":16"), words
    assert offered("replay", "s") == (["sample"], ":0")


@pytest.mark.parametrize(
    ("words", "some"),
    [
        (["rule", "S10"], "S102"),
        (["doctor", "--select", "D1"], "D101"),
        (["rbac", ""], "scheduler"),
        (["rbac", "reader", "sch"], "scheduler"),
        (["fleet", "show", "dgx"], "dgx-a100-40gb"),
        (["catalog", "show", "aws/p5"], "aws/p5.48xlarge"),
        (["catalog", "--provider", "aws", "list", "--provider", ""], "gcp"),
        (["examples", "print", "04"], "04-seven-mig-slices"),
        (["demo", "sh"], "sharing"),
        (["vocabulary", "nv"], "nvidia"),
        (["check", "--driver", "gpu.nvidia.com=2"], "gpu.nvidia.com=25.8"),
        (["rbac", "driver", "--driver", "gpu"], "gpu.amd.com"),
        (["explain", "--kube-version", "1.3"], "1.36"),
        (["explain", "--feature-gates", "DRAAdm"], "DRAAdminAccess=false"),
        (["up", "--runtime-config", "api/all=true,resource.k8s.io/v1b"], "api/all=true,resource.k8s.io/v1beta1=true"),
        (["up", "--disable", "sch"], "scheduler"),
        (["replay", "sample", "--policy", "random,fg"], "random,fgd"),
        (["schema", "Device"], "DeviceClass"),
        (["completion", ""], "fish"),
        (["wait", "pod/a", "--for", "cond"], "condition="),
    ],
)
def test_packaged_names_are_completed(words: list[str], some: str) -> None:
    assert some in offered(*words)[0]


def test_contexts_come_from_the_named_kubeconfig(tmp_path: Path) -> None:
    file = tmp_path / "config"
    names = ["production", "staging"]
    contexts = [{"name": name, "context": {"cluster": name}} for name in names]
    file.write_text(json.dumps({"kind": "Config", "current-context": "staging", "contexts": contexts}))
    assert text_of("get", "--kubeconfig", str(file), "--context", "") == ["production", "staging\tthe current context"]
    file.write_text("{")
    assert text_of("get", "--kubeconfig", str(file), "--context", "") == []


def test_nothing_is_offered_for_invalid_arguments() -> None:
    for words in (["nothing", ""], ["nothing", "-"], ["version", ""], ["rule", "S102", ""]):
        assert offered(*words) == ([], ":4"), words


def test_every_option_value_is_completed_or_free_text() -> None:
    """The value of a new option must be completed, or the option must be listed above as free text."""
    unknown = []
    for command, parser in _parsers("", command_line()):
        for action in parser._actions:
            names = {*action.option_strings, str(action.metavar), f"{command} {action.metavar}"}
            if action.nargs == 0 or isinstance(action, argparse._SubParsersAction) or action.help == argparse.SUPPRESS:
                continue
            kind = wanted(Line(parser, command, "", action, {}))
            free = str(action.metavar) in _FREE or names & _NEW_NAMES
            if not (free or kind.paths or kind != wanted(Line(parser, "", "", argparse.Action([], "none"), {}))):
                unknown.append(f"{command} {names}")
    assert unknown == []


def _parsers(command: str, parser: Parser) -> Iterator[tuple[str, Parser]]:
    yield command, parser
    for name, inner in parser._commands().items():
        yield from _parsers(f"{command} {name}".strip(), inner)


_WORDS = st.sampled_from(
    ["explain", "catalog", "list", "run", "driver", "-f", "-o", "--", "-", "--output=", "--cluster", "x", "-nx", ""]
)


@settings(max_examples=50, deadline=None)
@given(st.lists(_WORDS | st.text(max_size=4), max_size=4), st.sampled_from(["", "-", "--", "-o", "--wait=", "\udcff"]))
def test_any_input_is_answered_with_a_directive(before: list[str], word: str) -> None:
    """Names of a cluster are not completed, because no kubeconfig exists."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("KUBECONFIG", os.devnull)
        *candidates, directive = answer(command_line(), [*before, word]).splitlines()
    assert directive[:1] == ":"
    assert directive[1:].isdigit()
    assert all(candidate for candidate in candidates)


def test_separate_process_imports_little() -> None:
    """Commands and options come from the parsers alone, in any locale."""
    story = """
import sys
from allotment.cli.completion.completer import answer
from allotment.cli.main import command_line
answer(command_line(), ["check", "--"])
print(sorted({"msgspec", "yaml", "asyncio", "aiohttp", "allotment.model.releases"} & set(sys.modules)))
"""
    assert subprocess.run([sys.executable, "-c", story], capture_output=True, check=True).stdout == b"[]\n"
    ran = subprocess.run(
        [sys.executable, "-c", "from allotment.cli.main import complete; complete()", "run"], capture_output=True,
        check=True, env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    )  # fmt: skip
    assert ran.stdout.decode().endswith("driver, …\n:4\n")
    assert ran.stderr == b""

"""Exit codes, rule selection and configuration, on the command line and in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from allotment.lab.state import Register, Status
from tests.unit.cli.check.conftest import Write
from tests.unit.cli.conftest import Allot

OLD = "apiVersion: v1\nkind: Thing\nmetadata:\n  name: old\n"
GUES = "apiVersion: v1\nkind: Thing\nnote: gues\n"
NOTE = "apiVersion: v1\nkind: Thing\nspec: {}\n"
FINE = "apiVersion: v1\nkind: Thing\n"


def codes(allot: Allot, *words: str) -> list[str]:
    ran = allot("check", "-o", "concise", *words)
    assert ran.err == ""
    return [line.split()[1] for line in ran.out.splitlines() if ".yaml:" in line]


@pytest.mark.parametrize(
    ("text", "fail_on", "code"),
    [
        (OLD, None, 1), (GUES, None, 0), (NOTE, None, 0), (FINE, None, 0),
        (GUES, "warning", 1), (NOTE, "warning", 0), (NOTE, "note", 1), (OLD, "note", 1), (OLD, "never", 0),
    ],
)  # fmt: skip
def test_exit_code_depends_on_fail_on_level(
    allot: Allot, write: Write, text: str, fail_on: str | None, code: int
) -> None:
    write({"a.yaml": text})
    assert allot("check", *(["--fail-on", fail_on] if fail_on else [])).code == code


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--select", "S"], ["S191"]),
        (["--select", "S1,V"], ["S191", "V391"]),
        (["--select", "unknown-word"], ["V391"]),
        (["--select", "meaning"], ["M491"]),
        (["--ignore", "S,M"], ["V391"]),
        (["--select", "S", "--ignore", "S191"], []),
        (["--ignore", "V", "--select", "V391"], ["V391"]),
        (["--select", "all", "--ignore", "old-name"], ["M491", "V391"]),
    ],
)
def test_rules_are_selected_by_code_prefix_name_and_family(
    allot: Allot, write: Write, words: list[str], found: list[str]
) -> None:
    write({"a.yaml": f"{OLD}spec: {{}}\nnote: gues\n"})
    assert sorted(codes(allot, *words)) == found


@pytest.mark.parametrize(
    ("words", "problem", "hint"),
    [
        (["--select", "S191,W9"], "--select: unknown rule 'W9'", ""),
        (["--ignore", "old-nam"], "--ignore: unknown rule 'old-nam'", "did you mean old-name?"),
        (["--unsafe-fixes"], "--unsafe-fixes: requires --fix or --diff", "--fix --unsafe-fixes"),
        (["--kube-version", "1.20"], "--kube-version: expected one of", ""),
        (["--driver", "gpu.nvidia.com"], "--driver: expected NAME=RELEASE", ""),
        (["--driver", "gpu.nvidia.co=25.8"], "unknown driver", "did you mean gpu.nvidia.com"),
        (["--driver", "gpu.nvidia.com=1.1"], "--driver: ", ""),
        (["--driver-gates", "MPSSupport"], "--driver-gates: expected NAME=true", ""),
        (["--driver-gates", "MPSSuport=true"], "unknown gate 'MPSSuport'", "did you mean MPSSupport"),
        (["--config", "nowhere.toml"], "nowhere.toml: no such file", ""),
        (["--fail-on", "eror"], "--fail-on: expected one of", "did you mean error?"),
    ],
)  # fmt: skip
def test_unknown_arguments_exit_with_2(allot: Allot, write: Write, words: list[str], problem: str, hint: str) -> None:
    write({"a.yaml": FINE})
    ran = allot("check", *words)
    assert (ran.code, ran.out) == (2, "")
    assert problem in ran.err
    assert hint in ran.err


# --- configuration ---------------------------------------------------------------------------------------------------


def test_nearest_configuration_applies(allot: Allot, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(
        {
            "pyproject.toml": '[tool.allotment.check]\nselect = ["S"]\n',
            "app/pyproject.toml": '[project]\nname = "x"\n',
            "app/a.yaml": f"{OLD}note: gues\n",
        }
    )
    assert codes(allot, "app") == ["S191"]
    monkeypatch.chdir(folder / "app")
    assert codes(allot) == ["S191"]
    write({"app/allotment.toml": '[check]\nselect = ["V"]\n'})
    assert codes(allot) == ["V391"]
    assert codes(allot, "--isolated") == ["S191", "V391"]
    assert codes(allot, "--config", "../pyproject.toml") == ["S191"]
    assert codes(allot, "--select", "S") == ["S191"], "the command line wins"


def test_every_configuration_key_is_applied(allot: Allot, write: Write) -> None:
    write({
        "allotment.toml": """\
[check]
kube-version = "1.35"
feature-gates = { DRADeviceTaints = true }
drivers = { "gpu.nvidia.com" = "25.8" }
driver-gates = { MPSSupport = true }
ignore = ["M"]
fail-on = "warning"
namespace = "team"
exclude = ["charts", "old/*.yaml"]

[check.per-file-ignores]
"kept/**" = ["S191"]
""",
        "a.yaml": NOTE,
        "kept/a.yaml": f"{OLD}note: gues\n",
        "charts/a.yaml": OLD,
        "old/a.yaml": OLD,
    })  # fmt: skip
    ran = allot("check", "-o", "concise")
    assert ran.code == 1
    assert ran.out.splitlines()[0].startswith("kept/a.yaml:5:7 V391")
    assert len(ran.out.splitlines()) == 2
    assert codes(allot, "charts/a.yaml") == ["S191"], "explicitly named files are checked"
    assert allot("check", "charts/a.yaml", "--force-exclude").out == "Nothing to check: no Kubernetes objects found.\n"


def test_configuration_errors_have_positions(allot: Allot, write: Write) -> None:
    write(
        {
            "a.yaml": FINE,
            "pyproject.toml": """\
[project]
name = "x"

[tool.allotment.check]
kube-version = 1.36
selct = ["S"]

[tool.allotment.check.per-file-ignores]
"a/**" = 3
""",
        }
    )
    ran = allot("check")
    assert (ran.code, ran.out) == (2, "")
    assert (
        ran.err
        == """\
pyproject.toml:5:1: wrong-type: kube-version: expected a release in quotes, such as "1.37", found 1.36
    5 | kube-version = 1.36
      | ^
pyproject.toml:6:1: unknown-key: unknown key: selct
    6 | selct = ["S"]
      | ^
  did you mean select?
pyproject.toml:8:23: wrong-type: per-file-ignores: expected a list of strings, found a table
    8 | [tool.allotment.check.per-file-ignores]
      |                       ^
Found 3 errors.
"""
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[check]\nselect = [\n", "not TOML"),
        ("[chek]\n", "did you mean check?"),
        ("check = 3\n", "check: expected a table"),
        ('[check]\nselect = ["Q"]\n', "unknown rule 'Q'"),
        ('[check]\nfail-on = "eror"\n', "expected one of error, warning, note, never"),
        ('[check]\nkube-version = "1.12"\n', "expected one of 1.34"),
        ("[check]\nexclude = [1]\n", "expected a list of strings"),
        ("[check]\ndriver-gates = {A = 1}\n", "expected a table whose values are true or false"),
        ("[check]\ndrivers = 'x'\n", "expected a table of releases"),
        ("[check]\ndrivers = {x = '1'}\n", "allotment.toml: drivers: unknown driver 'x'"),
        ("[check]\nfleet = 'dgx'\n", "allotment.toml: fleet entry 'dgx': unknown hardware"),
        ("[check]\nignore = ['Q']\n", "allotment.toml: ignore: unknown rule 'Q'"),
        ("[check]\nfeature-gates = {Q = true}\n", "allotment.toml: feature-gates: unrecognized feature gate: Q"),
    ],
)
def test_invalid_configuration_exits_with_2(allot: Allot, write: Write, text: str, words: str) -> None:
    write({"a.yaml": FINE, "allotment.toml": text})
    ran = allot("check")
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err


def test_command_line_errors_do_not_name_the_configuration(allot: Allot, write: Write) -> None:
    write({"a.yaml": FINE, "allotment.toml": "[check]\nfleet = 't4'\n"})
    assert "allotment.toml" not in allot("check", "--fleet", "dgx").err
    assert "allotment.toml" not in allot("check", "--ignore", "Q").err


def test_a_running_lab_that_was_not_used_is_noted(allot: Allot, write: Write, tmp_path: Path) -> None:
    write({"a.yaml": FINE, "old.yaml": OLD})
    assert allot("check", "a.yaml").err == ""
    lab = Status("default", 1, "https://l:2", "allotment", str(tmp_path / "own"), "2026-01-01T00:00:00Z", "0")
    with Register().hold("default"):
        Register().write(lab)
        ran = allot("check", "a.yaml")
        note = f"note: the running lab was not used: add --kubeconfig {tmp_path / 'own'}"
        assert " ".join(ran.err.split()) == note
        assert "fine" in ran.out
        for words in (("old.yaml",), ("a.yaml", "-o", "json"), ("a.yaml", "--fleet", "t4")):
            assert allot("check", *words).err == ""

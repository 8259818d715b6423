"""``--fix`` and ``--diff``: written files, reports, and cases without a change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.check.conftest import Write
from tests.unit.cli.conftest import Allot

OLD = "# kept\napiVersion: v1\nkind: Thing\nmetadata:\n  name: old  # kept, too\n"
GUES = "note: gues\n"
NOTE = "spec: {}\n"
NEW = OLD.replace("old", "new")
FLAT = "apiVersion: v1\nkind: Thing\nmetadata: {name: flat}\nflat: 1\n"


def test_fixes_are_written_and_remaining_findings_reported(allot: Allot, write: Write) -> None:
    folder = write({"a.yaml": OLD + GUES + NOTE, "b.yaml": f"{OLD}---\n{OLD}", "c.yaml": "apiVersion: v1\nkind: X\n"})
    ran = allot("check", "--fix")
    assert (ran.code, ran.err) == (0, "")
    assert (
        ran.out
        == """\
a.yaml: fixed 1 × S191 (old-name)
b.yaml: fixed 2 × S191 (old-name)

a.yaml:3:1 M491 note: nothing is specified
    3 | kind: Thing
      | ^^^^

a.yaml:6:7 V391 [?] warning: unknown word "gues". Did you mean "guess"?
    6 | note: gues
      |       ^^^^
  help: words have a meaning that others must know, too, or they are of no use to readers
  unsafe fix: write guess, which is nearest

Fixed 3 findings in 2 files; 1 warning and 1 note remain. 1 fixable with --fix --unsafe-fixes.
next: allot check --fix --unsafe-fixes
"""
    )
    assert (folder / "a.yaml").read_text() == NEW + GUES + NOTE
    assert (folder / "b.yaml").read_text() == f"{NEW}---\n{NEW}"
    again = allot("check", "--fix")
    assert "Fixed" not in again.out, "what is fixed stays so"


def test_guesses_are_reported(allot: Allot, write: Write) -> None:
    folder = write({"a.yaml": OLD + GUES})
    ran = allot("check", "--fix", "--unsafe-fixes")
    assert ran == (
        0,
        (
            "a.yaml: fixed 1 × S191 (old-name), 1 × V391 (unknown-word)\n"
            "  guessed (V391, line 6): write guess, which is nearest\n"
            "\n"
            "Fixed 2 findings in 1 file; no findings remain.\n"
        ),
        "",
    )
    assert (folder / "a.yaml").read_text() == f"{NEW}note: guess\n"


def test_guesses_have_the_line_of_the_text_that_the_reader_has(allot: Allot, write: Write) -> None:
    """A fix that adds lines: a diff states lines of the unchanged file, and a fix lines of the new one."""
    write({"a.yaml": f"{FLAT}note: gues\n"})
    assert "a.yaml: guessed (V391, line 5): " in allot("check", "--diff", "--unsafe-fixes").err
    assert "  guessed (V391, line 6): " in allot("check", "--fix", "--unsafe-fixes").out


def test_suppressed_or_unselected_findings_are_not_fixed(allot: Allot, write: Write) -> None:
    quiet = OLD.replace("kept, too", "allot: ignore[S191]")
    folder = write({"a.yaml": quiet, "b.yaml": OLD + GUES})
    assert allot("check", "--fix", "--unsafe-fixes", "--select", "V").code == 0
    assert (folder / "a.yaml").read_text() == quiet
    assert (folder / "b.yaml").read_text() == f"{OLD}note: guess\n"


def test_remaining_findings_decide_the_exit_code(allot: Allot, write: Write) -> None:
    write({"a.yaml": OLD + GUES})
    assert allot("check", "--fix", "--fail-on", "warning").code == 1
    assert allot("check", "--fix", "--fail-on", "warning", "--unsafe-fixes").code == 0


def test_a_diff_changes_nothing(allot: Allot, write: Write) -> None:
    folder = write({"a.yaml": OLD + GUES, "b.yaml": "apiVersion: v1\nkind: X\n"})
    ran = allot("check", "--diff")
    assert ran.code == 1
    assert (
        ran.out
        == """\
--- a.yaml
+++ a.yaml
@@ -2,5 +2,5 @@
 apiVersion: v1
 kind: Thing
 metadata:
-  name: old  # kept, too
+  name: new  # kept, too
 note: gues
"""
    )
    assert ran.err == "\nWould fix 1 finding in 1 file; 1 warning remains. 1 fixable with --fix --unsafe-fixes.\n"
    assert (folder / "a.yaml").read_text() == OLD + GUES
    assert allot("check", "b.yaml", "--diff") == (0, "", "Would fix nothing; no findings remain.\n")


def test_a_diff_marks_guesses(allot: Allot, write: Write) -> None:
    write({"a.yaml": OLD + GUES, "b.yaml": OLD})
    err = allot("check", "--diff", "--unsafe-fixes").err
    assert err == (
        "\na.yaml: guessed (V391, line 6): write guess, which is nearest\n"
        "Would fix 3 findings in 2 files; no findings remain.\n"
    )


def test_diff_marks_missing_newline_at_end_of_file(allot: Allot, write: Write) -> None:
    write({"a.yaml": OLD.rstrip("\n")})
    out = allot("check", "--diff").out
    assert out.endswith(
        "-  name: old  # kept, too\n\\ No newline at end of file\n"
        "+  name: new  # kept, too\n\\ No newline at end of file\n"
    )


def test_fixed_standard_input_is_written_to_standard_output(allot: Allot, write: Write) -> None:
    write({})
    ran = allot("check", "-", "--fix", stdin=OLD)
    assert (ran.code, ran.out) == (0, NEW)
    assert ran.err.endswith("Fixed 1 finding in 1 file; no findings remain.\n")
    assert allot("check", "-", "--fix", stdin=NEW).out == NEW
    broken = allot("check", "-", "--fix", stdin="a: [\n")
    assert (broken.code, broken.out) == (1, "a: [\n")


def test_failed_fix_is_reported_with_reason(allot: Allot, write: Write) -> None:
    shared = "apiVersion: v1\nkind: Thing\nmetadata: {name: &n old}\nother: *n\n"
    folder = write({"a.yaml": shared})
    ran = allot("check", "--fix")
    assert ran.code == 1
    assert ran.out.startswith("a.yaml:3:18 S191 `old` is an old name\n")
    assert "  help: call it new by hand: the file may share values through anchors (" in ran.out
    assert ran.out.endswith("\nFound 1 error in 1 file.\nnext: allot rule S191\n")
    assert (folder / "a.yaml").read_text() == shared
    assert json.loads(allot("check", "--fix", "-o", "json").out)["summary"]["fixable"] == 0


def test_json_contains_applied_fixes(allot: Allot, write: Write) -> None:
    write({"a.yaml": OLD + GUES})
    found = json.loads(allot("check", "--fix", "-o", "json").out)
    assert [finding["code"] for finding in found["findings"]] == ["V391"]
    assert found["fixed"] == [
        {
            "code": "S191", "name": "old-name", "file": "a.yaml", "line": 5, "message": "`old` is an old name",
            "text": "call it new", "safe": True,
        }
    ]  # fmt: skip


def test_diff_is_rejected_with_other_formats(allot: Allot, write: Write) -> None:
    write({"a.yaml": OLD})
    assert allot("check", "--diff", "-o", "sarif").code == 2


def test_other_documents_of_a_file_are_unchanged(allot: Allot, write: Write) -> None:
    other = "---\n# no object\non:   push\r\n\n\n"
    folder = write({"a.yaml": f"\ufeff{OLD}{other}"})
    assert allot("check", "--fix").code == 0
    assert (folder / "a.yaml").read_bytes().decode() == f"\ufeff{NEW}{other}"


def test_a_failed_write_changes_no_file(allot: Allot, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write({"a.yaml": OLD, "b.yaml": OLD})
    replace = Path.replace

    def broken(self: Path, target: Path) -> Path:
        if self.suffix == ".new" and target.name == "b.yaml":
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", broken)
    ran = allot("check", "--fix")
    assert (ran.code, ran.out) == (2, "")
    assert "cannot be written: no space left on device" in ran.err
    assert "no file was changed" in ran.err
    assert [(folder / name).read_text() for name in ("a.yaml", "b.yaml")] == [OLD, OLD]
    assert sorted(path.name for path in folder.iterdir()) == ["a.yaml", "b.yaml"]

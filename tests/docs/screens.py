"""Updates the command output in the documentation: ``python -m tests.docs.screens [PAGE]``.

In a page, a fenced ``console`` block contains commands (``$ allot …``) with their output. A ``yaml``, ``python`` or
``csv`` block whose first line is ``# name.yaml`` (or ``.py``, ``.csv``) is a file of that name for the commands after
it. A line ``…`` stands for omitted lines; the update keeps as many lines around it as the page has, and between two of
them as many from the same first line on. ``allot``, ``make demo`` (which is ``allot demo``), ``kubectl``, ``helm``,
``pytest`` and ``python`` are run, in a folder and a home directory of the page's own; labs that a page starts are
stopped with it. Other commands are left unchanged. In ``reference``, ``reasons.md`` is generated from the table of
codes, ``rules/`` from the rules of ``allot check``, the end of ``doctor.md`` from the checks of ``allot doctor``, that
of ``permissions.md`` from the table of permissions, that of ``metrics.md`` from the metrics and alerts.

Ages, ports, times and generated names differ each time. Where nothing else differs, the page is left unchanged.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from allotment.cli.main import main
from allotment.cli.plan import progress
from allotment.engine import refusal
from allotment.exporter import reference as metrics
from allotment.permissions import reference as permissions
from allotment.tools.check import reference
from allotment.tools.doctor import reference as doctor
from tests.clients.tools import FOLDER, PROGRAMS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
REASONS = DOCS / "reference" / "reasons.md"
RULES = ROOT / reference.FOLDER
DOCTOR = ROOT / doctor.PAGE
METRICS = ROOT / metrics.PAGE
PERMISSIONS = ROOT / permissions.PAGE

_BLOCK = re.compile(r"^```(yaml|python|csv|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\S+\.(?:yaml|py|csv))\n")
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_ANCHOR = re.compile(r"\]\(([^)#\s]*)#([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
LEFT_OUT = "…"

#: Pages whose commands are not run here, and why.
NOT_RUN: Mapping[str, str] = {
    "docs/explanation/sharing.md": "the rates depend on the machine; test_sharing_docs.py compares the tables",
    "docs/how-to/new-release.md": "requires Go, and a release of Kubernetes that does not exist yet",
    "docs/how-to/pending.md": "tests/kube/test_pending.py runs them on Kubernetes' own programs",
    "docs/how-to/try-driver.md": "tests/kube/test_try_driver.py runs them on Kubernetes' own programs",
    "docs/reference/components.md": "programs that do not end; tests/unit/components/test_page.py compares the tables",
}


def documents() -> list[Path]:
    """All pages, and the Markdown files of the project's root."""
    return [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


def _has_commands(page: Path) -> bool:
    return "```console\n$ " in page.read_text(encoding="utf-8")


#: The pages whose commands are run.
PAGES = tuple(page for page in documents() if _has_commands(page) and page.relative_to(ROOT).as_posix() not in NOT_RUN)

#: The programs that are run, and how.
_PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "allot": (sys.executable, "-m", "allotment.cli.main"),
    "python": (sys.executable,),
    # Plain assertions: otherwise pytest compiles all of Allotment once more, because it is a plugin of pytest.
    "pytest": (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--assert=plain"),
    **{name: (str(FOLDER / name),) for name in PROGRAMS},
}
#: The home directory that pages show instead of the real one.
_HOME = "/home/you"
#: Text that no page may show.
_DEFECT = "this is a defect of Allotment"
_VARIABLE = re.compile(
    r"""
    \d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*(\ \+0000\ UTC)?
    | [A-Z][a-z]{2},?\ +([A-Z][a-z]{2}\ +)?\d+\ ([A-Z][a-z]{2}\ \d{4}\ )?\d\d:\d\d:\d\d(\ \d{4}|\ \+0000)
    | 127\.0\.0\.1:\d+
    | \b\d+(\.\d+)?\ ?s\b | \b(\d+[dhm])+(\d+s)?\b   # durations and ages
    | \ \(x\d+\ over\ [^)]*\)                        # the count of an event
    | \b[0-9a-f]{64}\b
    | (?<=-)[bcdfghjklmnpqrstvwxz2456789]{5}\b       # the end of a generated name
    | (?<=-)[0-9a-f]{8}\b                            # and of a machine's
    | \b\d{5}-(?=gpu\.)                               # which of a driver's slices in a pool of many
    | \b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b  # a UID
    """,
    re.VERBOSE,
)


def run(command: str) -> list[str]:
    """The output of a command with its errors, as lines of a terminal of 80 columns. Raises RuntimeError for a
    defect."""
    if command == "make demo":
        command = "allot demo"
    program, *arguments = shlex.split(command)
    # A lab outlives the command that starts it, so that command runs in a process of its own.
    here = program == "allot" and arguments[:1] != ["up"]
    text = _run_allot(arguments) if here else _run_program([*_PROGRAMS[program], *arguments])
    if _DEFECT in text:
        raise RuntimeError(f"{command}: {text}")
    return [line.rstrip() for line in text.replace(str(Path.home()), _HOME).splitlines()]


def _run_allot(arguments: list[str]) -> str:
    out = io.StringIO()
    # A plan must depend on the steps of its search only, not on the speed of this machine.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(progress, "monotonic", lambda: 0.0)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), contextlib.suppress(SystemExit):
            main(arguments)
    return out.getvalue()


def _run_program(command: list[str]) -> str:
    done = subprocess.run(
        command, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240
    )
    return done.stdout.decode()


def _is_run(command: str) -> bool:
    return command == "make demo" or command.partition(" ")[0] in _PROGRAMS


def clients_of(text: str) -> set[str]:
    """Third-party clients that a page uses and that are missing (``make clients`` installs them)."""
    used = {name for name in PROGRAMS if f"\n$ {name} " in text or (name == "kubectl" and "\n$ make demo\n" in text)}
    return {name for name in used if not (FOLDER / name).is_file()}


def _commands(block: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a block with the output that the page shows."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield command, shown


def _updated(command: str, shown: list[str]) -> list[str]:
    if not _is_run(command):
        return shown
    found = run(command)
    if LEFT_OUT in shown:
        found = _excerpt(found, shown)
    return shown if _without_variable_parts(shown) == _without_variable_parts(found) else found


def _excerpt(found: list[str], shown: list[str]) -> list[str]:
    """As many lines of each piece as the page shows: from the start, the end, and in between from its first line."""
    first, *between, last = _pieces(shown)
    kept, at = found[: len(first)], len(first)
    for piece in between:
        begin = next(
            (
                n
                for n in range(at, len(found))
                if _without_variable_parts([found[n]]) == _without_variable_parts(piece[:1])
            ),
            None,
        )
        if begin is None:  # it is not printed any more: the page needs a review
            return found
        at = begin + len(piece)
        kept += [LEFT_OUT, *found[begin:at]]
    return [*kept, LEFT_OUT, *found[len(found) - len(last) :]]


def _pieces(shown: list[str]) -> list[list[str]]:
    pieces: list[list[str]] = [[]]
    for line in shown:
        if line == LEFT_OUT:
            pieces.append([])
        else:
            pieces[-1].append(line)
    return pieces


def _without_variable_parts(lines: list[str]) -> list[str]:
    """Lines without the parts that differ from run to run, and without the spaces that align them."""
    return [re.sub(r" +", " ", _VARIABLE.sub("*", line)) for line in lines]


@contextlib.contextmanager
def _page_folder(kubeconfig: Path | None) -> Iterator[None]:
    """A folder and a home directory for one page; labs that it leaves running are stopped."""
    before = dict(os.environ)
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        folder = home / "demo"
        folder.mkdir()
        if kubeconfig is not None:
            (home / ".kube").mkdir()
            (home / ".kube" / "config").write_bytes(kubeconfig.read_bytes())
        for name in ("KUBECONFIG", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
            os.environ.pop(name, None)
        os.environ["HOME"] = str(home)
        # the project's programs before any other kubectl
        os.environ["PATH"] = f"{FOLDER}{os.pathsep}{os.environ['PATH']}"
        try:
            with contextlib.chdir(folder):
                yield
        finally:
            _run_allot(["down", "--all"])
            os.environ.clear()
            os.environ.update(before)


def updated_page(
    text: str, *, kubeconfig: Path | None = None, before: Mapping[str, Callable[[], None]] | None = None
) -> str:
    """The page with the current output of every command.

    ``kubeconfig``: the cluster for its commands. ``before``: actions before a command with such a beginning.
    """

    def ready(command: str) -> str:
        for beginning, act in (before or {}).items():
            if command.startswith(beginning):
                act()
        return command

    def updated_block(match: re.Match[str]) -> str:
        kind, block = match.groups()
        if kind != "console":
            if file := _FILE.match(block):
                Path(file[1]).write_text(block, encoding="utf-8")
            return match[0]
        lines = [
            line for command, shown in _commands(block) for line in (f"$ {command}", *_updated(ready(command), shown))
        ]
        return "\n".join(["```console", *lines, "```"])

    with _page_folder(kubeconfig):
        return _BLOCK.sub(updated_block, text)


def links(text: str) -> list[str]:
    """The files that a page links to."""
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", _FENCED.sub("", text))
    return [target for target in targets if "://" not in target]


def anchors(text: str) -> list[tuple[str, str]]:
    """The headings that a page links to, each with its file (empty: the page itself)."""
    return [(file, anchor) for file, anchor in _ANCHOR.findall(_FENCED.sub("", text)) if "://" not in file]


def headings(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub generates them."""
    found = _HEADING.findall(_FENCED.sub("", text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in found}


def write(names: Sequence[str] = ()) -> None:
    """Update pages: those with these names (``lab.md``, ``how-to/lab.md``), or all."""
    os.environ["COLUMNS"] = "80"
    for page in PAGES:
        if names and not any(page.match(name) for name in names):
            continue
        page.write_text(updated_page(page.read_text(encoding="utf-8")), encoding="utf-8")
    METRICS.write_text(metrics.page(METRICS.read_text(encoding="utf-8")), encoding="utf-8")
    DOCTOR.write_text(doctor.page(DOCTOR.read_text(encoding="utf-8")), encoding="utf-8")
    PERMISSIONS.write_text(permissions.page(PERMISSIONS.read_text(encoding="utf-8")), encoding="utf-8")
    REASONS.write_text(refusal.page(), encoding="utf-8")
    RULES.mkdir(exist_ok=True)
    for stale in RULES.glob("*.md"):
        stale.unlink()
    for name, text in reference.pages().items():
        (RULES / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(sys.argv[1:])

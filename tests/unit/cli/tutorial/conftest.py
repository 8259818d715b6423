"""A session of the tutorial in a lab of this process, with a reader who acts when the prompt is shown."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

import allotment
from allotment.cli.output.console import Screen
from allotment.cli.tutorial import interactive
from allotment.cli.tutorial.actions import PROMPT
from allotment.cli.tutorial.events import Changed, Entered, EventQueue
from allotment.cli.tutorial.folder import Folder
from allotment.cli.tutorial.lab_watch import LabWatch
from allotment.cli.tutorial.session import Session
from allotment.cli.tutorial.step import Step
from allotment.cli.tutorial.steps import FLEET, STEPS

#: What the reader does at a prompt: enters a line, or acts in another terminal.
Act = str | Callable[[Session], object]
#: What precedes a hint.
_HINT = "Not yet: "


class AfterHint(NamedTuple):
    """An act for the first prompt after a hint."""

    act: Act


class Reader(io.StringIO):
    """The output, and a reader who does the next act whenever the prompt is shown.

    After the last act, the reader waits until the step is done or a hint is printed, and then ends the input.
    """

    def __init__(self, acts: Sequence[Act | AfterHint]) -> None:
        super().__init__()
        self._acts = [*acts, AfterHint("q")]
        self._read = 0
        self.session: Session | None = None

    def write(self, text: str) -> int:
        """Write a text; after a prompt, act."""
        written = super().write(text)
        if text == PROMPT:
            self._act()
        return written

    def _act(self) -> None:
        next_one = self._acts[0]
        if isinstance(next_one, AfterHint):
            if _HINT not in self.getvalue()[self._read :]:
                return
            next_one = next_one.act
        self._acts.pop(0)
        self._read = len(self.getvalue())
        assert self.session is not None
        if callable(next_one):
            next_one(self.session)
        else:
            self.session.events.put(Entered(next_one))


class Tutorial:
    """Steps of the tutorial in one lab."""

    def __init__(self, lab: allotment.Lab, watch: LabWatch, events: EventQueue, folder: Folder) -> None:
        self.lab = lab
        self.folder = folder
        self._watch = watch
        self._events = events

    def session(self, out: io.StringIO) -> Session:
        """Return a session that writes to ``out``."""
        return Session(Screen(out, 80, colour=False), self.folder, self.lab, self._watch, self._events)

    def read(self, name: str, *acts: Act | AfterHint) -> str:
        """Do a step with a reader who does these acts, one at each prompt. Returns the output."""
        out = Reader(acts)
        session = self.session(out)
        out.session = session
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), contextlib.suppress(interactive.Quit):
            interactive.go_through(session, [step(name)], settle=0.05)
        return out.getvalue()


def step(name: str) -> Step:
    """Return the step of a name."""
    return next(candidate for candidate in STEPS if candidate.name == name)


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[allotment.Lab, LabWatch, EventQueue]]:
    """The lab of the tutorial, in memory, with a watch."""
    events = EventQueue()
    with (
        allotment.Lab(FLEET, speed=50, name="tutorial", without=("compute-domains",)) as lab,
        LabWatch(lab.kubeconfig, lambda: events.put(Changed())) as watch,
    ):
        yield lab, watch, events


@pytest.fixture
def tutorial(
    running: tuple[allotment.Lab, LabWatch, EventQueue], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Tutorial]:
    """The tutorial in a new folder; its objects are deleted afterwards."""
    lab, watch, events = running
    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    folder = Folder(tmp_path / "steps")
    folder.make()
    monkeypatch.setenv("KUBECONFIG", str(lab.kubeconfig))
    monkeypatch.chdir(folder.path)
    yield Tutorial(lab, watch, events, folder)
    for kind in ("deployment", "pod", "resourceclaim", "resourceclaimtemplate"):
        for tree in lab.list(kind, namespace="default"):
            lab.delete(kind, tree["metadata"]["name"])

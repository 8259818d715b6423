"""A run of the tutorial: its output, folder and lab, and the actions that are the same with and without a reader."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from allotment.cli.output.console import Screen
from allotment.cli.tutorial.actions import perform
from allotment.cli.tutorial.events import EventQueue
from allotment.cli.tutorial.folder import Folder, packaged
from allotment.cli.tutorial.lab_objects import NAMESPACE
from allotment.cli.tutorial.lab_watch import LabWatch
from allotment.cli.tutorial.step import Step
from allotment.cli.tutorial.step_text import paragraph
from allotment.cluster.errors import StatusError
from allotment.lab.kinds import UnknownKind
from allotment.lab.lab import Lab
from allotment.lab.manifests import NotApplied
from allotment.model.loading import load_text


@dataclass(frozen=True, slots=True)
class Session:
    """The parts of a run. The current folder and ``KUBECONFIG`` are those of the tutorial."""

    screen: Screen
    folder: Folder
    lab: Lab
    watch: LabWatch
    events: EventQueue

    def begin(self, step: Step) -> None:
        """Write the manifests of a step that are not written yet."""
        for name in step.files:
            self.folder.add(name)

    def perform(self, step: Step) -> None:
        """Do a step, from its start. Raises NotDone."""
        self._return_to_start(step)
        try:
            for action in step.actions:
                perform(action, self.screen)
        finally:
            for name in step.files:
                if (self.folder.path / name).exists():
                    self.folder.record(name)

    def _return_to_start(self, step: Step) -> None:
        """Undo what the reader has begun, because the commands of a step cannot be run twice."""
        changed = [name for name in step.files if not self.folder.is_at_start(name)]
        existing = {exists for name in step.files for exists in self._existing(packaged(name))}
        if not changed and existing <= {step.applied}:
            return
        paragraph(self.screen, f"This step begins again: the objects of {' and '.join(step.files)} are deleted.")
        for name in step.files:
            self.lab.delete(packaged(name), namespace=NAMESPACE)
            if (path := self.folder.path / name).exists():
                with contextlib.suppress(NotApplied, UnknownKind):  # a mistake of the reader
                    self.lab.delete(path, namespace=NAMESPACE)
        for name in changed:
            if kept := self.folder.restore(name):
                paragraph(self.screen, f"{name} is written again; your version is {kept}.")
        if step.applied:
            for name in step.files:
                self.lab.apply(packaged(name), namespace=NAMESPACE)

    def _existing(self, text: str) -> Iterator[bool]:
        """Yield whether each object of a manifest exists."""
        for document in load_text(text).documents:
            try:
                self.lab.get(document.kind, document.name, namespace=NAMESPACE)
            except StatusError:
                yield False
            else:
                yield True

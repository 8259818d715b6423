"""What ``migrate`` answers, as values: the decisions, the manifests before and after. Screens and JSON show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from allotment.model.loading import Document
from allotment.model.meta import ObjectKey, Value
from allotment.tools.migrate.decision import Decision
from allotment.tools.migrate.plugin_requests import GENERATED, ContainerAsk, subject_of
from allotment.tools.migrate.target import Target


class Section(Value, frozen=True, omit_defaults=False):
    """``title`` in a few words, ``lines`` as they are to be read, each a paragraph.

    A line that begins with a blank is a command: it is to be copied, and so it is not broken. ``table`` stands below
    the first line, its headers first. ``fine`` is false where something stands in the way, which the exit code tells.
    ``data`` is the same for programs.
    """

    title: str
    lines: tuple[str, ...]
    table: tuple[tuple[str, ...], ...] = ()
    fine: bool = True
    data: dict[str, object] = {}


#: Where new DeviceClasses go, which are nobody's file.
CLASSES_FILE: Final = "device-classes.yaml"


class Label(Value, frozen=True):
    """What became of a requirement on a node label: ``term`` as written, the CEL ``expression`` that took its place.

    Without an expression it was ``dropped``, or it is kept; ``why`` says why.
    """

    term: str
    expression: str = ""
    dropped: bool = False
    why: str = ""


class Migrated(Value, frozen=True):
    """One workload that asks a device plugin. ``replicas``: pods that run at once (of a DaemonSet: 0, one per node).

    ``claim``: the template or claim that its pods name now, ``kind/namespace/name`` in ``claim_kind``, ``claim_name``.
    ``notes``: what else to know, each a sentence. ``custom``: its kind is not Kubernetes' own; ``part`` is then what of
    it makes the pods (``Worker``), where that is to be told.
    """

    kind: str
    namespace: str
    name: str
    file: str
    line: int
    replicas: int
    containers: tuple[ContainerAsk, ...]
    decision: Decision
    labels: tuple[Label, ...] = ()
    claim_kind: str = ""
    claim_name: str = ""
    notes: tuple[str, ...] = ()
    custom: bool = False
    part: str = ""

    @property
    def generated(self) -> bool:
        """Whether each creation makes an object of another name (``generateName``)."""
        return self.name.endswith(GENERATED)

    @property
    def subject(self) -> str:
        """``Deployment shop/web``, ``PyTorchJob ml/bert (Worker)``; of a piece of a manifest only ``Pod``."""
        return subject_of(self.kind, ObjectKey(self.namespace, self.name), self.part)


class Made(Value, frozen=True):
    """A new object: ``text`` is its YAML with comments, ``file`` the one that it goes to (empty: ``device-classes``).

    ``users``: the workloads that it is for, as their ``subject``.
    """

    kind: str
    namespace: str
    name: str
    text: str
    file: str
    users: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Migration:
    """All of it.

    ``workloads`` in the order of the files. ``made``: claims and templates; ``classes``: new DeviceClasses. ``sources``
    are the texts of all files before, ``texts`` those of files that change or are new, by name. ``before`` and
    ``after`` are the documents of all files, ``after`` as read again from the new texts, with the new objects (classes,
    too). ``unwritten``: files whose text could not be changed, and why. ``namespace``: of objects that name none.
    """

    target: Target
    workloads: tuple[Migrated, ...]
    made: tuple[Made, ...]
    classes: tuple[Made, ...]
    sources: Mapping[str, str]
    texts: Mapping[str, str]
    before: tuple[Document, ...]
    after: tuple[Document, ...]
    unwritten: Mapping[str, str]
    namespace: str = "default"

    @property
    def new_texts(self) -> dict[str, str]:
        """The texts of files that change or are new, by name; new classes have a file of their own."""
        texts = {file: text for file, text in self.texts.items() if text != self.sources.get(file)}
        if self.classes:
            texts[CLASSES_FILE] = "---\n".join(one.text for one in self.classes)
        return texts

    @property
    def decided(self) -> bool:
        """Whether every workload has a way."""
        return not self.unwritten and all(one.decision.outcome != "cannot" for one in self.workloads)

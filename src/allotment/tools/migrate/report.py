"""The result of ``migrate``: decisions, and manifests before and after; text and JSON output render it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from allotment.model.loading import Document
from allotment.model.meta import ObjectKey, Value
from allotment.tools.migrate.decision import Decision
from allotment.tools.migrate.plugin_requests import GENERATED, ContainerRequests, subject_of
from allotment.tools.migrate.target import Target


class Section(Value, frozen=True, omit_defaults=False):
    """A titled section of the output; each item of ``lines`` is a paragraph.

    A line that begins with a space is a command and is not wrapped. ``table`` is printed below the first line, headers
    first. ``fine`` is false if something blocks the migration, which sets the exit code. ``data`` is the JSON form.
    """

    title: str
    lines: tuple[str, ...]
    table: tuple[tuple[str, ...], ...] = ()
    fine: bool = True
    data: dict[str, object] = {}


#: The file for new DeviceClasses, which belong to no input file.
CLASSES_FILE: Final = "device-classes.yaml"


class Label(Value, frozen=True):
    """The migration of a requirement on a node label: ``term`` as written, and the CEL ``expression`` replacing it.

    Without an expression the requirement is ``dropped`` or kept; ``why`` is the reason.
    """

    term: str
    expression: str = ""
    dropped: bool = False
    why: str = ""


class MigratedWorkload(Value, frozen=True):
    """A workload that requests device plugin resources, with its decision.

    ``replicas``: the number of concurrent pods (0 for a DaemonSet, which has one per node). ``claim_kind`` and
    ``claim_name``: the template or claim that its pods now name. ``notes``: further advice, a sentence each.
    ``custom``: its kind is not built into Kubernetes; ``part`` is then the part of it that creates the pods
    (``Worker``), if there are several.
    """

    kind: str
    namespace: str
    name: str
    file: str
    line: int
    replicas: int
    containers: tuple[ContainerRequests, ...]
    decision: Decision
    labels: tuple[Label, ...] = ()
    claim_kind: str = ""
    claim_name: str = ""
    notes: tuple[str, ...] = ()
    custom: bool = False
    part: str = ""

    @property
    def generated(self) -> bool:
        """Whether the API server generates its name (``generateName``)."""
        return self.name.endswith(GENERATED)

    @property
    def subject(self) -> str:
        """``Deployment shop/web``, ``PyTorchJob ml/bert (Worker)``; only the kind if it has no name."""
        return subject_of(self.kind, ObjectKey(self.namespace, self.name), self.part)


class NewObject(Value, frozen=True):
    """A new object: ``text`` is its YAML with comments, ``file`` its file (empty for a DeviceClass).

    ``users``: the ``subject`` of each workload that uses it.
    """

    kind: str
    namespace: str
    name: str
    text: str
    file: str
    users: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Migration:
    """The result of a migration.

    ``workloads``: in the order of the files. ``new_objects``: claims and templates; ``classes``: new DeviceClasses.
    ``sources``: the original texts of all files; ``texts``: the texts of changed and new files, by name. ``before`` and
    ``after``: the documents of all files; ``after`` is parsed from the new texts and includes the new objects and
    classes. ``unwritten``: files whose text could not be changed, with the reason. ``namespace``: the namespace of
    objects that do not specify one.
    """

    target: Target
    workloads: tuple[MigratedWorkload, ...]
    new_objects: tuple[NewObject, ...]
    classes: tuple[NewObject, ...]
    sources: Mapping[str, str]
    texts: Mapping[str, str]
    before: tuple[Document, ...]
    after: tuple[Document, ...]
    unwritten: Mapping[str, str]
    namespace: str = "default"

    @property
    def new_texts(self) -> dict[str, str]:
        """The texts of changed and new files, by name; new classes are in a separate file."""
        texts = {file: text for file, text in self.texts.items() if text != self.sources.get(file)}
        if self.classes:
            texts[CLASSES_FILE] = "---\n".join(new_class.text for new_class in self.classes)
        return texts

    @property
    def decided(self) -> bool:
        """Whether every workload can be migrated or left as it is."""
        return not self.unwritten and all(workload.decision.outcome != "cannot" for workload in self.workloads)

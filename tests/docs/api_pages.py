"""The pages of ``docs/api``, generated from signatures and docstrings; ``python -m tests.packaging.made_files`` writes
them.

In ``index.md`` only the table of names is generated; ``recipes.md`` is written by hand. Every name that a package
exports has a section. Classes that are no exports, but parts of a result, follow in a section of their page.
"""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import griffe

from tests.docs import api_objects
from tests.docs.screens import DOCS, ROOT

FOLDER: Final = DOCS / "api"
INDEX: Final = FOLDER / "index.md"
_BEGIN, _END = "<!-- names: made from docstrings -->\n", "<!-- /names -->\n"
_MADE: Final = "<!-- made from docstrings by `python -m tests.packaging.made_files` -->"
_PARTS: Final = "## Parts\n\nThese types are parts of the ones above. The package does not export them."
_REFERENCE: Final = "allotment.reference"
_PACKAGES: Final = ("allotment", "allotment.drivers", _REFERENCE)
#: Classes that users construct. The others are results, or have fields, which are also the arguments.
_CONSTRUCTED: Final = ("ClaimError", "Cluster", "Lab")
_QUOTE: Final = '"'
_WIDTH: Final = 88
_wrap: Final[Callable[[str], str]] = runpy.run_path(str(ROOT / "scripts" / "wrap_docs"))["wrap"]


class Page(NamedTuple):
    """A page. ``modules``: it has the exports of modules with such a beginning that no page before it has.

    ``parts``: the modules of classes that are shown although they are no exports, except for those of ``internals``.
    """

    title: str
    intro: str
    package: str
    modules: Sequence[str]
    parts: Sequence[str] = ()
    internals: Sequence[str] = ()


#: The order of the index.
PAGES: Final[Mapping[str, Page]] = {
    "inputs": Page(
        "Manifests and clusters",
        "The manifests and the cluster of a question.",
        "allotment",
        ("allotment.api.cluster", "allotment.api.load"),
        ("allotment.api",),
    ),
    "questions": Page(
        "Questions",
        "Each function answers one question, as the command of the same name does, and returns a [result](results.md)."
        " None of them prints anything, or ends the program. Strings that name files can be paths, too; instead of a"
        ' sequence of strings, one string is enough: `select="S"`.',
        "allotment",
        ("allotment.api",),
        ("allotment.planning.limits",),
    ),
    "results": Page(
        "Results",
        "Results are values that do not change. Each has `to_dict()`, which returns what the command prints with"
        " `-o json`, with keys in camelCase. `next` is a command line that helps most; it is empty if there is none."
        " Types without a section are [objects of Kubernetes](https://kubernetes.io/docs/reference/kubernetes-api/), or"
        " internal: they may change in any version.",
        "allotment",
        (
            "allotment.explanation", "allotment.tools", "allotment.planning", "allotment.drivers.verify",
            "allotment.model.quantity.Quantity",
        ),
        ("allotment.explanation", "allotment.tools", "allotment.planning", "allotment.engine.refusal",
         "allotment.drivers.verify.check"),
        # What the results are made from: Kubernetes' objects, the reader of a cluster, the checks themselves.
        (
            "allotment.drivers.verify.check.DriverCheck", "allotment.explanation.next_step",
            "allotment.tools.claims.objects", "allotment.tools.claims.workload", "allotment.tools.doctor.check",
            "allotment.tools.doctor.cluster_index", "allotment.tools.doctor.objects",
            "allotment.tools.doctor.snapshot", "allotment.tools.migrate.decision.DriverGate",
            "allotment.tools.migrate.decision.Needs", "allotment.tools.migrate.plugin_requests",
            "allotment.tools.migrate.report.Label", "allotment.tools.migrate.report.Migration",
            "allotment.tools.migrate.target.Target", "allotment.tools.views",
        ),
    ),
    "lab": Page(
        "Labs",
        "Tests use a [lab](../reference/lab.md) like a cluster: [Test in Python](../how-to/test-in-python.md). It"
        " requires the extra `lab`.",
        "allotment",
        ("allotment.lab", "allotment.cluster.client"),
        ("allotment.lab.wait_conditions", "allotment.cluster.client.Listing"),
    ),
    "drivers": Page(
        "Drivers",
        "The framework for DRA drivers: [Write a driver](../tutorials/write-a-driver.md). The names are imported with"
        " `from allotment import drivers`; [`Quantity`](results.md#quantity) is one of them.",
        "allotment.drivers",
        ("allotment",),
        ("allotment.drivers.driver", "allotment.kubelet_plugin.messages.Health", "allotment.model.node_selectors"),
    ),
    "reference": Page(
        "Reference data",
        "Data as `-o json` prints it, in new lists and dicts: `from allotment import reference`. Keys without a value"
        " may be missing.",
        _REFERENCE,
        ("allotment",),
    ),
    "remote": Page(
        "A page elsewhere",
        "The questions to a page that `allot web` serves, on this machine or in a cluster: [For"
        " programs](../how-to/programs.md). The page keeps the cluster in memory, so that an answer takes milliseconds,"
        " and answers with the permissions of the token.",
        "allotment",
        ("allotment.queries", "allotment.screens"),
        ("allotment.queries", "allotment.screens.what_if", "allotment.planning.report",
         "allotment.planning.comparison"),
        ("allotment.screens.what_if.WhatIfTargets",),
    ),
    "errors": Page(
        "Errors",
        "What the functions raise:\n\n"
        "- [`InputError`](#inputerror): the user has to correct an argument or an input. Its subclasses are"
        " [`InvalidManifests`](#invalidmanifests),"
        " `ClaimError` (of `claim`) with [`LackingDevices`](results.md#lackingdevices), `FleetError` (unknown hardware;"
        " also a `ValueError`) and `KubeconfigError`. The last two and this `ClaimError` are not exported: catch"
        " `InputError`. [`drivers.ClaimError`](drivers.md#claimerror) is another class, which drivers raise.\n"
        "- [`StatusError`](#statuserror) and [`Unreachable`](#unreachable): a request to a running cluster failed.\n"
        "- [`NotApplied`](lab.md#notapplied), [`UnknownKind`](lab.md#unknownkind), and Python's `TimeoutError`: of"
        " labs.\n"
        "- [`MissingExtraError`](#missingextraerror): an optional package is not installed. `QuantityError`: of"
        " `Quantity`.\n"
        "- Python's `OSError`: a file that cannot be written.",
        "allotment",
        ("allotment",),
    ),
}  # fmt: skip


def pages() -> dict[str, str]:
    """Return the generated pages by file name."""
    known = {found.path for package in _PACKAGES for found in api_objects.exports(package).values()}
    texts = {}
    for name, objects in exports_by_page().items():
        page = PAGES[name]
        parts = [part for part in _parts(objects.values(), page) if part.path not in known]
        known |= {part.path for part in parts}
        sections = [section(label, found) for label, found in objects.items()]
        if parts:
            sections += [_PARTS, *(section(part.name, part, "###") for part in parts)]
        text = _wrap("\n\n".join([page.intro, *sections]))
        texts[f"{name}.md"] = f"# {page.title}\n\n{_MADE}\n\n{text}\n"
    return texts


def write() -> None:
    """Write the pages, and delete those that are not generated any more."""
    texts = {"index.md": index(INDEX.read_text(encoding="utf-8")), **pages()}
    for stale in stale_pages(texts):
        stale.unlink()
    for name, text in texts.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def stale_pages(names: Iterable[str]) -> list[Path]:
    """Return generated pages with other names."""
    return [
        page for page in FOLDER.glob("*.md") if page.name not in names and _MADE in page.read_text(encoding="utf-8")
    ]


def index(text: str) -> str:
    """Return the index page with the current table of names."""
    exports = api_objects.exports("allotment")
    places = {
        label: name
        for name, objects in exports_by_page().items()
        if PAGES[name].package != _REFERENCE
        for label in objects
    }
    rows = [
        f"| [`{label}`]({name}.md#{label.lower()}) | {_summary(exports[label])} |"
        for name in PAGES
        for label in exports
        if places[label] == name
    ]
    head, rest = text.split(_BEGIN)
    table = "\n".join(["| name | |", "|---|---|", *rows])
    return f"{head}{_BEGIN}\n{table}\n\n{_END}{rest.split(_END)[1]}"


def exports_by_page() -> dict[str, dict[str, griffe.Object]]:
    """Return the exports of each page; one that two packages export is on one page only."""
    left = {package: api_objects.exports(package) for package in _PACKAGES}
    del left["allotment"]["Driver"], left["allotment.drivers"]["Quantity"]
    result = {}
    for name, page in PAGES.items():
        names = left[page.package]
        result[name] = {label: found for label, found in names.items() if _is_within(found, page.modules)}
        left[page.package] = {label: found for label, found in names.items() if label not in result[name]}
    assert not any(left.values()), f"no page for {left}"
    return result


def _is_within(found: griffe.Object, modules: Iterable[str]) -> bool:
    return any(found.path == each or found.path.startswith(f"{each}.") for each in modules)


def _parts(objects: Iterable[griffe.Object], page: Page) -> list[griffe.Object]:
    """Return the types in the annotations of objects, and in those of their parts, by name."""
    found: dict[str, griffe.Object] = {}
    queue = list(objects)
    while queue:
        owner = queue.pop()
        within = list(shown_members(owner)) if isinstance(owner, griffe.Class) else []
        for part in (part for each in (owner, *within) for part in api_objects.types_in(each)):
            is_shown = _is_within(part, page.parts) and not _is_within(part, page.internals)
            if part.path not in found and is_shown:
                found[part.path] = part
                queue.append(part)
    return sorted(found.values(), key=lambda part: part.name)


# --- a section --------------------------------------------------------------------------------------------------------


def section(label: str, found: griffe.Object, mark: str = "##") -> str:
    """Return the section of an object."""
    blocks = [f"{mark} `{label}`"]
    if isinstance(found, griffe.Function):
        blocks += [_code(signature(label, found)), *_prose(found)]
    elif isinstance(found, griffe.Class):
        blocks += _class_blocks(label, found, mark)
    elif isinstance(found, griffe.Attribute):
        value = _text(found.value)
        blocks += [_code(f"{label} = {value.strip(_QUOTE)}"), _markdown(api_objects.comment(found))]
    return "\n\n".join(filter(None, blocks))


def shown_members(owner: griffe.Class) -> Iterator[griffe.Object]:
    """Yield the members that the section of a class has: fields of values, properties and methods."""
    for member in api_objects.members(owner):
        if member.name == "to_dict" and isinstance(member, griffe.Function) and len(member.parameters) == 1:
            continue  # all results have it, as the page states
        if isinstance(member, griffe.Function) or "property" in member.labels or _is_field(owner, member):
            yield member


def _is_field(owner: griffe.Class, member: griffe.Object) -> bool:
    if not isinstance(member, griffe.Attribute) or "property" in member.labels or not api_objects.is_value(owner):
        return False
    return member.annotation is not None and not str(member.annotation).startswith("ClassVar")


def _class_blocks(label: str, owner: griffe.Class, mark: str) -> Iterator[str]:
    shown = list(shown_members(owner))
    fields = [member for member in shown if _is_field(owner, member)]
    initializer = owner.members.get("__init__")
    if isinstance(initializer, griffe.Function) and label in _CONSTRUCTED:
        yield _code(signature(label, initializer))
    if fields:
        yield _code("\n".join(_field(member) for member in fields if isinstance(member, griffe.Attribute)))
    yield from _prose(owner)
    properties = [member for member in shown if isinstance(member, griffe.Attribute) and member not in fields]
    if properties:
        yield "Properties:"
        yield "\n".join(f"- `{each.name}: {_text(each.annotation)}`: {' '.join(_prose(each))}" for each in properties)
    for member in shown:
        if isinstance(member, griffe.Function):
            yield f"{mark}# `{label}.{member.name}`"
            yield _code(signature(member.name, member))
            yield from _prose(member)


def _field(member: griffe.Attribute) -> str:
    default = "" if member.value is None else f" = {_text(api_objects.constant(member.value))}"
    return f"{member.name}: {_text(member.annotation)}{default}"


def signature(name: str, function: griffe.Function) -> str:
    """Return the signature of a function, with a line for each parameter if it does not fit in one."""
    words: list[str] = []
    for parameter in function.parameters:
        kind = parameter.kind
        if parameter.name == "self":
            continue
        if kind is griffe.ParameterKind.keyword_only and not any(word.startswith("*") for word in words):
            words.append("*")
        word = f"*{parameter.name}" if kind is griffe.ParameterKind.var_positional else parameter.name
        word += "" if parameter.annotation is None else f": {_text(parameter.annotation)}"
        has_default = parameter.default is not None and kind is not griffe.ParameterKind.var_positional
        words.append(f"{word} = {_text(api_objects.constant(parameter.default))}" if has_default else word)
    returns = "" if function.returns is None or function.name == "__init__" else f" -> {_text(function.returns)}"
    start = f"async {name}" if "async" in function.labels else name
    short = f"{start}({', '.join(words)}){returns}"
    return (
        short if len(short) <= _WIDTH else "\n".join([f"{start}(", *(f"    {word}," for word in words), f"){returns}"])
    )


def _text(expression: object) -> str:
    """Return an expression as the source has it: griffe quotes strings with apostrophes."""
    text = str(expression)
    return text if '"' in text else text.replace("'", '"')


def _code(text: str) -> str:
    return f"```python\n{text}\n```"


# --- docstrings -------------------------------------------------------------------------------------------------------

_ROLE: Final = re.compile(r":\w+:`~?(?:[\w.]+\.)?([\w.]+)`")
_LITERAL: Final = re.compile(r"``(.+?)``")
#: Where the text of a parameter or an attribute starts: after a sentence or at the start of a paragraph.
_ITEM: Final = re.compile(r"(?:^|(?<=[.;)] ))(?=(?:``[\w.]+``(?:, | and )?)+: )")


def _prose(found: griffe.Object) -> list[str]:
    """Return a docstring as Markdown: a list of its parameters, code for its examples."""
    if found.docstring is None:
        return []
    blocks: list[str] = []
    for paragraph in found.docstring.value.split("\n\n"):
        for block in _blocks(paragraph):
            if blocks and blocks[-1].startswith("- ") and block.startswith("- "):
                blocks[-1] += f"\n{block}"
            else:
                blocks.append(block)
    return blocks


def _blocks(paragraph: str) -> Iterator[str]:
    if paragraph.startswith(">>> "):
        yield _code(paragraph)
        return
    lead, *items = _ITEM.split(" ".join(paragraph.split()))
    if lead.strip():
        yield _markdown(lead)
    if items:
        *others, last = items
        last, raises, errors = last.partition(" Raises ")
        yield "\n".join(f"- {_markdown(item).rstrip('.;')}" for item in (*others, last))
        if raises:
            yield _markdown(f"Raises {errors}")


def _markdown(text: str) -> str:
    return _LITERAL.sub(r"`\1`", _ROLE.sub(r"`\1`", text.strip()))


def described(found: griffe.Object) -> bool:
    """Whether an object has a description; fields and aliases need none of their own."""
    is_plain = isinstance(found, griffe.Attribute) and "property" not in found.labels
    return is_plain or found.docstring is not None


def _summary(found: griffe.Object) -> str:
    """Return the first sentence of a docstring."""
    if isinstance(found, griffe.Attribute) and found.docstring is None:
        text = _markdown(api_objects.comment(found))
    else:
        text = _markdown(" ".join(found.docstring.value.split("\n\n")[0].split())) if found.docstring else ""
    return re.split(r"(?<=[.]) ", text)[0].rstrip(".").replace("|", "\\|")

"""The pages of the Python API are those of its docstrings, and lack no name."""

from __future__ import annotations

from pathlib import Path

import griffe
import pytest

import allotment
from allotment import drivers, reference
from allotment.cluster.remote.kubeconfig import KubeconfigError
from allotment.fleet.errors import FleetError
from allotment.tools.claims.request import ClaimError
from tests.docs import api_objects, api_pages
from tests.docs.screens import headings

HINT = "out of date; `python -m tests.packaging.made_files` updates it (then review the difference)"


def test_the_pages_are_generated_from_the_docstrings() -> None:
    for name, text in api_pages.pages().items():
        assert (api_pages.FOLDER / name).read_text(encoding="utf-8") == text, f"{name} is {HINT}"


def test_the_index_lists_all_names() -> None:
    text = api_pages.INDEX.read_text(encoding="utf-8")
    assert api_pages.index(text) == text, f"index.md is {HINT}"
    for name in allotment.__all__:
        assert name == "__version__" or f"[`{name}`]" in text


def test_no_page_is_left_from_an_earlier_version() -> None:
    assert api_pages.stale_pages([f"{name}.md" for name in api_pages.PAGES]) == []


def test_the_page_of_errors_names_all_exceptions() -> None:
    text = (api_pages.FOLDER / "errors.md").read_text(encoding="utf-8")
    exported = [getattr(allotment, name) for name in allotment.__all__]
    errors = [each for each in exported if isinstance(each, type) and issubclass(each, Exception)]
    for error in (*errors, ClaimError, FleetError, KubeconfigError, TimeoutError, OSError):
        assert f"`{error.__name__}`" in text


@pytest.mark.parametrize(("package", "page"), [(drivers, "drivers"), (reference, "reference")])
def test_every_name_of_a_package_has_a_section(package: object, page: str) -> None:
    names = set(package.__all__) - {"Quantity"}  # type: ignore[attr-defined]
    text = (api_pages.FOLDER / f"{page}.md").read_text(encoding="utf-8")
    assert {name.lower() for name in names} <= headings(text)


def test_every_public_name_says_what_it_is_for() -> None:
    silent = [
        found.path
        for objects in api_pages.exports_by_page().values()
        for each in objects.values()
        for found in (each, *(api_pages.shown_members(each) if isinstance(each, griffe.Class) else ()))
        if not api_pages.described(found)
    ]
    assert silent == []


MODULE = '''
from typing import NamedTuple, TypeAlias

#: The size of a box,
#: in centimetres.
Size: TypeAlias = "int | float"
DEFAULT = "red"

class Box(NamedTuple):
    """A box, see :meth:`Lid.open`. ``size``: of each side. ``colour``: a name; by default ``red``."""

    size: Size
    colour: str = DEFAULT

    @property
    def heavy(self) -> bool:
        """Whether it is heavy."""

    def _weigh(self): ...

async def opened(*boxes: Box, colour: str = DEFAULT, a_long_name_of_an_argument: int = 0) -> tuple[Box, ...]:
    """Return boxes that are open.

    ``colour``: of all of them. Raises ValueError.

    >>> 1 + 1
    2
    """
'''


def test_a_section_has_fields_signatures_and_lists_of_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "allotment").mkdir()
    (tmp_path / "allotment" / "boxes.py").write_text(MODULE)
    monkeypatch.setattr(api_objects, "SOURCE", tmp_path)
    found = api_objects.module("allotment.boxes").members
    sections = [api_pages.section(name, api_objects.resolved(found[name])) for name in ("Size", "Box", "opened")]
    assert (
        "\n\n".join(sections)
        == """\
## `Size`

```python
Size = int | float
```

The size of a box, in centimetres.

## `Box`

```python
size: Size
colour: str = "red"
```

A box, see `open`.

- `size`: of each side
- `colour`: a name; by default `red`

Properties:

- `heavy: bool`: Whether it is heavy.

## `opened`

```python
async opened(
    *boxes: Box,
    colour: str = "red",
    a_long_name_of_an_argument: int = 0,
) -> tuple[Box, ...]
```

Return boxes that are open.

- `colour`: of all of them

Raises ValueError.

```python
>>> 1 + 1
2
```"""
    )

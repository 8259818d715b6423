"""Paths of v1 in documents as written."""

from __future__ import annotations

from allotment.tools.check.objects.field_shapes import written_path
from tests.unit.tools.check.bundles import bundle_of


def test_written_path_stops_at_missing_fields() -> None:
    (document,) = bundle_of("spec: {devices: {requests: [{name: gpu}]}}\n").documents
    path = ("spec", "devices", "requests", 0, "exactly", "name", "further")
    assert written_path(document, path) == ("spec", "devices", "requests", 0, "name")

"""Every built-in kind's table, by bucket. Kinds that are not here are shown by name and time of creation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from allotment.apiserver.kinds.kind import Table
from allotment.apiserver.reads import cluster_rows, device_rows, workload_rows
from allotment.apiserver.reads.pod_rows import PODS

TABLES: Final[Mapping[str, Table]] = {"pods": PODS, **workload_rows.TABLES, **cluster_rows.TABLES, **device_rows.TABLES}

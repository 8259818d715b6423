"""Catalog of instance types: prices, allocatable resources, and the slices that their drivers publish.

``catalog()`` returns the packaged catalog, ``read_catalog`` parses a user's, ``template_of`` returns the node and the
slices of a future machine of a type. **An unknown price is None, never zero.**
"""

from allotment.fleet.catalog.csv_format import COLUMNS, CatalogProblem, read_catalog
from allotment.fleet.catalog.instance_type import CAPACITY_TYPES, CapacityType, InstanceType, NodeCapacity, Template
from allotment.fleet.catalog.packaged import catalog, merged
from allotment.fleet.catalog.templates import hardware_of, modes_of, template_of

__all__ = [
    "CAPACITY_TYPES",
    "COLUMNS",
    "CapacityType",
    "CatalogProblem",
    "InstanceType",
    "NodeCapacity",
    "Template",
    "catalog",
    "hardware_of",
    "merged",
    "modes_of",
    "read_catalog",
    "template_of",
]

"""Instance types that can be bought: what each costs, has for pods, and what its driver will publish.

``catalog()`` is the packaged catalogue, ``read_catalog`` a user's; ``template_of`` is the node and the slices that a
machine of a type will bring once it runs. **A price that is not known is None, and never zero.**
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

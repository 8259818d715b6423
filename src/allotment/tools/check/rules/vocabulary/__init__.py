"""Rules for names that no driver publishes, installs or understands.

They compare the files with the drivers' vocabularies (``allotment.vocabulary``) and with the given cluster, if any.
"""

from __future__ import annotations

from typing import Final

from allotment.tools.check.rule import Rule
from allotment.tools.check.rules.vocabulary import (
    driver_gate,
    driver_parameters,
    helm_value,
    memory_in_bytes,
    memory_threshold,
    misspelled_resource,
    no_known_hardware,
    no_mig_devices,
    no_such_mig_profile,
    node_label_as_resource,
    renamed_name,
    unknown_attribute,
    unknown_capacity,
    unknown_class,
    unknown_driver,
    unknown_value,
    wrong_kind,
)

VOCABULARY_RULES: Final[tuple[Rule, ...]] = (
    unknown_attribute.RULE,
    unknown_capacity.RULE,
    renamed_name.RULE,
    unknown_value.RULE,
    unknown_driver.RULE,
    unknown_class.RULE,
    no_such_mig_profile.RULE,
    memory_threshold.RULE,
    driver_gate.RULE,
    driver_parameters.RULE,
    helm_value.RULE,
    wrong_kind.RULE,
    node_label_as_resource.RULE,
    misspelled_resource.RULE,
    no_mig_devices.RULE,
    memory_in_bytes.RULE,
    no_known_hardware.RULE,
)

"""The parameters that claims and classes can have for AMD's devices."""

from typing import Final

from allotment.vocabulary.parameters.amd import KINDS
from allotment.vocabulary.parameters.amd import VERSION as VERSION
from allotment.vocabulary.parameters.amd import Config as Config
from allotment.vocabulary.parameters.amd import GpuConfig as GpuConfig
from allotment.vocabulary.parameters.amd import Iommu as Iommu
from allotment.vocabulary.parameters.amd import VfioDeviceConfig as VfioDeviceConfig

CONFIGS: Final = KINDS

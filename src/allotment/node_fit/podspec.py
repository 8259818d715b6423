"""The parts of a pod's spec that decide where it goes; a pod that is a tree is read into them."""

from allotment.model.core import Affinity as Affinity
from allotment.model.core import Container as Container
from allotment.model.core import ContainerPort as ContainerPort
from allotment.model.core import LabelSelector as LabelSelector
from allotment.model.core import LabelSelectorRequirement as LabelSelectorRequirement
from allotment.model.core import PodAffinity as PodAffinity
from allotment.model.core import PodAffinityTerm as PodAffinityTerm
from allotment.model.core import PodSpec as PodSpec
from allotment.model.core import TopologySpreadConstraint as TopologySpreadConstraint
from allotment.model.core import WeightedPodAffinityTerm as WeightedPodAffinityTerm

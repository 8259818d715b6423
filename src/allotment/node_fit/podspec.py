"""The parts of a pod's spec that decide where it goes; a pod that is a tree is read into them."""

from allotment.model.core import Affinity as Affinity
from allotment.model.core import Container as Container
from allotment.model.core import PodSpec as PodSpec
from allotment.model.pod_placement import ContainerPort as ContainerPort
from allotment.model.pod_placement import LabelSelector as LabelSelector
from allotment.model.pod_placement import LabelSelectorRequirement as LabelSelectorRequirement
from allotment.model.pod_placement import PodAffinity as PodAffinity
from allotment.model.pod_placement import PodAffinityTerm as PodAffinityTerm
from allotment.model.pod_placement import TopologySpreadConstraint as TopologySpreadConstraint
from allotment.model.pod_placement import WeightedPodAffinityTerm as WeightedPodAffinityTerm

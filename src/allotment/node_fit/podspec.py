"""Typed fields of a pod spec that affect scheduling, re-exported from the model."""

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

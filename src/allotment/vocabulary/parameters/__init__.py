"""Parameters that claims and classes carry for drivers: which kinds there are, and what is wrong with given ones.

Kubernetes takes them as they are; a driver reads them when it prepares a claim, long after the pod was scheduled. Here
they can be judged before.
"""

from allotment.vocabulary.parameters.kinds import kinds_of as kinds_of
from allotment.vocabulary.parameters.kinds import parameters_of as parameters_of
from allotment.vocabulary.parameters.problem import Problem as Problem

"""The parameters that claims and classes contain for drivers: the kinds of each driver, and their validation.

Kubernetes stores parameters unchecked, and a driver reads them only when it prepares a claim, long after the pod was
scheduled. This package can validate them earlier.
"""

from allotment.vocabulary.parameters.kinds import kinds_of as kinds_of
from allotment.vocabulary.parameters.kinds import parameter_problems as parameter_problems
from allotment.vocabulary.parameters.problem import ParameterProblem as ParameterProblem

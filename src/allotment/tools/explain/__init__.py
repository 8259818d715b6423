"""``explain``: which device on which node a pod or claim gets, or why it gets none and what would change that.

>>> from allotment.model.features import Features
>>> lines(explain([], Features(kube="1.36")))
['nothing to explain: no pod, workload or claim is given']
"""

from allotment.tools.explain.missing_requests import lacking as lacking
from allotment.tools.explain.missing_requests import without_device as without_device
from allotment.tools.explain.report import Answer as Answer
from allotment.tools.explain.report import Explanation as Explanation
from allotment.tools.explain.report import GivenClaim as GivenClaim
from allotment.tools.explain.report import GivenDevice as GivenDevice
from allotment.tools.explain.run import explain as explain
from allotment.tools.explain.run import fits as fits
from allotment.tools.explain.text import lines as lines

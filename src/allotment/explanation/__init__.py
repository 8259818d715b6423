"""``explain``: which devices on which node a pod or claim gets, or why it gets none and which change would fix that.

>>> from allotment.model.features import Features
>>> lines(explain([], Features(kube="1.36")))
['nothing to explain: the input contains no pod, workload or claim']
"""

from allotment.explanation.container_devices import containers_without_device as containers_without_device
from allotment.explanation.container_devices import missing_request_text as missing_request_text
from allotment.explanation.report import Answer as Answer
from allotment.explanation.report import ClaimAllocation as ClaimAllocation
from allotment.explanation.report import DeviceAllocation as DeviceAllocation
from allotment.explanation.report import Explanation as Explanation
from allotment.explanation.run import explain as explain
from allotment.explanation.run import fits as fits
from allotment.explanation.text import lines as lines

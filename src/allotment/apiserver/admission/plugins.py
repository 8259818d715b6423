"""The admission plugins that validate requests as a whole, by kind, under Kubernetes' names.

Plugins that only change or check the object itself are rules of its kind (see ``apiserver.kinds``). These run after the
object is valid, before policies and webhooks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from allotment.apiserver.admission import certificate_signers, pod_resize, pod_security
from allotment.apiserver.admission.attributes import Attributes
from allotment.apiserver.kinds.kind import StoreReader

#: Raises StatusError to reject a request. The last argument is the release of Kubernetes.
Plugin = Callable[[Attributes, StoreReader, str], None]

#: The plugins that validate writes of a kind, by bucket and name.
VALIDATING: Final[Mapping[str, Mapping[str, Plugin]]] = {
    "certificatesigningrequests.certificates.k8s.io": {
        "CertificateSubjectRestriction": certificate_signers.check_subject
    },
    "clustertrustbundles.certificates.k8s.io": {"ClusterTrustBundleAttest": certificate_signers.check_bundle},
    "pods": {"PodSecurity": pod_security.check_pod, "PodResizeValidator": pod_resize.check_resize},
    "namespaces": {"PodSecurity": pod_security.check_namespace},
    **{bucket: {"PodSecurity": pod_security.check_template} for bucket in pod_security.TEMPLATES},
}

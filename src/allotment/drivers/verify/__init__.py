"""Any DRA driver, driven as a kubelet would drive it: what kubelets expect, one check after the other."""

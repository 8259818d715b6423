"""Random scenarios, decided by kube-scheduler and by Allotment: a difference is a defect of one of them."""

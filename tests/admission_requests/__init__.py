"""Requests in order, with kube-apiserver's answers, for the lab and for Kubernetes."""

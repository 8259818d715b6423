"""Planned machines as Karpenter NodeClaims and MIG configurations."""

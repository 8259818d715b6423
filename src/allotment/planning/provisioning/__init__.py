"""Writes planned machines as Karpenter NodeClaims and MIG configurations."""

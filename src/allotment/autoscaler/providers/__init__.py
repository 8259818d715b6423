"""Machine providers: a simulated cloud for labs, and an existing installation of Karpenter."""

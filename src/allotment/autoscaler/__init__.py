"""The autoscaler: provisions machines for pending pods through a provider, and releases idle ones.

``program`` is its loop, for any cluster; ``provider`` is the interface that a cloud implements.
"""

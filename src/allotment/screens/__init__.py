"""The views of a cluster on the page and in ``allot top``, as values: pure functions of a `ClusterView`.

Sentences, codes and figures come from the functions of the commands, so that a view and its command agree.
"""

"""``check``: what is wrong with manifests before a cluster sees them, and how to mend it.

``bundle`` is what rules look at: the documents of all files together, read as leniently as can be. A rule (``rules``,
one to a file, by family) is a plain function from a bundle to what it found. What rules share of ``objects``,
``names``, ``hardware``, ``selectors``, ``claims`` and the ``proof`` stands below them. ``run`` holds a bundle against
all rules, and ``fixing`` mends what they can mend; ``judging`` leaves out what was not asked for.
"""

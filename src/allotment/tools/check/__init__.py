"""``check``: the linter for manifests with DRA objects. It reports and fixes mistakes before the objects reach a
cluster.

``bundle`` holds the input: the documents of all files together, parsed leniently. A rule (``rules``, one per file,
grouped by family) is a plain function from a bundle to matches. Code that several rules share is in ``objects``,
``names``, ``hardware``, ``selectors``, ``claims`` and ``simulation``. ``run`` applies rules to a bundle, ``policy``
drops unselected rules and suppressed findings, and ``fixer`` applies the fixes.
"""

"""Random problems, and references that check what the package claims about them.

>>> from fuzz import replay  # doctest: +SKIP
>>> replay("small", 0, 25).findings  # doctest: +SKIP
"""


def replay(part, seed, index, plain=False):
    """Examine one problem again; its ``spec`` is the problem, its ``findings`` what is wrong."""
    from fuzz.runner import examine

    return examine(part, seed, index, plain)

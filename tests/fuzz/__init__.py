"""Random problems, and references that check what the package claims about them.

>>> from fuzz import replay  # doctest: +SKIP
>>> replay("small", 0, 25).findings  # doctest: +SKIP
"""


def replay(part, seed, index, plain=False, rich=True):
    """Examine one problem again; its ``spec`` is the problem, its ``findings`` what is wrong.

    Problems that were found before there were losses, floors, groups and the like are drawn without ``rich``.
    """
    from fuzz.runner import examine

    return examine(part, seed, index, plain, rich)

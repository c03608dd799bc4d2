"""How kernels are compiled: what is inlined, what Numba remembers, and that it is left as it was."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from numba.core.errors import TypingError
from numba.core.registry import cpu_target

from conftest import COMPILED
from counterpoise.kernels import dispatch
from counterpoise.kernels.dispatch import allocating, apart, entry_point, kernel, outlined

pytestmark = pytest.mark.skipif(not COMPILED, reason="for compiled kernels, the JIT is off")


def attributes(function):
    """Return the LLVM attributes of an inner function that was compiled once."""
    (compiled,) = function.overloads.values()
    return {word.decode() for word in compiled.library.get_function(compiled.fndesc.llvm_func_name).attributes}


def test_only_kernels_are_inlined_by_force_also_by_callers_that_are():
    @outlined
    def sum_up(x):
        total = 0.0
        for value in x:
            total += value
        return total

    @apart
    @outlined
    def largest(x):
        most = x[0]
        for value in x:
            most = value if value > most else most
        return most

    @kernel
    def inlined(x):
        return sum_up(x) + largest(x)

    @entry_point
    def outer(x):
        return inlined(x)

    assert outer(np.arange(4.0)) == 9.0
    assert "alwaysinline" in attributes(inlined)
    assert "alwaysinline" not in attributes(sum_up)
    assert "alwaysinline" not in attributes(largest)
    assert "noinline" in attributes(largest)


def test_compiling_leaves_numba_and_the_collector_as_they_were():
    @entry_point
    def twice(x):
        return x + x

    @entry_point
    def wrong(x):
        return x.no_such_attribute

    context = cpu_target.typing_context
    for collects in (True, False):
        try:
            gc.enable() if collects else gc.disable()
            assert twice(1.5 if collects else 2) == (3.0 if collects else 4)
            with pytest.raises(TypingError):
                wrong(1.5)
            assert gc.isenabled() == collects
        finally:
            gc.enable()
    assert "resolve_function_type" not in vars(context)


def test_a_signature_is_remembered_by_types_and_by_whether_arrays_may_be_made():
    """A function that makes arrays and one that does not call the same builtin: the second is still refused."""

    @allocating
    def makes(n):
        return np.empty(n)

    @entry_point
    def allowed(n):
        return makes(n)

    assert len(allowed(3)) == 3

    @outlined
    def refused(n):
        return np.empty(n)[0]

    @entry_point
    def outer(n):
        return refused(n)

    with pytest.raises(TypingError, match="empty"):
        outer(3)


def test_functions_with_closures_take_all_passes():
    def plain(x):
        return x

    def nested(x):
        return [value for value in (lambda: x)()]

    plain.__module__ = nested.__module__ = "counterpoise.kernels.made_up"
    assert dispatch._is_plain(plain)
    assert not dispatch._is_plain(nested)
    plain.__module__ = "own_penalty"
    assert not dispatch._is_plain(plain)

"""Dispatch of verbs by the type of their first argument, and the compilation of kernels.

A *term* is a NamedTuple of numbers and arrays. A *verb* is a function such as ``change(g, x, i, a, j, b)`` whose body
depends on the type of its first argument. :func:`implements` registers a body, also from outside the package; the same
lookup serves compiled code and plain Python (``NUMBA_DISABLE_JIT=1``).
"""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numba
from numba.core import typed_passes, untyped_passes
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import FunctionPass, LoweringPass, register_pass
from numba.core.registry import CPUDispatcher
from numba.core.targetconfig import ConfigStack
from numba.core.typed_passes import NativeLowering, NopythonTypeInference
from numba.core.types import Dispatcher, unliteral  # type: ignore[attr-defined]
from numba.extending import overload

from counterpoise.kernels.cache import StampedCache, register_source

Function = Callable[..., Any]
# Passes that plain functions do not need: for closures, ``with``, literals, inlined overloads, array expressions.
NOT_FOR_PLAIN = {
    untyped_passes.WithLifting,
    untyped_passes.InlineClosureLikes,
    untyped_passes.RewriteSemanticConstants,
    untyped_passes.DeadBranchPrune,
    untyped_passes.RewriteDynamicRaises,
    untyped_passes.MakeFunctionToJitFunction,
    untyped_passes.InlineInlinables,
    untyped_passes.FindLiterallyCalls,
    untyped_passes.LiteralUnroll,
    untyped_passes.LiteralPropagationSubPipelinePass,
    typed_passes.InlineOverloads,
    typed_passes.NopythonRewrites,
    typed_passes.NoPythonSupportedFeatureValidation,
    typed_passes.DumpParforDiagnostics,
}


@register_pass(mutates_CFG=False, analysis_only=True)
class _LeaveOptimisation(FunctionPass):  # type: ignore[misc]
    """Leave the optimisation of an inner function to the entry points that include it.

    Numba optimises every function together with all its callees, so that a function that is called through five others
    would be optimised six times.
    """

    _name = "leave_optimisation"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        if state.library is None:
            state.library = state.targetctx.codegen().create_library(state.func_id.func_qualname)
        library = state.library
        library._optimize_final_module = lambda: None
        library._finalize_final_module = lambda: _finish_without_machine_code(library)
        if getattr(state.func_id.func, "apart", False):
            library.add_ir_module = functools.partial(_add_apart, library.add_ir_module)
        state.flags.no_compile = True
        return False


@register_pass(mutates_CFG=False, analysis_only=True)
class _OfferForLinking(LoweringPass):  # type: ignore[misc]
    """Let other compiled functions call an inner function that has no machine code of its own."""

    _name = "offer_for_linking"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        # Numba identifies a function by the builtin that Python would call; this one is never called.
        handle = list[Any]().append
        state.targetctx.insert_user_function(handle, state.cr.fndesc, [state.library])
        state["cr"] = state.cr._replace(cfunc=handle)
        return False


def _add_apart(add: Function, module: Any) -> None:
    for function in module.functions:
        if not function.is_declaration:
            function.attributes.add("noinline")
    add(module)


def _finish_without_machine_code(library: Any) -> None:
    library._finalize_dynamic_globals()
    library._verify_declare_only_symbols()
    library._finalized = True


def _is_plain(function: Function) -> bool:
    """Return whether a function belongs to this package and has no closures."""
    nested = any(inspect.iscode(each) for each in function.__code__.co_consts)
    return function.__module__.startswith("counterpoise.") and not nested


class _InnerCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's compiler, with :class:`_LeaveOptimisation`."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        if _is_plain(self.state.func_id.func):
            passes.passes = [(each, why) for each, why in passes.passes if each not in NOT_FOR_PLAIN]
        passes.add_pass_after(_LeaveOptimisation, NopythonTypeInference)
        passes.add_pass_after(_OfferForLinking, NativeLowering)
        passes.finalize()
        return [passes]


# Inner functions have no wrapper for Python or C and count no references (``_nrt``), because callers own all arrays.
# Without an explicit ``forceinline`` they would inherit it from the function that calls them first.
INNER = {
    "nogil": True,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "_nrt": False,
    "forceinline": False,
}


def _inner(function: Function, **options: Any) -> Function:
    if numba.config.DISABLE_JIT:
        return function
    targetoptions = {"nopython": True, **INNER, **options}
    compiled: Function = _Inner(function, targetoptions=targetoptions, pipeline_class=_InnerCompiler)
    return compiled


def kernel(function: Function) -> Function:
    """Compile an inner function; it is cached as part of the entry points that call it.

    It is inlined by force, because a problem is about a hundred numbers and pointers, which take longer to pass than a
    pair step takes. It must neither allocate nor return arrays, because references are not counted.
    """
    return _inner(function, forceinline=True)


def outlined(function: Function) -> Function:
    """Compile an inner function that is not inlined by force.

    It is for long loops, which LLVM then vectorises, and for scalar arithmetic, which is then compiled only once.
    """
    return _inner(function)


def allocating(function: Function) -> Function:
    """Compile an inner function, like :func:`outlined`, that allocates arrays or calls a function that returns one.

    In other kernels Numba refuses to allocate arrays, but does not notice returned arrays, which would never be freed.
    """
    return _inner(function, _nrt=True)


def apart(function: Function) -> Function:
    """Keep LLVM from inlining a long inner function, which would then be compiled at every call."""
    getattr(function, "py_func", function).apart = True  # type: ignore[union-attr]
    return function


class _Inner(CPUDispatcher):  # type: ignore[misc]
    """A compiled function without the wrapper that Python needs to call it, because wrappers take long to compile.

    If Python does call it, as tests do, a function with a wrapper is compiled around it.
    """

    _outer: Function | None = None

    def __call__(self, *args: Any) -> Any:
        if self._outer is None:
            inner = self
            self._outer = numba.njit(lambda *args: inner(*args))
        return self._outer(*args)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Compile for int64 only; Numba would first try the literal type of a variable's initial value."""
        return super().get_call_template([unliteral(arg) for arg in args], kws)


def verb(stub: Function, allocates: bool = False) -> Function:
    """Turn ``stub`` into a verb; its body is the default, or raises for terms that have no body."""
    bodies: dict[type, Function] = {}
    options = {**INNER, "_nrt": allocates, "forceinline": True}
    default = _inner(stub, **options)

    @functools.wraps(stub)
    def call(term: Any, *args: Any) -> Any:
        return bodies.get(type(term), default)(term, *args)

    # strict=False allows bodies to have other argument names.
    @overload(call, strict=False, jit_options={**options, "pipeline_class": _InnerCompiler})
    def resolve(term, *args):  # type: ignore[no-untyped-def]
        # Homogeneous and mixed NamedTuples have different Numba types; both carry their Python class.
        body = bodies.get(getattr(term, "instance_class", object), default)
        if body.targetoptions["_nrt"] != allocates:  # type: ignore[attr-defined]
            return lambda term, *args: body(term, *args)
        return body.py_func  # type: ignore[attr-defined]

    call.bodies, call.options = bodies, options  # type: ignore[attr-defined]
    return call


def allocating_verb(stub: Function) -> Function:
    """Turn ``stub`` into a verb whose bodies allocate arrays."""
    return verb(stub, allocates=True)


def implements(of: Function, *term_types: type) -> Callable[[Function], Function]:
    """Register the decorated function as the body of verb ``of`` for terms of ``term_types``."""

    def register(function: Function) -> Function:
        options = of.options  # type: ignore[attr-defined]
        if not function.__module__.startswith("counterpoise."):
            options = {**options, "_nrt": True}  # a user's body may allocate arrays
            for term_type in term_types:
                register_source(of.__name__, term_type, function)
        of.bodies |= dict.fromkeys(term_types, _inner(function, **options))  # type: ignore[attr-defined]
        return function

    return register


def has_body(of: Function, term_type: type) -> bool:
    """Whether verb ``of`` has its own body for terms of ``term_type``."""
    return term_type in of.bodies  # type: ignore[attr-defined]


def entry_point(function: Function) -> Function:
    """Compile a function that Python calls; it is cached on disk if a cache folder is writable."""
    if numba.config.DISABLE_JIT:
        return function
    options = {"nopython": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    compiled: Function = _Entry(function, targetoptions=options)
    # No writable cache location: compile in every process.
    with contextlib.suppress(RuntimeError):
        compiled._cache = StampedCache(function)  # type: ignore[attr-defined]
    return compiled


class _Entry(CPUDispatcher):  # type: ignore[misc]
    """A compiled function that Python calls."""

    def compile(self, sig: Any) -> Any:
        with global_compiler_lock, _remembering(self.typingctx):
            return super().compile(sig)


# Signatures of builtin functions and verbs, keyed by function, types and the flags that their bodies inherit.
_signatures: dict[Any, Any] = {}
INHERITED = ("nrt", "error_model", "fastmath", "forceinline")


@contextlib.contextmanager
def _remembering(context: Any) -> Iterator[None]:
    """Look up each signature once, and turn off garbage collection, while Numba compiles.

    Numba would try every known signature of ``+`` or ``[]`` again at each use, which takes a sixth of its time, and it
    creates millions of small objects that it keeps.
    """
    if "resolve_function_type" in vars(context):  # an entry point within another
        yield
        return
    collects = gc.isenabled()
    context.resolve_function_type = functools.partial(_resolve, context)
    gc.disable()
    try:
        yield
    finally:
        del context.resolve_function_type
        if collects:
            gc.enable()


def _resolve(context: Any, function: Any, args: Any, kws: Any) -> Any:
    """Return the signature of a function for arguments of given types, as ``context.resolve_function_type`` does."""
    find = functools.partial(type(context).resolve_function_type, context, function, args, kws)
    if kws or isinstance(function, Dispatcher):
        return find()
    flags = ConfigStack.top_or_none()
    key = (function, tuple(args), *(str(getattr(flags, name, None)) for name in INHERITED))
    try:
        known = _signatures.get(key)
    except TypeError:  # a literal slice has no hash
        return find()
    if known is None:
        known = _signatures[key] = find()
    return known

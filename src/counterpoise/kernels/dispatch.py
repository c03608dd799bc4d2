"""Verbs that choose their compiled body by the type of their first argument, and the cache that keeps them.

A *term* is a NamedTuple of numbers and arrays. A *verb* is a function such as ``change(g, x, i, a, j, b)``
whose body depends on the type of its first argument. :func:`implements` registers a body, also from
outside the package; the same lookup serves compiled code and plain Python (``NUMBA_DISABLE_JIT=1``).

Only entry points are cached on disk, and their cache key contains :func:`fingerprint`, a hash of the sources that they
are made of. Editing one of them is a cache miss, never a stale hit.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, LoweringPass, register_pass
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import NativeLowering, NopythonTypeInference
from numba.core.types import unliteral  # type: ignore[attr-defined]
from numba.extending import overload

Function = Callable[..., Any]
# Bytes before the data of a cache file.
CHECKSUM = 16


@register_pass(mutates_CFG=False, analysis_only=True)
class _LeaveOptimisation(FunctionPass):  # type: ignore[misc]
    """Leave the optimisation of an inner function to the entry points that it becomes a part of.

    Numba optimises every function together with all that it calls, so that one that is called through five others
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
        state.flags.no_compile = True
        return False


@register_pass(mutates_CFG=False, analysis_only=True)
class _OfferForLinking(LoweringPass):  # type: ignore[misc]
    """Let other compiled functions call an inner function that has no machine code of its own."""

    _name = "offer_for_linking"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        # Numba knows a function by a builtin, which Python would call; here nobody does.
        handle = list[Any]().append
        state.targetctx.insert_user_function(handle, state.cr.fndesc, [state.library])
        state["cr"] = state.cr._replace(cfunc=handle)
        return False


def _finish_without_machine_code(library: Any) -> None:
    library._finalize_dynamic_globals()
    library._verify_declare_only_symbols()
    library._finalized = True


class _InnerCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's compiler, with :class:`_LeaveOptimisation`."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_LeaveOptimisation, NopythonTypeInference)
        passes.add_pass_after(_OfferForLinking, NativeLowering)
        passes.finalize()
        return [passes]


# Inner functions have no wrapper for Python or C, and count no references (``_nrt``): the caller holds all arrays.
INNER = {
    "nogil": True,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "_nrt": False,
}

_registered_sources: dict[tuple[str, str], str] = {}


def _inner(function: Function, **options: Any) -> Function:
    if numba.config.DISABLE_JIT:
        return function
    targetoptions = {"nopython": True, **INNER, **options}
    compiled: Function = _Inner(function, targetoptions=targetoptions, pipeline_class=_InnerCompiler)
    return compiled


def kernel(function: Function) -> Function:
    """Compile an inner function; it is cached as part of the entry points that call it.

    It is inlined by force, because a problem is about a hundred numbers and pointers, which take longer to pass than a
    pair step takes. It neither allocates arrays nor returns any, so that no references are counted.
    """
    return _inner(function, forceinline=True)


def outlined(function: Function) -> Function:
    """Compile an inner function that stays a function of its own.

    For long loops, which LLVM then vectorises, and for arithmetic on scalars, which is compiled once.
    """
    return _inner(function)


def allocating(function: Function) -> Function:
    """Compile an inner function, as :func:`outlined`, that makes arrays or calls a function that returns one.

    In other kernels Numba refuses to make arrays, but it does not notice a returned array, which would never be freed.
    """
    return _inner(function, _nrt=True)


class _Inner(CPUDispatcher):  # type: ignore[misc]
    """A compiled function without the wrapper that Python needs to call it; a wrapper takes long to compile.

    If Python calls it nevertheless, as tests do, a function with a wrapper is compiled around it.
    """

    _outer: Function | None = None

    def __call__(self, *args: Any) -> Any:
        if self._outer is None:
            inner = self
            self._outer = numba.njit(lambda *args: inner(*args))
        return self._outer(*args)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Compile for int64 alone where Numba would first try the literal that a variable begins with."""
        return super().get_call_template([unliteral(arg) for arg in args], kws)


def verb(stub: Function, allocates: bool = False) -> Function:
    """Turn ``stub`` into a verb; its body is the default, or raises for terms that have no body."""
    bodies: dict[type, Function] = {}
    options = {**INNER, "_nrt": allocates, "forceinline": True}
    default = _inner(stub, **options)

    @functools.wraps(stub)
    def call(term: Any, *args: Any) -> Any:
        return bodies.get(type(term), default)(term, *args)

    # The names of arguments are those of the body's author, which strict=False allows.
    @overload(call, strict=False, jit_options={**options, "pipeline_class": _InnerCompiler})
    def resolve(term, *args):  # type: ignore[no-untyped-def]
        # Homogeneous NamedTuples are another Numba type than mixed ones; both carry their Python class.
        body = bodies.get(getattr(term, "instance_class", object), default)
        if body.targetoptions["_nrt"] != allocates:  # type: ignore[attr-defined]
            return lambda term, *args: body(term, *args)
        return body.py_func  # type: ignore[attr-defined]

    call.bodies, call.options = bodies, options  # type: ignore[attr-defined]
    return call


def allocating_verb(stub: Function) -> Function:
    """Turn ``stub`` into a verb whose bodies make arrays."""
    return verb(stub, allocates=True)


def implements(of: Function, term_type: type) -> Callable[[Function], Function]:
    """Register the decorated function as the body of verb ``of`` for terms of ``term_type``."""

    def register(function: Function) -> Function:
        options = of.options  # type: ignore[attr-defined]
        if not function.__module__.startswith("counterpoise."):
            options = {**options, "_nrt": True}  # a body of a user's may make arrays
            key = (of.__name__, f"{term_type.__module__}.{term_type.__qualname__}")
            _registered_sources[key] = _source_of(function)
        of.bodies[term_type] = _inner(function, **options)  # type: ignore[attr-defined]
        return function

    return register


def has_body(of: Function, term_type: type) -> bool:
    """Whether verb ``of`` has its own body for terms of ``term_type``."""
    return term_type in of.bodies  # type: ignore[attr-defined]


def entry_point(function: Function) -> Function:
    """Compile a function that Python calls, cached on disk where a cache can be written."""
    compiled: Function = numba.njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True)(function)
    if hasattr(compiled, "enable_caching"):  # absent with NUMBA_DISABLE_JIT=1
        try:
            compiled._cache = _StampedCache(function)  # type: ignore[attr-defined]
        except RuntimeError:  # no writable cache location: compile in every process
            pass
    return compiled


class _StampedCache(FunctionCache):  # type: ignore[misc]
    """Numba's disk cache with the fingerprint of the sources in its key, and files that are checked."""

    def __init__(self, function: Function) -> None:
        super().__init__(function)
        self._module = function.__module__
        locator = self._impl.locator
        self._cache_file = _CheckedFile(
            cache_path=locator.get_cache_path(),
            filename_base=self._impl.filename_base,
            source_stamp=locator.get_source_stamp(),
        )

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return (*super()._index_key(sig, codegen), fingerprint(self._module, sig))

    def _save_overload(self, sig: Any, data: Any) -> None:
        # A disk that is full or read-only costs the next process a compilation, and not this one its run.
        with contextlib.suppress(OSError):
            super()._save_overload(sig, data)


class _CheckedFile(IndexDataCacheFile):  # type: ignore[misc]
    """Numba's index and data files; what is damaged, or was written for another key, is compiled again.

    Two processes that compile different signatures of one function at the same time may give both data files the same
    name, so that each file says what it is for. A checksum comes first: damaged machine code would crash the process.
    """

    def save(self, key: Any, data: Any) -> None:
        super().save(key, (key, data))

    def load(self, key: Any) -> Any:
        found = super().load(key)
        return found[1] if found is not None and found[0] == key else None

    def _load_index(self) -> dict[Any, str]:
        try:
            index: dict[Any, str] = super()._load_index()
        except Exception:  # whatever a damaged pickle raises
            return {}
        return index

    def _save_data(self, name: str, data: Any) -> None:
        content = self._dump(data)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(_checksum(content) + content)

    def _load_data(self, name: str) -> Any:
        content = Path(self._data_path(name)).read_bytes()
        mark, content = content[:CHECKSUM], content[CHECKSUM:]
        if mark != _checksum(content):
            raise OSError(f"{name} is damaged.")  # which the caller takes for a file that is not there
        return pickle.loads(content)


def _checksum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=CHECKSUM).digest()


def fingerprint(module: str, types: Any) -> str:
    """Return a hash of the sources of an entry point in a module, called with arguments of the given Numba types.

    These are the kernel modules that it imports, directly or not, those in which the classes of its terms stand, and
    the bodies that were registered for these classes from outside.
    """
    classes = _classes_in(types)
    names = {_kernel_name(module), "dispatch"} | {_kernel_name(each.__module__) for each in classes}
    known, texts = set[str](), list[str]()
    while names - known:
        name = min(names - known)
        known.add(name)
        names |= _imports_of(name)
        texts.append(_text_of(name))
    terms = {f"{each.__module__}.{each.__qualname__}" for each in classes}
    for (verb_name, term), source in sorted(_registered_sources.items()):
        if term in terms:
            texts += [verb_name, term, source]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _classes_in(types: Any) -> set[type]:
    """Return the classes of all NamedTuples in nested types."""
    found = set[type]()
    for each in types:
        if hasattr(each, "instance_class"):
            found.add(each.instance_class)
        found |= _classes_in(getattr(each, "types", ()))
    return found


def _kernel_name(module: str) -> str:
    """Return the last part of a module's name, "" for one outside the kernels, of which Numba itself keeps track."""
    package, _, name = module.rpartition(".")
    return name if package == __package__ else ""


@functools.cache
def _text_of(name: str) -> str:
    return (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8") if name else ""


@functools.cache
def _imports_of(name: str) -> frozenset[str]:
    """Return the kernel modules that the text of a kernel module names."""
    text = _text_of(name)
    listed = ",".join(re.findall(r"from counterpoise\.kernels import \(?([\w,\s]+)", text))
    named = {*re.findall(r"counterpoise\.kernels\.(\w+)", text), *re.findall(r"\w+", listed)}
    return frozenset(each for each in named if (Path(__file__).parent / f"{each}.py").is_file())


def _source_of(function: Function) -> str:
    """Return the whole file that defines ``function``, because its helpers live there too."""
    file = inspect.getsourcefile(function)
    if file is not None and Path(file).is_file():
        return Path(file).read_text(encoding="utf-8")
    code = function.__code__
    return repr((code.co_code, code.co_consts, code.co_names))


# Read now, because a file that is edited while this process runs is not what this process compiles.
for _file in Path(__file__).parent.glob("*.py"):
    _text_of(_file.stem)

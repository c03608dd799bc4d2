"""The cache of compiled kernels on disk.

Only entry points are cached, and their cache key contains :func:`fingerprint`, a hash of all sources that they use.
Editing one of these causes a cache miss, never a stale hit.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import pickle
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache, IndexDataCacheFile

Function = Callable[..., Any]
# Bytes of the checksum at the beginning of a cache file.
CHECKSUM = 16
# Sources of bodies that were registered from outside the package, by verb and term.
_registered_sources: dict[tuple[str, str], str] = {}


class StampedCache(FunctionCache):  # type: ignore[misc]
    """Numba's disk cache with the fingerprint of the sources in its key, and with checksums in its files."""

    def __init__(self, function: Function) -> None:
        super().__init__(function)
        self._module = function.__module__
        locator = self._impl.locator
        self._cache_file = _CheckedFile(
            cache_path=locator.get_cache_path(),
            filename_base=self._impl.filename_base,
            source_stamp=locator.get_source_stamp(),
        )

    def _index_key(self, sig: Any, codegen: Any) -> tuple[str, ...]:
        # Text alone: reading the index must not import the modules of other users' terms.
        types, *rest = super()._index_key(sig, codegen)
        classes = sorted(f"{each.__module__}.{each.__qualname__}" for each in _classes_in(sig))
        return str(types), *classes, str(rest), fingerprint(self._module, sig)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled function for a signature, or None."""
        return super().load_overload(sig, target_context) if _are_importable(sig) else None

    def _save_overload(self, sig: Any, data: Any) -> None:
        # If the disk is full or read-only, the next process compiles again, but this one must not fail.
        if _are_importable(sig):
            with contextlib.suppress(OSError):
                super()._save_overload(sig, data)


class _CheckedFile(IndexDataCacheFile):  # type: ignore[misc]
    """Numba's index and data files; entries that are damaged or belong to another key are compiled again.

    Two processes that compile different signatures of one function at the same time may give both data files the same
    name, so each file contains its key. It begins with a checksum, because damaged machine code would crash.
    """

    def save(self, key: Any, data: Any) -> None:
        super().save(key, (key, data))

    def load(self, key: Any) -> Any:
        found = super().load(key)
        return found[1] if found is not None and found[0] == key else None

    def _load_index(self) -> dict[Any, str]:
        try:
            index: dict[Any, str] = super()._load_index()
        except Exception:  # a damaged pickle may raise anything
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
            raise OSError(f"{name} is damaged.")  # the caller treats it as a missing file
        return pickle.loads(content)


def _checksum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=CHECKSUM).digest()


def fingerprint(module: str, types: Any) -> str:
    """Return a hash of the sources of an entry point in a module, called with arguments of the given Numba types.

    These are the kernel modules that it imports, directly or not, those that define the classes of its terms, and the
    bodies that were registered for these classes from outside the package.
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


def _are_importable(types: Any) -> bool:
    """Return whether another process would find the classes of all NamedTuples; those of a script would be others."""
    return all(
        each.__module__ != "__main__" and getattr(sys.modules.get(each.__module__), each.__qualname__, None) is each
        for each in _classes_in(types)
    )


def _kernel_name(module: str) -> str:
    """Return the last part of a module's name, "" if it is not a kernel module; Numba itself tracks those."""
    package, _, name = module.rpartition(".")
    return name if package == __package__ else ""


@functools.cache
def _text_of(name: str) -> str:
    return (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8") if name else ""


@functools.cache
def _imports_of(name: str) -> frozenset[str]:
    """Return the kernel modules that the source of a kernel module mentions."""
    text = _text_of(name)
    listed = ",".join(re.findall(r"from counterpoise\.kernels import \(?([\w,\s]+)", text))
    named = {*re.findall(r"counterpoise\.kernels\.(\w+)", text), *re.findall(r"\w+", listed)}
    return frozenset(each for each in named if (Path(__file__).parent / f"{each}.py").is_file())


def register_source(verb: str, term: type, function: Function) -> None:
    """Record the source of a body that is registered from outside the package."""
    _registered_sources[verb, f"{term.__module__}.{term.__qualname__}"] = _source_of(function)


def _source_of(function: Function) -> str:
    """Return the whole file that defines ``function``, because its helpers are there too."""
    file = inspect.getsourcefile(function)
    if file is not None and Path(file).is_file():
        return Path(file).read_text(encoding="utf-8")
    code = function.__code__
    return repr((code.co_code, code.co_consts, code.co_names))


# Read all files now: a file that is edited while this process runs is not what this process compiles.
for _file in Path(__file__).parent.glob("*.py"):
    _text_of(_file.stem)

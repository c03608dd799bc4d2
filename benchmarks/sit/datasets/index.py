"""A year of NASDAQ-100 or S&P 500."""

from typing import Any

from benchmark_utils.data import load
from benchopt import BaseDataset


class Dataset(BaseDataset):
    """Daily returns of the members of an index, and of the index itself."""

    name = "Index"
    parameters = {"market": ["NAS-16", "NAS-18", "NAS-20", "SP-16", "SP-18", "SP-20"]}
    test_parameters = {"market": ["NAS-16"]}

    def get_data(self) -> dict[str, Any]:
        """Return percent returns of stocks and index, or the reason why they are absent."""
        arrays, absent = load(f"index_tracking/{self.market}.npz")
        return {"absent": absent} if absent else {"A": 100.0 * arrays["R"], "y": 100.0 * arrays["y"]}

"""Blocks of MNIST."""

from typing import Any

from benchmark_utils.data import image_block
from benchopt import BaseDataset


class Dataset(BaseDataset):
    """Uniformly random rows and columns, size × size, of pixels between 0 and 1, and y = 0."""

    name = "images"
    parameters = {"source": ["mnist"], "size": [256], "seed": [0]}
    test_parameters = {"size": [20]}

    def get_data(self) -> dict[str, Any]:
        """Return A, or the reason why it is absent."""
        return image_block(self.source, self.size, self.seed)

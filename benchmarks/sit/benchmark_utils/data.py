"""Real data, in the folder named by COUNTERPOISE_DATA; what is absent is skipped with a reason."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

IMAGES = {"mnist": "mnist5000/mnist5000.npz", "cifar": "cifar10_1500/cifar10_1500_jpeg.npz"}


def load(path: str) -> tuple[dict[str, Any], str | None]:
    """Return the arrays of a file and None, or nothing and the reason."""
    folder = os.environ.get("COUNTERPOISE_DATA")
    if not folder:
        return {}, "the environment variable COUNTERPOISE_DATA names no folder of data"
    file = Path(folder) / path
    if not file.exists():
        return {}, f"{path} is not in the folder named by COUNTERPOISE_DATA"
    with np.load(file) as data:
        return dict(data), None


def image_block(source: str, size: int, seed: int) -> dict[str, Any]:
    """Return A, uniformly random rows and columns of pixel/255, or the reason why it is absent."""
    arrays, absent = load(IMAGES[source])
    if absent:
        return {"absent": absent}
    pixels = arrays["X"].reshape(len(arrays["X"]), -1)
    rng = np.random.default_rng(seed)
    rows, columns = (rng.choice(side, min(size, side), replace=False) for side in pixels.shape)
    return {"A": pixels[np.ix_(rows, columns)] / 255.0}

"""Scalar losses φ(z), by cases, in the precision of z. Nothing here imports the package."""

from __future__ import annotations

import numpy as np

NAMES = ("huber", "downside", "huber-downside", "logistic")


class Phi:
    """φ, φ′ and φ″ of one loss, and a bound of φ″."""

    def __init__(self, f):
        self.name, self.delta, self.ties = f["name"], f.get("delta"), f.get("ties", 0.0)
        self.labels = np.array(f["labels"], dtype=float) if self.name == "logistic" else None
        self.bound = 0.25 if self.name == "logistic" else 1.0 + self.ties

    def value(self, z):
        if self.name == "logistic":
            return np.maximum(-self.labels * z, 0) + np.log1p(np.exp(-np.abs(z)))
        counted = z if self.name == "huber" else np.minimum(z, 0)
        square = counted * counted / 2
        if self.name != "downside":
            square = np.where(np.abs(counted) <= self.delta, square, self.delta * (np.abs(counted) - self.delta / 2))
        return square + self.ties * z * z / 2

    def slope(self, z):
        if self.name == "logistic":
            far = np.exp(-np.abs(z))  # 1/(1 + e^(lz)) without overflow
            return -self.labels * np.where(self.labels * z > 0, far, 1) / (1 + far)
        counted = z if self.name == "huber" else np.minimum(z, 0)
        if self.name != "downside":
            counted = np.where(np.abs(counted) <= self.delta, counted, self.delta * np.sign(counted))
        return counted + self.ties * z

    def curvature(self, z):
        if self.name == "logistic":
            far = np.exp(-np.abs(z))
            return far / (1 + far) ** 2
        curved = np.abs(z) < self.delta if self.name != "downside" else np.ones(np.shape(z), dtype=bool)
        if self.name != "huber":
            curved = curved & (z < 0)
        return curved + self.ties

"""The command ``counterpoise``: one module a subcommand, each of which registers itself."""

from counterpoise.cli import demo, track, pca, split, solve, certify, bench, data, reproduce, compile  # noqa: F401, I001
from counterpoise.cli.base import app

__all__ = ["app"]

"""The command ``counterpoise``: one module per subcommand; importing a module registers its command."""

from counterpoise.cli import demo, track, pca, split, test, solve, certify, bench, data, reproduce, compile  # noqa: F401, I001
from counterpoise.cli.base import app

__all__ = ["app"]

"""The command ``counterpoise``: one module a subcommand, each of which registers itself."""

from counterpoise.cli import data, demo, reproduce, solve  # noqa: F401
from counterpoise.cli.base import app

__all__ = ["app"]

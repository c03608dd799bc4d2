"""``python -m counterpoise.cli``."""

from counterpoise.cli import app

if __name__ == "__main__":
    app()

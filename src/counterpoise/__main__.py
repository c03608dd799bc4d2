"""``python -m counterpoise``: the command, where its script is not on the path."""

from counterpoise.cli import app

if __name__ == "__main__":
    app()

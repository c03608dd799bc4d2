"""Public estimators with the scikit-learn interface, and balanced splits; they accept and return pandas objects."""

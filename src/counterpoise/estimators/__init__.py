"""Public estimators with the scikit-learn interface, and balanced splits; pandas in and out."""

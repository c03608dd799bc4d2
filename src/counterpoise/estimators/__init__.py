"""What a user imports: scikit-learn estimators and balanced splits, pandas in and out."""

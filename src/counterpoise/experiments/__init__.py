"""The paper's tables and figures: settings in TOML, runs stored on disk, pages made only from stored runs."""

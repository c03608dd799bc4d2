"""The paper's tables and figures: settings in TOML, runs in a store on disk, pages made from the store alone."""

"""Reading files: one reader of tables, and what is made of them: arrays, prices, returns."""

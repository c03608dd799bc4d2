"""Pictures: one description, drawn by matplotlib (``drawing``) and by the page of a report (``page``)."""

"""Pictures: a single description is drawn by matplotlib (``drawing``) and by the page of a report (``page``)."""

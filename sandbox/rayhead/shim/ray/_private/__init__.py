"""See ray."""

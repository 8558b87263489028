"""The page at ``/``: one file, no build step, nothing from elsewhere."""

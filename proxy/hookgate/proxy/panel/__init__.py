"""The panel: one page for operators, at the admin listener, and the JSON that it shows."""

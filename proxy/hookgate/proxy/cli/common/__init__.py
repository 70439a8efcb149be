"""What several commands share: their flags, the tables that they print, and trials of hooks."""

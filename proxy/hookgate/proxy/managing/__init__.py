"""`hookgate hooks …`: see, switch, trust, try and move the hooks that are configured."""

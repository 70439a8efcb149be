"""Real clients and agents, and how tests run them."""

"""`hookgate agents ...`: the agents that are known, the settings of each, and whether its calls arrive."""

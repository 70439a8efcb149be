"""`hookgate replay`: its command line, the recorded calls that it reads, and its report."""

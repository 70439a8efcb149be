"""Several processes on one port, under a supervisor: the parts of the supervisor and of its workers."""

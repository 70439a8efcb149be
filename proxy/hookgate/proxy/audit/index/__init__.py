"""The index of calls: what it knows of each call, how it is made from the records, and how it is asked."""

"""The audit: durable records of each call, chained by hash, with tools to read, verify and remove them."""

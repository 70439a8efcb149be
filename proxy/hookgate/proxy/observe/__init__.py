"""What is known of each call: its record, receipt, log line, metrics and traces."""

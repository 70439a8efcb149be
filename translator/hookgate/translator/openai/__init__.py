"""What the dialects of OpenAI have in common: chat completions and responses."""

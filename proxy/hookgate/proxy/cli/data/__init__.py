"""`hookgate data`: finds, exports and erases what is stored about a person."""

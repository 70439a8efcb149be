"""The conversation of a request: shows its turns as messages or typed parts, and applies edits to them."""

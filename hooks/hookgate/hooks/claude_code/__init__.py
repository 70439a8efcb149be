"""Claude Code's hooks, carried over to Gemini CLI's."""

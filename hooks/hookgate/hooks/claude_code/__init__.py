"""Migration of Claude Code's hooks to Gemini CLI's."""

"""What people do with settings files beside running them: migrate from Claude Code, switch, check."""

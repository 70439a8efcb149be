"""The arguments and examples of each command.

They are separate from the modules that run the commands, so that help and completion load none of these.
"""

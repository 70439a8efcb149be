"""What can go wrong with hooks: a settings file that cannot be used, a hook that failed."""


class SettingsError(ValueError):
    """A settings file that cannot be used; the text names the file, the place and the remedy."""


class HookError(Exception):
    """A hook failed: the hook contract's "any other code, a signal, a missing program, a timeout".

    What happens to the call next is the hook's `on_error`, never this exception's business.
    """

"""The admin token, as it is configured."""

from hookgate.proxy.config import Admin, ConfigError
from hookgate.proxy.config.values import admin_token


def token_of(settings: Admin) -> str | None:
    """The token that operators have to show; None where none is set. Raises ConfigError."""
    if settings.token is not None:
        return settings.token.get_secret_value()
    if settings.token_file is None:
        return None
    try:
        return admin_token(settings.token_file.read_text(encoding="utf-8").strip())
    except OSError as error:
        wrong = f"cannot be read: {error.strerror}; check the path"
    except ValueError as error:
        wrong = str(error)
    raise ConfigError([f"admin.token_file: {settings.token_file}: {wrong}"])

"""What hooks want the model to know, put where the model reads it. Pure."""

from hookgate.translator.fields import JsonObject, read_list, write


def marked(context: str) -> str:
    """The context as Gemini CLI marks it for its models; it holds no markup of its own."""
    return f"<hook_context>{context}</hook_context>"


def with_context(body: JsonObject, context: str) -> JsonObject:
    """The request with a text behind its last turn."""
    contents = read_list(body, "contents")
    part = {"text": marked(context)}
    if contents and contents[-1].get("role", "user") == "user":
        last = contents[-1]
        contents = [*contents[:-1], write(last, "parts", [*read_list(last, "parts"), part])]
    else:
        contents = [*contents, {"role": "user", "parts": [part]}]
    return write(body, "contents", contents)

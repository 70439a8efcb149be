"""Lines as programs print them, each with a place for a text."""

LINES = {
    "cat -n": "     7\t{}",
    "grep -n": "deploy/app.conf:7:{}",
    "grep -C": "app.conf-7-{}",
    "diff +": "+{}",
    "diff -": "-{}",
    "quoted mail": "> {}",
    "comment": "# {}",
    "log": "2026-11-05T10:20:30.123Z INFO [main] {}",
    "compose": "web-1  | {}",
    "color": "\x1b[35mapp.conf\x1b[m\x1b[36m:\x1b[m{}",
    "color in JSON": "\\u001b[31m{}",
    "escaped line end": "line\\n{}",
    "escaped twice": "line\\\\n{}",
    "percent": "?q=%20{}",
    "percent twice": "?q=%2520{}",
    "string": 'x = "{}"',
    "html": "<td>{}</td>",
    "markdown": "**{}**",
    "call": "connect({})",
}
"""By name."""

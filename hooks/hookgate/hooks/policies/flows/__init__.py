"""The policy `flows`: rules about where data came from (sources), and where it goes (sinks).

    "BeforeAgent": [{"type": "builtin", "builtin": "flows"}],
    "AfterTool":   [{"type": "builtin", "builtin": "flows", "options": {
      "sources": {"untrusted": [{"tool": "web_fetch"}, {"tool": "read_mail*", "fields": ["id"]}]}}}],
    "BeforeTool":  [{"type": "builtin", "builtin": "flows", "options": {
      "sinks": {"send": [{"tool": ["send_*"], "targets": ["/to"]}]},
      "rules": [{"to": "send", "chosen_by": "untrusted"}]}}]

As a BeforeAgent hook it notes what the user says, as an AfterTool hook where results come from, and as a
BeforeTool hook it judges calls (`policy`, by the `options`). It notes hashes, with the session (`state`), so
that nothing depends on what a request still contains. `words`, `pieces` and `orders` read texts, `results`
and `block_yaml` the results of tools. `hooks_check` checks that the hooks of a gateway fit together.
"""

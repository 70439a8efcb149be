"""The policy `flows`: rules about where data came from (sources), and where it goes (sinks).

    "BeforeAgent": [{"type": "builtin", "builtin": "flows"}],
    "AfterTool":   [{"type": "builtin", "builtin": "flows", "options": {
      "sources": {"untrusted": [{"tool": "web_fetch"}, {"tool": "read_mail*", "fields": ["id"]}]}}}],
    "BeforeTool":  [{"type": "builtin", "builtin": "flows", "options": {
      "sinks": {"send": [{"tool": ["send_*"], "targets": ["/to"]}]},
      "rules": [{"to": "send", "chosen_by": "untrusted"}]}}]

As a BeforeAgent hook it notes what the user says, as an AfterTool hook where results come from, and as a
BeforeTool hook it judges calls. It notes hashes, with the session, so that nothing depends on what a request
still contains. `words` reads texts, `results` the results of tools, `state` is what is known of a session.
"""

"""The policy `injections`: finds text for the model in the results of tools, and marks results as data.

    "AfterTool":   [{"type": "builtin", "builtin": "injections", "options": {
      "actions": {"invisible": "deny", "*": "mark"}, "threshold": 2, "spotlight": "delimit"}}],
    "BeforeModel": [{"type": "builtin", "builtin": "injections", "options": {"spotlight": "delimit"}}]

`readings` has the texts that a model may read in a text, `rules` what is found in them, `detector` adds
up the points of what stands close together. `spotlight` encloses results, and tells the model so.
"""

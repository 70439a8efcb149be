"""Runs scripts that others ask for, one after the other, in a process that imports their packages once.

Started by support/environments.py with the Python of an environment. A line of stdin is a JSON list: a script
with an `async def main`, and the words to call it with. A line of stdout answers: exit code, stdout, stderr.
"""

import asyncio
import contextlib
import io
import json
import runpy
import sys
import traceback

for asked in sys.stdin:
    script, *words = json.loads(asked)
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            asyncio.run(runpy.run_path(script)["main"](*words))
        except Exception:
            traceback.print_exc()
            code = 1
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)

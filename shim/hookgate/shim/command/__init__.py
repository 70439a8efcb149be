"""The commands `hookgate event`, `hookgate shim` and `hookgate run`.

An agent waits for `hookgate event` at each of its steps. So the modules that it imports (`asking`, `gateway`,
`naming`) avoid modules that are slow to import, such as `json`, `socket`, `typing` or `dataclasses`.
"""

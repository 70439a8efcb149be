"""What `hookgate event`, `hookgate shim` and `hookgate run` do.

An agent waits for `hookgate event` at each of its steps, so what that imports (`asking`, `gateway`, `naming`,
`quickjson`) uses nothing that costs time to import, such as `json`, `socket`, `typing` or `dataclasses`.
"""

#!/usr/bin/env python3
"""Receives prompts that gateways post, as a service, and denies those that mention passwords."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # so that the gateway can use a connection again

    def do_POST(self) -> None:
        event = json.loads(self.rfile.read(int(self.headers["content-length"])))
        output = {}
        if "password" in event["prompt"].lower():
            output = {"decision": "deny", "reason": "Passwords are in the vault, not in prompts."}
        body = json.dumps(output).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8099
    with ThreadingHTTPServer(("127.0.0.1", port), Receiver) as server:
        print(f"listening on {server.server_port}", flush=True)
        server.serve_forever()

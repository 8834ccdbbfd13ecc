"""A server that answers as a test says, also badly."""

import http.server
import json
import threading
import time

from rayslice import Portal

REQUEST = {"requests": [], "next": None}
QUOTA = {"team": "vision", **{name: {"gib": gib, "cards": 0} for name, gib in (("limit", 40), ("used", 10), ("held", 2), ("left", 30))}}
OPTIONS = {"teams": [{"team": "vision", "quota": QUOTA, "pools": []}]}
CLUSTER = {
    "id": "aaaaaaaaaaaa", "name": "x", "team": "vision", "state": "approved", "revision": 1, "reason": None, "decided_by": None, "answer": None,
    "charge": {"gib": 16, "cards": 0}, "hours": 8, "ends_at": None, "groups": [{"name": "workers", "pool": "a10", "slice_gib": 8, "workers": 2}], "cluster": None,
    "ray_version": "2.52.0", "python_version": "3.11", "dashboard_url": None,
}
OBSERVED = {"head_ready": True, "workers_ready": 2, "workers_wanted": 2}


class Server:
    """Answers with what the test says, one after the other; the last goes on."""

    def __init__(self, *answers):
        self.answers, self.seen = list(answers), []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                length = int(self.headers.get("Content-Length") or 0)
                outer.seen.append((self.command, self.path, dict(self.headers), self.rfile.read(length)))
                status, headers, body = outer.answers.pop(0) if len(outer.answers) > 1 else outer.answers[0]
                if status == 0:
                    self.connection.close()
                    return
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_CONNECT = do_GET

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.portal = Portal(f"http://127.0.0.1:{self.server.server_port}", "rayslice_pat_X", team="vision")
        self.paused = []
        self.portal.transport.pause = self.paused.append
        self.portal.transport.now = lambda: time.monotonic() + sum(self.paused)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def good(data=REQUEST):
    return 200, {"Content-Type": "application/json"}, json.dumps(data).encode()


def problem(status, headers=None, **members):
    body = {"code": "x", "detail": "No.", **members}
    return status, {"Content-Type": "application/problem+json", **(headers or {})}, json.dumps(body).encode()

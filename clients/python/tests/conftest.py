"""The tests run against a portal: RAYSLICE_URL and RAYSLICE_TOKEN, of a demo whose personas are Mei Lin and Arjun Rao."""

import http.cookiejar
import json
import os
import re
import urllib.parse
import urllib.request

import pytest

from rayslice import Portal


def pytest_configure(config):
    missing = [name for name in ("RAYSLICE_URL", "RAYSLICE_TOKEN") if not os.environ.get(name)]
    if missing:
        raise pytest.UsageError(f"{', '.join(missing)} not set: start a portal, e.g. with make test-python")


@pytest.fixture
def portal():
    return Portal()


class Person:
    """A persona of the demo, signed in with a cookie as in a browser."""

    def __init__(self, name):
        self.url = os.environ["RAYSLICE_URL"]
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        page = self.opener.open(self.url + "/signin").read().decode()
        button = next(b for b in re.findall(r"<button.*?</button>", page, re.S) if name in b)
        user = re.search(r'value="(\d+)"', button).group(1)
        self._send("/signin", urllib.parse.urlencode({"user": user}).encode(), "application/x-www-form-urlencoded")

    def _send(self, path, body, kind):
        headers = {"Content-Type": kind, "Sec-Fetch-Site": "same-origin"}
        return self.opener.open(urllib.request.Request(self.url + path, data=body, headers=headers))

    def decide(self, cluster, verdict, answer=""):
        body = {"verdict": verdict, "revision": cluster.refresh().data["revision"], "answer": answer}
        return json.load(self._send(f"/api/v1/requests/{cluster.id}/decision", json.dumps(body).encode(), "application/json"))


@pytest.fixture
def lead():
    return Person("Arjun Rao")

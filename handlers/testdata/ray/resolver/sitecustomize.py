"""Resolves every name below localhost to this machine, as browsers and systemd's resolver do and plain glibc does not."""

import socket

_real = socket.getaddrinfo


def _getaddrinfo(host, *args, **kwargs):
    name = host.decode() if isinstance(host, bytes) else host
    if isinstance(name, str) and name.endswith(".localhost"):
        host = "127.0.0.1"
    return _real(host, *args, **kwargs)


socket.getaddrinfo = _getaddrinfo

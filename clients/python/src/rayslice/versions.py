"""Whether Ray and Python here go together with a cluster's."""

from __future__ import annotations

import sys
from importlib import metadata
from typing import List, Optional, Tuple


def local_ray() -> Optional[str]:
    """The version of Ray that is installed here; ``None`` = none."""
    try:
        return metadata.version("ray") or None  # None of what was removed by halves
    except metadata.PackageNotFoundError:
        return None


def local_python() -> str:
    """The version of Python here, ``"3.11"``."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def compare(ray: str, python: Optional[str], here_ray: Optional[str], here_python: str) -> Tuple[List[str], List[str]]:
    """Say what does not go together, and the exact pins that would. Ray Client wants the same Ray, and the same minor version
    of Python. A Python that is not known is not compared."""
    wrong: List[str] = []
    pins: List[str] = []
    if here_ray != ray:
        wrong.append(f"Ray is {here_ray or 'not installed'} here and {ray} on the cluster")
        pins.append(f'pip install "ray[client]=={ray}"')
    python = ".".join(python.split(".")[:2]) if python else None
    if python and here_python != python:
        wrong.append(f"Python is {here_python} here and {python} on the cluster")
        pins.insert(0, f"use Python {python}")
    return wrong, pins

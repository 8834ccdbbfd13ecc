"""rayslice-client: the same from a shell."""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import sys
from typing import List, Optional, Sequence

from . import show
from .cluster import Cluster
from .errors import PortalError, QuotaError
from .portal import Portal
from .values import __version__


def _seconds(text: str) -> float:
    """Read a time; argparse says where it is none."""
    found = float(text)
    if not 0 <= found < math.inf:
        raise argparse.ArgumentTypeError("write a number of seconds, 0 or more; leave it out to wait for as long as it takes")
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rayslice-client", description="Ray clusters by GPU slice. RAYSLICE_URL and RAYSLICE_TOKEN say where and who.",
        epilog="Exits with 1 when the portal refuses, 2 for a wrong command line, 3 when the quota does not allow it, 130 when interrupted.",
    )
    as_json = argparse.ArgumentParser(add_help=False)  # before the command or behind it, as people write it
    as_json.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print the API's JSON instead of a table")
    parser.add_argument("--json", action="store_true", help="print the API's JSON instead of a table")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    ask = commands.add_parser("request", parents=[as_json], help="ask for a cluster and print its id")
    ask.add_argument("--slice", help='GiB of one card for each worker, "8GiB"; "card" for whole cards; left out: no GPU')
    ask.add_argument("--workers", type=int, default=1, help="how many workers (default: 1)")
    ask.add_argument("--hours", type=int, help="lifetime from approval, hours")
    ask.add_argument("--purpose", default="", help="what it is for; a lead decides by it")
    ask.add_argument("--name", default="", help="name for people (default: the purpose)")
    ask.add_argument("--team", default="", help="whose quota (default: RAYSLICE_TEAM, or your only team)")
    ask.add_argument("--pool", help="where slices are cut from (default: the first that offers the size)")
    ask.add_argument("--image", help="container image (default: the portal's)")
    ask.add_argument("--key", help="makes asking twice ask once")
    ask.add_argument("--dry-run", action="store_true", help="only say what would follow")
    ask.add_argument("--wait", action="store_true", help="wait until it can be used")
    lister = commands.add_parser("list", parents=[as_json], help="list clusters that are not over")
    lister.add_argument("--all", action="store_true", help="those that are over too")
    lister.add_argument("--mine", action="store_true", help="your own only")
    waiter = commands.add_parser("wait", parents=[as_json], help="wait until a cluster can be used")
    waiter.add_argument("id", help="the cluster's id, or its name in Kubernetes")
    waiter.add_argument("--timeout", type=_seconds, help="longest wait, seconds (default: as long as it takes)")
    stopper = commands.add_parser("stop", parents=[as_json], help="stop a cluster")
    stopper.add_argument("id", help="the cluster's id, or its name in Kubernetes")
    commands.add_parser("whoami", parents=[as_json], help="say whose token it is, and what it may do")
    return parser


def _request(portal: Portal, args: argparse.Namespace) -> object:
    more = {name: value for name, value in (("pool", args.pool), ("image", args.image)) if value}
    if args.dry_run:
        return portal.plan(args.slice, args.workers, args.hours, args.purpose, name=args.name, team=args.team, **more)
    cluster = portal.request(args.slice, args.workers, args.hours, args.purpose, name=args.name, team=args.team, key=args.key, **more)
    if args.wait:
        print(f"rayslice-client: {cluster.id} is asked for", file=sys.stderr)  # whoever stops waiting must know what to stop
        cluster.wait()
    return cluster


def _run(args: argparse.Namespace) -> object:
    portal = Portal()
    if args.command == "whoami":
        return portal.account()
    if args.command == "request":
        return _request(portal, args)
    if args.command == "list":
        return portal.clusters(state="" if args.all else "live", mine=args.mine)
    if args.command == "wait":
        return portal.cluster(args.id).wait(args.timeout)
    return portal.cluster(args.id).stop()


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run one command and return its exit status."""
    for stream in (sys.stdout, sys.stderr):  # a terminal that cannot show a character shows another one
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        args = _parser().parse_args(argv)
        _print(_run(args), args.json)
    except PortalError as err:
        print(show.plain(f"rayslice-client: {err}"), file=sys.stderr)
        return 3 if isinstance(err, QuotaError) else 1
    except KeyboardInterrupt:
        print("rayslice-client: interrupted; what was asked for stands", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read has had enough
        _drop_output()
    except OSError as err:
        _drop_output()
        print(f"rayslice-client: the answer could not be written: {err}", file=sys.stderr)
        return 1
    except SystemExit:  # of --help and of a wrong command line; what is left of it must find no closed pipe at the end
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError:
            _drop_output()
        raise
    return 0


def _drop_output() -> None:
    """Nothing more can be written, not at the end either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _print(result: object, as_json: bool) -> None:
    if as_json:
        data: object = [c.data for c in result] if isinstance(result, List) else getattr(result, "data")
        print(json.dumps(data, indent=2, ensure_ascii=False))
    elif isinstance(result, Cluster):
        print(f"{result.id}  {result.progress_text()}")
    else:
        print(result)
    if sys.stdout is not None:  # it may have been closed
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

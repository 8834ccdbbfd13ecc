"""rayslice-client: the same from a shell."""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import sys
import warnings
from dataclasses import asdict
from typing import Callable, Dict, List, Optional, Sequence

from . import show
from .cluster import Cluster
from .errors import FieldError, PortalError, QuotaError
from .portal import Portal
from .values import __version__


#: What errors say to call, and what does the same in a shell.
_COMMANDS = {
    "Call cluster.refresh() and look at": "Look with rayslice-client list --all at", "Call cluster.wait() first": "First: rayslice-client wait ID",
    "Answer with cluster.reply(\"…\")": "Answer on the cluster's page in the portal", "portal.clusters() has": "rayslice-client list --all has",
    "portal.clusters()": "rayslice-client list --all", "portal.options()": "rayslice-client options",
    'slice="8GiB", or slice="card"': "--slice 8GiB, or --slice card", "Change it and call again.": "Change it and try again.",
}


def _seconds(text: str) -> float:
    """Read a time; argparse says where it is none."""
    found = float(text)
    if not 0 <= found < math.inf:
        raise argparse.ArgumentTypeError("write a number of seconds, 0 or more; leave it out to wait for as long as it takes")
    return found


_JSON_HELP = "print the API's JSON instead of a table; an error is JSON too, the last line on stderr"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rayslice-client", description="Ray clusters by GPU slice. RAYSLICE_URL and RAYSLICE_TOKEN say where and who.",
        epilog="Exits with 1 when the portal refuses, 2 for a wrong command line, 3 when the quota does not allow it, 130 when interrupted.",
    )
    as_json = argparse.ArgumentParser(add_help=False)  # before the command or behind it, as people write it
    as_json.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=_JSON_HELP)
    parser.add_argument("--json", action="store_true", help=_JSON_HELP)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    ask = commands.add_parser("request", parents=[as_json], help="ask for a cluster and print its id")
    ask.add_argument("--slice", help='GiB of one card for each worker, "8GiB"; "card" for whole cards; left out, with no --pool: workers without a GPU')
    ask.add_argument("--workers", type=int, default=1, help="how many workers (default: 1)")
    ask.add_argument("--hours", type=int, help="lifetime from approval, hours")
    ask.add_argument("--purpose", default="", help="what it is for; a lead decides by it")
    ask.add_argument("--name", default="", help="name for people (default: the purpose)")
    ask.add_argument("--team", default="", help="whose quota (default: RAYSLICE_TEAM, or your only team)")
    ask.add_argument("--pool", help="where slices are cut from (default: the first that offers the size)")
    ask.add_argument("--image", help="container image (default: the portal's)")
    ask.add_argument("--key", help="the same key with the same wish is the same cluster (default: each call asks for another one)")
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
    commands.add_parser("options", parents=[as_json], help="say what may be asked for: sizes, pools and what is left of the quota")
    commands.add_parser("capacity", parents=[as_json], help="say what would fit now")
    commands.add_parser("whoami", parents=[as_json], help="say whose token it is, and what it may do")
    return parser


def _request(portal: Portal, args: argparse.Namespace) -> object:
    more = {name: value for name, value in (("pool", args.pool), ("image", args.image)) if value}
    if not args.slice and not args.pool:
        print("rayslice-client: --slice was left out, so the workers have no GPU; for one of 8 GiB each: --slice 8GiB", file=sys.stderr)
    if args.dry_run:
        return portal.plan(args.slice, args.workers, args.hours, args.purpose, name=args.name, team=args.team, **more)
    cluster = portal.request(args.slice, args.workers, args.hours, args.purpose, name=args.name, team=args.team, key=args.key, **more)
    if args.wait:
        print(f"rayslice-client: {cluster.id} is asked for", file=sys.stderr)  # whoever stops waiting must know what to stop
        cluster.wait()
    return cluster


def _run(args: argparse.Namespace) -> object:
    portal = Portal()
    if args.command in ("whoami", "options", "capacity"):
        looks: Dict[str, Callable[[], object]] = {"whoami": portal.account, "options": portal.options, "capacity": portal.capacity}
        return looks[args.command]()
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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # it says so itself, in the words of a shell
            _print(_run(args), args.json)
    except PortalError as err:
        print(_problem(err) if args.json else show.plain(f"rayslice-client: {in_shell(str(err))}"), file=sys.stderr)
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


def in_shell(text: str) -> str:
    """What an error says to do, in commands instead of calls."""
    for call, command in _COMMANDS.items():
        text = text.replace(call, command)
    return text


def _problem(err: PortalError) -> str:
    """An error in one line of JSON."""
    found: Dict[str, object] = {"code": err.code, "status": err.status, "detail": err.detail, "what_to_do": in_shell(err.what_to_do), "request_id": err.request_id}
    if isinstance(err, FieldError):
        found["errors"] = [asdict(field) for field in err.fields]
    if isinstance(err, QuotaError):
        found["team"] = err.team
        found.update({name: asdict(n) for name in ("limit", "used", "held", "asked", "left") if (n := getattr(err, name)) is not None})
    return json.dumps(found, ensure_ascii=True)


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

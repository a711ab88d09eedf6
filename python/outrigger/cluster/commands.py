"""`outrigger lab cluster ...`"""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from outrigger import formats
from outrigger.cluster import control, units
from outrigger.cluster.state import DEFAULT_NAME, Faults, Spec
from outrigger.errors import UserError

app = typer.Typer(help="Make a cluster of emulated hosts on this machine.", no_args_is_help=True)

NameOption = Annotated[str, typer.Option("--name", help="Name of the cluster; there may be several.")]


def _described(spec: Spec) -> str:
    rate = "unshaped links" if spec.rate_bits is None else f"links of {units.format_rate(spec.rate_bits)} each way"
    late = f", {units.format_latency(spec.latency_us)} from host to host" if spec.latency_us else ""
    faults = "".join(
        f", {units.format_share(share)} of the frames {what}"
        for share, what in (
            (spec.faults.loss, "lost"),
            (spec.faults.duplicate, "doubled"),
            (spec.faults.reorder, "held back"),
        )
        if share
    )
    cores = spec.cores_per_host
    confined = f", {cores} core{'s' * (cores != 1)} each" if cores else ""
    return f"{spec.nodes} host{'s' * (spec.nodes != 1)}{confined}, {rate}{late}{faults}"


@app.command()
def up(
    nodes: Annotated[int, typer.Option("--nodes", help="Number of hosts: n0, n1...")] = 4,
    rate: Annotated[
        str, typer.Option("--rate", help="Rate of each link, each way, like 1gbit; none: no limit.")
    ] = "1gbit",
    latency: Annotated[str, typer.Option("--latency", help="Latency added from host to host, like 50us.")] = "0us",
    loss: Annotated[
        str, typer.Option("--loss", metavar="SHARE", help="Share of frames that each link loses, like 1%.")
    ] = "0%",
    duplicate: Annotated[
        str, typer.Option("--duplicate", metavar="SHARE", help="Share of frames that arrive twice.")
    ] = "0%",
    reorder: Annotated[
        str, typer.Option("--reorder", metavar="SHARE", help="Share of frames that later frames overtake.")
    ] = "0%",
    seed: Annotated[int, typer.Option("--seed", help="Seed that selects these frames.")] = 1,
    private: Annotated[
        list[str] | None,
        typer.Option(
            "--private", metavar="DIRECTORY", help="Directory private to each host, empty at first; may be repeated."
        ),
    ] = None,
    cores_per_host: Annotated[
        int | None,
        typer.Option(
            "--cores-per-host",
            metavar="N",
            help="Confine each host to N cores, in turn; needs root.",
        ),
    ] = None,
    unprivileged: Annotated[bool, typer.Option("--unprivileged", help="Use a user namespace even as root.")] = False,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Make a cluster."""
    rate_bits = None if rate == "none" else units.parse_rate(rate)
    faults = Faults(
        units.parse_share("--loss", loss),
        units.parse_share("--duplicate", duplicate),
        units.parse_share("--reorder", reorder),
        seed,
    )
    spec = Spec(nodes, rate_bits, units.parse_latency(latency), tuple(private or ()), faults, cores_per_host)
    if control.up(spec, name, unprivileged=unprivileged):
        print("Removed the rest of a broken cluster of this name.")
    suffix = "" if name == DEFAULT_NAME else f" --name {name}"
    print(f"Up: {_described(spec)}.")
    print(f"  outrigger lab cluster exec{suffix} n0 -- COMMAND...   runs something on a host")
    print(f"  outrigger lab cluster down{suffix}                    ends it all")


@app.command("exec", context_settings={"allow_interspersed_args": False})
def execute(
    host: Annotated[str, typer.Argument(help="Name of the host: n0, n1...")],
    words: Annotated[list[str], typer.Argument(help="The program and its arguments.", metavar="-- PROGRAM [ARGS]...")],
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Run a program on a host.

    Input, output, terminal, signals, environment and working directory are passed on. The exit code is the program's.
    """
    if words[0] == "--":
        words = words[1:]
    if not words:
        raise UserError("exec: a program is needed: outrigger lab cluster exec n0 -- PROGRAM [ARGS]...")
    raise typer.Exit(control.execute(host, words, name))


@app.command()
def hostfile(
    slots: Annotated[int | None, typer.Option("--slots", help="Ranks per host.", show_default="not given")] = None,
    mpi: Annotated[
        str, typer.Option("--mpi", help="Format: mpich (host:slots, also for Outrigger) or openmpi.")
    ] = "mpich",
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Print the hosts, one a line, for a launcher."""
    print(control.hostfile(slots, mpi, name), end="")


@app.command()
def agent(name: NameOption = DEFAULT_NAME) -> None:
    """Print the path of the launch agent: the hosts' ssh, for launchers that need it."""
    print(control.agent(name))


@app.command()
def status(
    name: NameOption = DEFAULT_NAME, json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False
) -> None:
    """Show the hosts."""
    hosts = control.look(name)
    if json:
        print(formats.as_json({"name": name, "spec": control.spec_of(name), "hosts": hosts}))
        return
    table = Table(title=f"{name}: {_described(control.spec_of(name))}", title_justify="left")
    for column in ("host", "address", "state"):
        table.add_column(column)
    table.add_column("processes", justify="right")
    for host in hosts:
        table.add_row(host.name, host.address, host.state, str(host.processes))
    Console(highlight=False).print(table)


@app.command()
def link(
    host: Annotated[str, typer.Argument(help="Name of the host: n0, n1...")],
    state: Annotated[str, typer.Argument(help="New state: down or up.")],
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Pull a host's network cable, or put it back."""
    control.set_link(host, state, name)


@app.command()
def kill(
    host: Annotated[str, typer.Argument(help="Name of the host: n0, n1...")], name: NameOption = DEFAULT_NAME
) -> None:
    """Kill all processes of a host at once, as a power cut does."""
    control.kill(host, name)


@app.command()
def down(name: NameOption = DEFAULT_NAME) -> None:
    """End all processes of a cluster and remove it."""
    print("Down." if control.down(name) else f"There is no cluster '{name}'.")

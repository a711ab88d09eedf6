"""Reasons for native calls in words, each with a remedy. The keys are those of src/report/native_reason.hpp."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

BLOCKING = "blocking form"
FEW = "too few calls"
TRIALS = "in trials"
AS_FAST = "MPI as fast"
MEASURED = "measured choice"
NOT_TRIED = "not tried"
NATIVE_JOB = "native job"
RULE = "your rule"
ALONE = "group of one"
BEFORE_A_TRIAL = 140
"""Calls of a kind (docs/inside/algorithms.md, By measuring)."""
NO_SERVICES = "OUTRIGGER_SERVICES=0"
"""Part of the reason of a job for which the user wants no service process."""


@dataclass(frozen=True)
class Reason:
    """One reason."""

    because: str
    """Follows "native because"."""
    remedy: str = ""
    """In the imperative; empty: there is none. If it works for some calls only, report_advice.remedy checks that."""


REASONS: Mapping[str, Reason] = {
    "unknown communicator": Reason(
        "its communicator is unknown",
        "make its communicator from MPI_COMM_WORLD by MPI_Comm_split, MPI_Comm_dup or MPI_Comm_create, and not from "
        "MPI_Comm_spawn",
    ),
    "intercommunicator": Reason(
        "collectives between two groups are left to the MPI",
        "make one communicator of both groups by MPI_Intercomm_merge",
    ),
    ALONE: Reason("it is a group of one rank"),
    "group too large": Reason("its communicator has too many ranks", "use smaller communicators"),
    "switched off": Reason(
        "its communicator has the info key outrigger=off, or the program has switched it off",
        "remove the info key outrigger=off from its communicator",
    ),
    RULE: Reason("of your --algorithm rule", "`outrigger lab tune` measures whether that is right"),
    "invalid arguments": Reason("its arguments were left to the MPI", "check its arguments"),
    "service core taken": Reason(
        "other processes took the core of a service process", "keep other processes off the service process's core"
    ),
    "small blocks": Reason("blocks of up to 8 KiB are faster by the MPI itself"),
    MEASURED: Reason(
        "the MPI was measured to be no slower, or is being measured",
        "`outrigger cache --clear` lets the next run measure anew",
    ),
    NOT_TRIED: Reason(
        "offloading was not tried: no core is spare, and the run was short", "`--choice early` tries it sooner"
    ),
    "services died": Reason(
        "service processes died too often",
        "`outrigger doctor` checks the machine; the messages of the run say how they died",
    ),
    "other operation or datatype": Reason(
        "service processes do not reduce with its operation or datatype",
        "use the MPI's own operations and basic datatypes",
    ),
    "rounding": Reason(
        "a floating-point sum or product may round differently in another order",
        "`--algorithm {collective}=on` offloads it, and results then round differently",
    ),
    BLOCKING: Reason("blocking calls are left to the MPI unless asked for", "`--blocking on` offloads it"),
    "no offloaded form": Reason("there is no offloaded form of it"),
    NATIVE_JOB: Reason("the job has no service process", "`--services 1` starts a service process on each node"),
    FEW: Reason(
        "ranks do them by themselves after the first 15 on a communicator",
        "`--intranode always` begins with the first call",
    ),
    TRIALS: Reason("the MPI and the ranks were still being compared", "`--intranode always` skips the trials"),
    AS_FAST: Reason("trials found the MPI as fast as the ranks themselves"),
    "order not learned": Reason(
        "the order of the MPI's sums was not known yet",
        "`--sums any` lets the ranks compute sums and products in an order of their own; results then round "
        "differently",
    ),
    "order not found": Reason(
        "the order of the MPI's sums cannot be learned",
        "`--sums any` lets the ranks compute sums and products in an order of their own; results then round "
        "differently",
    ),
    "nan results": Reason("only the MPI knows the bits of its NaNs", "find out why there are NaNs in its data"),
}


def in_words(reason: str, form: str = "") -> str:
    """In tables. Only rules of the user's are counted as the table's, and --blocking off is one."""
    if reason != RULE:
        return reason
    return "your --blocking or --algorithm rule" if form == "blocking" else "your --algorithm rule"


def because(reason: str, form: str = "") -> str:
    """Follows "native because"."""
    if reason == RULE or reason not in REASONS:
        return f"of {in_words(reason, form)}"
    return REASONS[reason].because

"""The pure core: charts as data, and the step that decides. For programs that use it without the engine.

The words of a chart, `check`, `start` and `step` are in `headway` itself.
"""

from headway.statechart import model
from headway.statechart.chart import Chart, Charted, chart_of
from headway.statechart.check.findings import Finding, Report
from headway.statechart.check.invariants import Explored, prove
from headway.statechart.drawings.dot import dot
from headway.statechart.drawings.mermaid import mermaid
from headway.statechart.drawings.tables import state_table, transition_table
from headway.statechart.effects import (
    AddToCounter,
    CancelTimer,
    CancelWork,
    ChangedAsk,
    ClosedAsk,
    Deliver,
    Effect,
    EscalateAsk,
    OpenedAsk,
    PublishMessage,
    RemindAsk,
    RenewedAsk,
    ReportToParent,
    SetTimer,
    SpawnChild,
    StartWork,
    StoreRecord,
    WriteLog,
)
from headway.statechart.export import document_schema, from_document, to_document
from headway.statechart.expressions.expressions import PlainScope, parse
from headway.statechart.model import Action, Fact
from headway.statechart.scxml.document import from_scxml
from headway.statechart.snapshot import (
    claim_ask,
    delegate_ask,
    release_ask,
    timer_fired,
    work_done,
    work_failed,
    work_lost,
)
from headway.statechart.step.step import status_of
from headway.statechart.step.work import delay
from headway.statechart.types import Sensitive

__all__ = [
    "Action",
    "AddToCounter",
    "CancelTimer",
    "CancelWork",
    "ChangedAsk",
    "Chart",
    "Charted",
    "ClosedAsk",
    "Deliver",
    "Effect",
    "EscalateAsk",
    "Explored",
    "Fact",
    "Finding",
    "OpenedAsk",
    "PlainScope",
    "PublishMessage",
    "RemindAsk",
    "RenewedAsk",
    "Report",
    "ReportToParent",
    "Sensitive",
    "SetTimer",
    "SpawnChild",
    "StartWork",
    "StoreRecord",
    "WriteLog",
    "chart_of",
    "claim_ask",
    "delay",
    "delegate_ask",
    "document_schema",
    "dot",
    "from_document",
    "from_scxml",
    "mermaid",
    "model",
    "parse",
    "prove",
    "release_ask",
    "state_table",
    "status_of",
    "timer_fired",
    "to_document",
    "transition_table",
    "work_done",
    "work_failed",
    "work_lost",
]

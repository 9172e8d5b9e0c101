"""The explorer: an instance is stepped through its interface, and bad calls change nothing."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pytest
from jsonschema import Draft202012Validator

from headway import Ask, Final, State, Statechart
from headway.cli.explorer.app import LARGEST_BODY, explorer
from headway.cli.explorer.charts import STATIC, example
from headway.cli.explorer.session import (
    ExplorerSession,
    ExplorerSessions,
    LostSessionError,
    SessionStep,
    begin,
)
from headway.cli.lifecycles import NamedChart
from headway.statechart.export import from_document, to_document
from headway.statechart.types import DataType
from tests.cli.browser import Browser
from tests.cli.sample import Expense, Flawed, Parent

pytestmark = pytest.mark.mission("ENG-18")

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
EMPLOYEE = {"id": "ann", "kind": "person", "roles": ["employee"]}
MANAGER = {"id": "bob", "kind": "person", "roles": ["manager"]}


class Noon:
    """A clock that stands still."""

    def now(self) -> datetime:
        """Noon of the first day of 2026."""
        return NOON


class Doomsday:
    """A clock near the end of the calendar."""

    def now(self) -> datetime:
        """A year before the last day there is."""
        return datetime.max.replace(year=9998, tzinfo=UTC)


UNBOUND = from_document(to_document(Expense))
CHARTS = [
    NamedChart("claims:Expense", Expense.chart),
    NamedChart("Flawed", Flawed.chart),
    NamedChart("Parent", Parent.chart),
    NamedChart('<img src="x">', UNBOUND),
    NamedChart("claims/Expense", Expense.chart),
]


@pytest.fixture
def app() -> Any:
    """The explorer with some charts."""
    return explorer(CHARTS, clock=Noon())


@pytest.fixture
def browser(app: Any) -> Browser:
    """A browser on this machine."""
    return Browser(app)


class Life:
    """An instance in a browser."""

    def __init__(self, browser: Browser, chart: str = "claims-Expense", **wanted: Any) -> None:
        self.browser = browser
        answer = browser.post("/api/sessions", json={"chart": chart, **wanted})
        assert answer.status_code == 201, answer.text
        self.view: dict[str, Any] = answer.json()["session"]

    def act(self, path: str, status: int = 200, method: str = "POST", **body: Any) -> dict[str, Any]:
        """Call the interface; keeps the session it answers with."""
        answer = self.browser.request(method, f"/api/sessions/{self.view['id']}/{path}", json=body)
        assert answer.status_code == status, answer.text
        told: dict[str, Any] = answer.json()
        self.view = told.get("session") or self.view
        return told

    def send(self, event: str, by: dict[str, Any], status: int = 200, **body: Any) -> dict[str, Any]:
        """Send an event as somebody."""
        return self.act("events", status, event=event, by=by, **body)

    @property
    def states(self) -> list[str]:
        """Where it stands."""
        return list(self.view["states"])


@pytest.fixture
def life(browser: Browser) -> Life:
    """An expense with a receipt and a budget."""
    return Life(browser, context={"amount": 5, "receipt": "a.pdf"}, facts={"budget": 100})


@pytest.fixture
def paying(life: Life) -> Life:
    """An expense whose payment is under way."""
    life.send("submit", EMPLOYEE)
    life.send("approve", MANAGER)
    return life


def test_charts_are_listed(browser: Browser) -> None:
    """Every chart has a name for addresses; two names never share one."""
    listed = browser.get("/api/charts").json()["charts"]
    assert [each["slug"] for each in listed] == [
        "claims-Expense",
        "Flawed",
        "Parent",
        "img-src-x",
        "claims-Expense-2",
    ]
    assert listed[0]["meaning"] == "An expense claim, from draft to payment."


def test_a_life_from_start_to_end(paying: Life) -> None:
    """Events, a failed attempt, a later retry and a result lead to the end, and the history tells it."""
    [work] = paying.view["work"]
    assert (work["handler"], work["attempt"], work["codes"]) == ("pay", 1, ["timeout", "lost"])
    paying.act("work", work=work["id"], outcome="progress", fraction=0.5)
    assert paying.view["progress"] == 50
    paying.act("work", work=work["id"], outcome="failed", code="timeout")
    assert paying.view["work"][0]["in"] == "2s"
    paying.act("work", work=work["id"], outcome="done", result={"ok": True})
    assert (paying.states, paying.view["ended"], paying.view["now"]) == (
        ["paid"],
        True,
        "2026-01-01T12:00:02Z",
    )
    moves = [row["transition"] for row in paying.view["history"]]
    assert moves == ["start", "submit", "approve", "retry", "done"]


def test_what_can_happen_is_offered_with_who_may_do_it(life: Life) -> None:
    """Each event comes with roles, targets, duties and a first payload."""
    life.send("submit", EMPLOYEE)
    offered = {each["event"]: each for each in life.view["events"]}
    assert list(offered) == ["approve", "reject", "withdraw"]
    assert (offered["reject"]["takes"], offered["reject"]["example"]) == ("Reason", {"text": ""})
    assert offered["approve"]["ways"][0]["duties"] == ["not who did submit"]
    assert offered["approve"]["ways"][0]["barred"] == ["ann"]
    assert life.view["timers"][0]["in"] == "2d"


@pytest.mark.mission("ENG-2")
def test_a_refusal_changes_nothing_and_says_what_is_possible(life: Life) -> None:
    """An event of the wrong actor is answered with the reason and the events allowed now."""
    life.send("submit", EMPLOYEE)
    before = life.view
    told = life.send("approve", EMPLOYEE, status=409)
    assert told["refusal"]["code"] == "actor"
    assert [each["event"] for each in told["refusal"]["allowed"]] == ["approve", "reject", "withdraw"]
    assert life.view == before


def test_guards_say_why_not_before_anybody_tries(browser: Browser) -> None:
    """An event whose guard says no is offered with the guard's reason, and the facts can be changed."""
    life = Life(browser)
    assert life.view["facts"] == {"budget": 0}
    reasons = [reason for event in life.view["events"] for way in event["ways"] for reason in way["says_no"]]
    assert reasons == ["attach a receipt first", "condition not met: The budget holds the amount."]
    life.send("attach", EMPLOYEE)
    life.act("facts", method="PUT", facts={"budget": 10})
    life.send("submit", EMPLOYEE)
    assert life.states == ["review"]


@pytest.mark.parametrize("body", [{"by": "2d"}, {"timer": True}])
def test_time_passes_only_when_asked(life: Life, body: dict[str, Any]) -> None:
    """Two days later, or when its timer is fired, the deadline has passed."""
    life.send("submit", EMPLOYEE)
    life.act("time", **({"timer": life.view["timers"][0]["id"]} if "timer" in body else body))
    assert (life.states, life.view["now"]) == (["rejected"], "2026-01-03T12:00:00Z")


def test_a_step_can_be_taken_back(paying: Life) -> None:
    """Back is the moment before; the first moment stays."""
    for expected in (["review"], ["draft"], ["draft"]):
        paying.act("back")
        assert paying.states == expected
    assert not paying.view["can_go_back"]


def test_a_child_can_be_played(browser: Browser) -> None:
    """What a child would report reaches the parent."""
    life = Life(browser, "Parent")
    life.send("begin", EMPLOYEE)
    assert life.view["children"] == {"charts": ["Child"], "counts": {"new": 1}}
    life.act("children", after="done")
    assert life.states == ["over"]


def test_a_session_belongs_to_its_browser(app: Any, life: Life) -> None:
    """Another browser does not see it, even with its id."""
    path = f"/api/sessions/{life.view['id']}"
    assert Browser(app).get(path).status_code == 404
    assert life.browser.get(path).json()["session"] == life.view
    assert life.browser.request("DELETE", path).status_code == 204
    assert life.browser.get(path).status_code == 404


def test_the_oldest_session_makes_room() -> None:
    """Beyond the limit the session not used for longest is dropped."""
    sessions, first = ExplorerSessions(most=2), begin(Flawed.chart, NOON, None, {})
    assert isinstance(first, SessionStep)
    one, two, three = (ExplorerSession("s", Flawed.chart, first, browser="b", facts={}) for _ in range(3))
    sessions.add(one)
    sessions.add(two)
    assert sessions.get(one.id, "b") is one
    sessions.add(three)
    assert len(sessions) == 2
    with pytest.raises(LostSessionError):
        sessions.get(two.id, "b")


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("events", {}, "event"),
        ("events", {"event": ""}, "1 to 200"),
        ("events", {"event": "x" * 201}, "1 to 200"),
        ("events", {"event": "submit", "colour": "red"}, "colour"),
        ("events", {"event": "submit", "by": {"id": 5}}, "by.id"),
        ("events", {"event": "submit", "by": {"id": "a", "kind": "cat"}}, "kind"),
        ("events", [], "object"),
        ("time", {}, "either"),
        ("time", {"by": "soon"}, "not a duration"),
        ("time", {"by": "1d", "timer": "t"}, "either"),
        ("time", {"timer": "t"}, "no longer set"),
        ("work", {"work": "w", "outcome": "done"}, "no longer open"),
        ("work", {"work": "w", "outcome": "lost"}, "outcome"),
        ("children", {"errors": "many"}, "errors"),
        ("facts", {"facts": []}, "facts"),
    ],
)
def test_a_bad_body_is_refused_with_its_place(life: Life, path: str, body: Any, said: str) -> None:
    """Status 400, a message that names what is wrong, and an instance that has not moved."""
    method = "PUT" if path == "facts" else "POST"
    answer = life.browser.request(method, f"/api/sessions/{life.view['id']}/{path}", json=body)
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]
    assert life.browser.get(f"/api/sessions/{life.view['id']}").json()["session"] == life.view


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        ({"content": b"{", "headers": {"content-type": "application/json"}}, 400, "input"),
        ({"content": b"\xff", "headers": {"content-type": "application/json"}}, 400, "input"),
        ({"content": b"[" * 100_000, "headers": {"content-type": "application/json"}}, 400, "input"),
        ({"content": b'{"chart": "Flawed"}', "headers": {"content-type": "text/plain"}}, 415, "media-type"),
        ({"json": {"chart": "Nowhere"}}, 404, "chart"),
        ({"json": {"chart": "Flawed", "context": {"text": "x" * LARGEST_BODY}}}, 413, "size"),
        ({"json": {"chart": "claims-Expense", "context": {"amount": "much"}}}, 400, "input"),
        ({"json": {"chart": "img-src-x"}}, 422, "unbound"),
        ({"json": {"chart": "Flawed"}, "headers": {"host": "evil.example"}}, 421, "host"),
        ({"json": {"chart": "Flawed"}, "headers": {"host": "["}}, 421, "host"),
        ({"json": {"chart": "Flawed"}, "headers": {"origin": "http://evil.example"}}, 403, "origin"),
        ({"json": {"chart": "Flawed"}, "headers": {"origin": "null"}}, 403, "origin"),
    ],
)
def test_a_bad_call_is_refused(browser: Browser, request_: dict[str, Any], status: int, code: str) -> None:
    """Every refusal is JSON with a code; a foreign host name or page gets nowhere."""
    answer = browser.post("/api/sessions", **request_)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8000", "[::1]:8000"])
def test_loopback_names_are_answered(browser: Browser, host: str) -> None:
    """The machine may be called by each of its own names."""
    assert browser.get("/api/charts", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(("host", "status"), [("192.0.2.1:8000", 200), ("evil.example", 421)])
def test_in_a_network_only_addresses_are_answered(host: str, status: int) -> None:
    """Opened to the network, a bare address will do; a name that could be rebound will not."""
    open_to_all = Browser(explorer(CHARTS, hosts=("*",)))
    assert open_to_all.get("/api/charts", headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    "path", ["/charts/nowhere", "/nowhere", "/api/nowhere", "/static/../app.py", "/static/nothing.js"]
)
def test_what_is_not_there_is_told_as_json(browser: Browser, path: str) -> None:
    """Status 404 for any path that is none."""
    answer = browser.get(path)
    assert (answer.status_code, "error" in answer.json()) == (404, True)


def test_the_chart_is_drawn_with_its_active_states(browser: Browser) -> None:
    """The drawing differs by what is active; a state that is none is ignored."""
    plain, active, unknown = (
        browser.get("/api/charts/Flawed/drawing", params={"active": state})
        for state in ("", "trap", "nowhere")
    )
    assert plain.headers["content-type"] == "image/svg+xml"
    assert plain.text == unknown.text != active.text


def test_without_graphviz_the_package_is_named(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page learns what to tell: status 503 and the name of the Debian package."""
    monkeypatch.setenv("PATH", "")
    answer = browser.get("/api/charts/Flawed/drawing")
    assert answer.status_code == 503
    assert "apt-get install graphviz" in answer.json()["error"]["message"]


@pytest.mark.parametrize("form", ["json", "mermaid", "dot", "svg", "png", "table"])
def test_a_chart_is_exported(browser: Browser, form: str) -> None:
    """Every form is a file with a name."""
    answer = browser.get(f"/api/charts/claims-Expense/export/{form}")
    assert (answer.status_code, answer.content != b"") == (200, True)
    assert answer.headers["content-disposition"].startswith('attachment; filename="claims-Expense.')
    assert browser.get("/api/charts/claims-Expense/export/pdf").status_code == 404


def test_the_check_is_shown(browser: Browser) -> None:
    """Findings, accepted ones and verdicts on invariants reach the page."""
    good, bad = (browser.get(f"/api/charts/{slug}/check").json() for slug in ("claims-Expense", "Flawed"))
    assert (good["ok"], bad["ok"]) == (True, False)
    assert good["invariants"][0]["verdict"] == "proved"
    assert good["accepted"][0]["because"] == "a draft may lie for ever"


def test_the_page_is_safe_and_whole(browser: Browser) -> None:
    """Names are escaped, the policy forbids everything foreign, and nothing is fetched from elsewhere."""
    page = browser.get("/charts/img-src-x")
    assert '<img src="x">' not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "httponly" in page.headers["set-cookie"].lower()
    files = [page.text, *(file.read_text() for file in STATIC.iterdir())]
    assert [
        url for file in files for url in re.findall(r"https?://[^\"' ]+", file) if "www.w3.org" not in url
    ] == []


def test_every_file_the_page_needs_is_served(browser: Browser) -> None:
    """Links of the page and imports of its scripts lead to files."""
    needed = re.findall(r'"(/static/[^"]+)"', browser.get("/").text)
    scripts = [file for file in STATIC.iterdir() if file.suffix == ".js"]
    imported = {name for script in scripts for name in re.findall(r'from "\./([^"]+)"', script.read_text())}
    for path in {*needed, *(f"/static/{name}" for name in imported)}:
        assert browser.get(path).status_code == 200, path
    assert {Path(path).name for path in needed} | imported == {file.name for file in STATIC.iterdir()}


def test_the_page_says_everything_without_a_script(browser: Browser) -> None:
    """States and transitions are in the page itself."""
    page = browser.get("/charts/claims-Expense").text
    assert 'data-state="review"' in page
    assert "<td>manager; not who did submit</td>" in page


@dataclass
class Inner:
    """A part."""

    when: datetime
    kind: Literal["a", "b"]


@dataclass
class Outer:
    """Something with everything in it."""

    name: str
    count: int
    ratio: float
    flag: bool
    inner: Inner
    many: list[Inner]
    maybe: int | None
    mapping: dict[str, int] = field(default_factory=dict)


@pytest.mark.parametrize("kind", [Outer, Inner, int, list[int], int | None, dict[str, str], bool])
def test_an_example_fits_its_schema(kind: object) -> None:
    """The first value of an editor is one the schema lets through."""
    data_type = DataType(kind)
    Draft202012Validator(data_type.schema()).validate(example(data_type.schema()))
    data_type.load(example(data_type.schema()))


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "integer", "exclusiveMinimum": 0}, 1),
        ({"type": "number", "minimum": 2}, 2),
        ({"type": "string", "minLength": 2}, "xx"),
        ({"enum": ["b", "a"]}, "b"),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}, None),
        ({}, None),
    ],
)
def test_an_example_is_the_least_a_schema_asks_for(schema: dict[str, Any], expected: object) -> None:
    """Limits are kept, and a schema that refers to itself comes to an end."""
    assert example(schema) == expected


class Nagging(Statechart):
    """Reminds every second, for ever."""

    asking = State(initial=True, ask=Ask("someone", remind="1s"))
    answered = Final()
    answer_it = asking.to(answered, by="someone")


@pytest.mark.parametrize(
    ("slug", "duration", "said"),
    [("Nagging", "1d", "more than 1000 timers"), ("Flawed", "500d", "the calendar ends")],
)
def test_time_cannot_run_away(slug: str, duration: str, said: str) -> None:
    """Time that would fire timers without end, or leave the calendar, stops and says so."""
    life = Life(Browser(explorer([*CHARTS, NamedChart("Nagging", Nagging.chart)], clock=Doomsday())), slug)
    told = life.act("time", 400, by=duration)
    assert said in told["error"]["message"]

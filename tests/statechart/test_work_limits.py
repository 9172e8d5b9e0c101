"""Work that is lost or takes too long, and the keys that limit and place work."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, computed_field

from headway import AtMost, Event, Final, Retry, Run, State, Statechart, any_live, person
from headway.actions import add, assign, record
from headway.errors import DefinitionError
from headway.statechart import model
from headway.statechart.check.check import check
from headway.statechart.drawings import labels
from headway.statechart.effects import StartWork
from headway.statechart.explain import explain
from headway.statechart.export import from_document, to_document
from headway.statechart.snapshot import work_failed, work_lost, work_timed_out
from headway.testing import Journey
from tests.statechart.definitions import body, definition_problems


class Fetching(Statechart):
    """Work whose loss is tried again, and whose timeout is not."""

    fetching = State(
        initial=True,
        run=Run("fetch", timeout="1m", retry=Retry(1, on="GONE"), timeout_code="SLOW", lost_code="GONE"),
    )
    done, slow, lost = Final(), Final(), Final()

    fetched = fetching.on_done.to(done)
    too_slow = fetching.on_error("SLOW").to(slow, do=assign(why="_event.data"))
    vanished = fetching.on_error("GONE").to(lost, do=assign(why="_event.data"))


class Plain(Statechart):
    """Work that names no codes of its own."""

    fetching = State(initial=True, run="fetch")
    done, slow, lost = Final(), Final(), Final()

    fetched = fetching.on_done.to(done)
    too_slow = fetching.on_error("timeout").to(slow)
    vanished = fetching.on_error("lost").to(lost)


Failing = Callable[[str, int], Event]


@pytest.mark.mission("ENG-10", "ENG-11")
@pytest.mark.parametrize(
    ("failing", "states"), [(work_lost, ("lost",)), (work_timed_out, ("slow",))], ids=["lost", "timed out"]
)
def test_the_engine_tells_the_cause_and_the_chart_the_code(failing: Failing, states: tuple[str, ...]) -> None:
    """A lost worker and a timeout are errors of the codes that charts wait for by default."""
    journey = Journey(Plain)
    journey.send(failing(journey.snapshot.work["fetching"].id, 1))
    assert journey.states == states


@pytest.mark.mission("ENG-10", "ENG-11")
def test_the_codes_of_a_run_decide_on_retries_and_reach_the_chart() -> None:
    """`lost_code` is tried again by its policy, `timeout_code` is not, and the chart sees code and cause."""
    journey = Journey(Fetching)
    work = journey.snapshot.work["fetching"].id
    again = journey.send(work_lost(work, 1))
    assert [(row.transition, row.reason) for row in again.history] == [("retry", "GONE: host lost 1 of 20")]
    assert journey.snapshot.work["fetching"].attempt == 2
    assert journey.refused(work_lost(work, 1)).code == "stale"
    journey.send(work_timed_out(work, 2))
    assert journey.states == ("slow",)
    why = journey.snapshot.context["why"]
    assert (why["code"], why["cause"]) == ("SLOW", "timeout")
    assert why["message"]


@pytest.mark.mission("ENG-10")
@pytest.mark.parametrize(
    "data",
    [None, {}, {"cause": "bored"}, {"cause": ["lost"]}, {"code": None, "cause": "lost"}, {"code": "a.b"}],
)
def test_a_failure_without_a_code_or_a_known_cause_is_refused(data: object) -> None:
    """What says neither is the sender's mistake, whatever it says instead."""
    journey = Journey(Plain)
    work = journey.snapshot.work["fetching"].id
    assert journey.refused(Event("work.failed", data, ref=work, attempt=1)).code == "payload"


@pytest.mark.mission("ENG-10", "ENG-11")
def test_a_workers_own_code_goes_before_a_cause() -> None:
    """A worker that tells code and cause is taken by its code."""
    journey = Journey(Fetching)
    work = journey.snapshot.work["fetching"].id
    journey.send(work_failed(work, 1, "SLOW", cause="lost"))
    assert journey.states == ("slow",)


class Crawl(Statechart):
    """Work with every kind of key."""

    fetching = State(
        initial=True,
        run=Run(
            "fetch",
            retry=Retry(1, base="1s"),
            affinity="browser:{instance}",
            concurrency=AtMost(2, of="crawl:{domain}"),
            rate=AtMost(10, of="{user}@{domain}", per="1m"),
        ),
    )
    storing = State(run=Run("store", concurrency="disk"))
    done, failed = Final(), Final()

    move = fetching.stay(do=assign(domain="_event.data"))
    fetched = fetching.on_done.to(storing)
    stored = storing.on_done.to(done)
    broken = any_live.on("error.work").to(failed)


def begun(journey: Journey) -> StartWork:
    """The attempt that was put before the workers last."""
    return [effect for effect in journey.effects if isinstance(effect, StartWork)][-1]


@pytest.mark.mission("ENG-10")
def test_work_carries_its_limits_with_the_keys_filled() -> None:
    """Keys are filled from the context as it is when an attempt begins, a retry's too."""
    journey = Journey(Crawl, instance="c-1", context={"domain": "example.org", "user": "ann"})
    first = begun(journey)
    assert (first.affinity, first.concurrency, first.at_once) == ("browser:c-1", "crawl:example.org", 2)
    assert (first.rate, first.rate_most, first.rate_per) == ("ann@example.org", 10, 60_000)
    journey.send(Crawl.move("example.com"))
    journey.work_fails("BUSY")
    second = begun(journey)
    assert (second.attempt, second.concurrency, second.at_once) == (2, "crawl:example.com", 2)
    assert (second.work, second.rate) == (first.work, "ann@example.com")


@pytest.mark.mission("ENG-10")
def test_a_plain_key_means_one_at_a_time_and_no_key_no_limit() -> None:
    """The short form of `concurrency` is at most 1; what a state does not limit is not limited."""
    journey = Journey(Crawl, context={"domain": "d", "user": "u"})
    journey.work_done()
    store = begun(journey)
    assert (store.concurrency, store.at_once, store.rate, store.affinity) == ("disk", 1, None, None)


@pytest.mark.mission("ENG-10", "ENG-18")
def test_limits_are_part_of_the_document() -> None:
    """A chart that comes back from its document limits the same work."""
    document = to_document(Crawl)
    states = {state["id"]: state for state in document["states"]}
    assert states["fetching"]["run"]["rate"] == {"key": "{user}@{domain}", "most": 10, "per": 60_000}
    assert states["storing"]["run"]["concurrency"] == {"key": "disk"}
    assert from_document(document).model == Crawl.chart.model


def runs(**limits: Any) -> Callable[[], object]:
    """A chart whose work has these limits."""
    a, b = State(initial=True, run=Run("x", **limits)), Final()
    return body(a=a, b=b, done=a.on_done.to(b))


MISTAKES: list[tuple[dict[str, object], str]] = [
    ({"concurrency": 7}, "concurrency= must be an AtMost(...), not 7"),
    ({"rate": "api"}, "rate= must be an AtMost(...), not 'api'"),
    ({"rate": AtMost(3, of="api")}, "a has a rate limit without a time: give it per="),
    ({"rate": AtMost(3, of="api", per=0)}, "a has a rate limit without a time: give it per="),
    ({"rate": AtMost(3, of="api", per="soon")}, "not a duration: 'soon'"),
    ({"concurrency": AtMost(3, of="api", per="1m")}, "use rate= for a limit per time"),
    (
        {"concurrency": AtMost(0, of="api")},
        "a has a concurrency limit of 0: use 1 to 1,000,000",
    ),
    ({"rate": AtMost(-1, of="api", per="1m")}, "a has a rate limit of -1"),
    ({"concurrency": ""}, "a has a concurrency limit without a key"),
    ({"rate": AtMost(1, of="", per="1m")}, "a has a rate limit without a key"),
    ({"affinity": ""}, "a has an affinity without a key"),
    ({"affinity": 7}, "run.affinity must be of type"),
    ({"concurrency": AtMost("2", of="api")}, "a number, or one field as {field}"),
    ({"concurrency": AtMost("{a}{b}", of="api")}, "a number, or one field as {field}"),
    ({"lost_code": "a.b"}, "'a.b' is not an error code"),
    ({"timeout_code": ""}, "'' is not an error code"),
]


@pytest.mark.mission("ENG-1", "ENG-10")
@pytest.mark.parametrize(("limits", "message"), MISTAKES, ids=[message for _, message in MISTAKES])
def test_each_wrong_limit_has_its_message(limits: dict[str, object], message: str) -> None:
    """A limit that cannot be kept is a mistake of the definition, told once and with its line."""
    problems = definition_problems(runs(**limits))
    assert len([text for _, text in problems if message in text]) == 1


@pytest.mark.mission("ENG-18")
def test_a_limit_without_a_time_in_a_document_is_refused() -> None:
    """What a class body may not say, a document may not either."""
    document = to_document(Crawl)
    document["states"][0]["run"]["rate"] = {"key": "api"}
    with pytest.raises(DefinitionError, match="a rate limit without a time"):
        from_document(document)


class Job(BaseModel):
    """A context whose fields are known, one of them computed."""

    user: str = ""
    first: str = ""

    @computed_field  # type: ignore[prop-decorator]  # pydantic's own way to write it
    @property
    def shown(self) -> str:
        """A field that is kept with the others."""
        return self.first.upper()


class OpenJob(BaseModel, extra="allow"):
    """A context that may have any field."""

    user: str = ""


def owned(owner: str, context: object, **row: Any) -> Callable[[], type[Statechart]]:
    """A chart with an owner."""

    def define() -> type[Statechart]:
        class Owned(Statechart, owner=owner, context=context):
            a, b = State(initial=True), Final()
            go = a.to(b, **row)

        return Owned

    return define


@pytest.mark.mission("ENG-1", "ENG-14")
@pytest.mark.parametrize(
    ("owner", "context"),
    [
        ("", Job),
        ("{user}", Job),
        ("{shown}", Job),
        ("{instance}", Job),
        ("team", Job),
        ("{anything}", None),
        ("{more}", OpenJob),
        ("{more}", dict[str, str]),
    ],
)
def test_a_chart_says_whose_an_instance_is(owner: str, context: object) -> None:
    """The owner is a text over the context, kept in the model and in its document."""
    chart = owned(owner, context)().chart
    assert chart.model.owner == owner
    assert from_document(to_document(chart)).model.owner == owner


@pytest.mark.mission("ENG-1")
@pytest.mark.parametrize(
    ("define", "message"),
    [
        (owned("{usr}", Job), "the owner is '{usr}': the context has no field usr"),
        (owned("", Job, do=add("n:{usr}", 1)), "a key is 'n:{usr}': the context has no field usr"),
        (owned("", Job, do=record("n", "{usr}")), "a key is '{usr}': the context has no field usr"),
        (
            owned("", Job, emit="x.{usr}"),
            "the name of a message is 'x.{usr}': the context has no field usr",
        ),
    ],
    ids=["owner", "counter", "record", "message"],
)
def test_a_text_names_only_fields_that_the_context_has(define: Callable[[], object], message: str) -> None:
    """A field that is never there would be filled with nothing, for every instance alike."""
    assert [text for _, text in definition_problems(define)] == [message]


@pytest.mark.mission("ENG-1", "ENG-10")
def test_keys_of_work_and_facts_name_only_fields_that_the_context_has() -> None:
    """A mistyped key would put all work of a chart under one limit."""

    def define() -> object:
        class Wrong(Statechart, context=Job, facts=model.Fact(name="n", kind="counter", key="n:{usr}")):
            a = State(
                initial=True,
                run=Run("x", affinity="{usr}", concurrency="{usr}", rate=AtMost(1, of="{usr}", per="1s")),
            )
            b = Final()
            done = a.on_done.to(b)

        return Wrong

    words = ["the key of the fact n", "the affinity of a", "the concurrency of a", "the rate of a"]
    problems = [text for _, text in definition_problems(define)]
    assert sorted(text.partition(" is ")[0] for text in problems) == sorted(words)


@pytest.mark.mission("ENG-10")
def test_a_person_cannot_declare_a_worker_lost() -> None:
    """Who guesses the id of work is not its engine."""
    journey = Journey(Plain)
    before = journey.snapshot
    refusal = journey.refused(work_lost(before.work["fetching"].id, 1, by=person("eve", "worker")))
    assert (refusal.code, journey.snapshot) == ("actor", before)


@pytest.mark.mission("CRW-RETRY", "ENG-10")
@pytest.mark.parametrize(("held", "most"), [(3, 3), (0, 1), ("many", 1), (None, 1), (10**12, 1)])
def test_the_number_of_a_limit_may_come_from_the_context(held: object, most: int) -> None:
    """A number that is none, or far too large, lets one run at a time."""

    class Crawling(Statechart):
        """As many as the context says."""

        fetching = State(initial=True, run=Run("fetch", concurrency=AtMost("{room}", of="crawl")))
        done = Final()
        fetched = fetching.on_done.to(done)

    [effect] = [
        each for each in Journey(Crawling, context={"room": held}).effects if isinstance(each, StartWork)
    ]
    assert (effect.concurrency, effect.at_once) == ("crawl", most)


class Guarded(Statechart):
    """Work whose errors are tried again twice, and which may lose its host three times."""

    paying = State(initial=True, run=Run("pay", retry=Retry(2, on="busy", base="1s", factor=1), lost=3))
    paid, failed, lost = Final(), Final(), Final()

    done = paying.on_done.to(paid)
    vanished = paying.on_error("lost").to(lost, do=assign(why="_event.data"))
    broken = paying.on_error.to(failed)


class Covered(Statechart):
    """Work whose one retry covers every code, that of a lost host too."""

    paying = State(initial=True, run=Run("pay", retry=Retry(2, base="2s", factor=2)))
    paid, failed = Final(), Final()

    done = paying.on_done.to(paid)
    broken = paying.on_error.to(failed)


def lose(journey: Journey, times: int) -> None:
    """Let the host of the open work be lost so often."""
    for _ in range(times):
        (work,) = journey.snapshot.work.values()
        journey.send(work_lost(work.id, work.attempt))


@pytest.mark.mission("ENG-10", "ENG-11")
def test_losing_the_host_uses_up_no_retries_of_errors() -> None:
    """Losses and errors are counted apart, each new try has a new number, and a loss waits for nothing."""
    journey = Journey(Guarded)
    lose(journey, 3)
    (work,) = journey.snapshot.work.values()
    assert (work.attempt, work.lost, work.failures) == (4, 3, {})
    assert work.due == journey.clock.now()
    for attempt in (4, 5):
        journey.send(work_failed(work.id, attempt, "busy"))
    (work,) = journey.snapshot.work.values()
    assert (work.attempt, work.lost, work.failures) == (6, 3, {"0": 2})
    assert "(attempt 6, host lost 3 of 3)" in str(explain(Guarded, journey.snapshot, journey.clock.now()))
    journey.send(work_failed(work.id, 6, "busy"))
    assert journey.states == ("failed",)


@pytest.mark.mission("ENG-10", "ENG-11")
def test_work_that_loses_its_host_too_often_fails_and_says_so() -> None:
    """One loss more than allowed is an error of `lost_code`, and its message tells the number."""
    journey = Journey(Guarded)
    lose(journey, 4)
    assert journey.states == ("lost",)
    why = journey.snapshot.context["why"]
    assert (why["code"], why["cause"]) == ("lost", "lost")
    assert why["message"] == "its host was lost 4 times, at most 3 are allowed"


@pytest.mark.mission("ENG-11")
def test_a_retry_that_covers_the_loss_allows_twenty_and_says_how_long_they_wait() -> None:
    """Without `lost` a chart that retries a loss has 20 of them, beside its own retries, with their waits."""
    journey = Journey(Covered)
    waits = []
    for _ in range(20):
        lose(journey, 1)
        (work,) = journey.snapshot.work.values()
        assert work.due is not None
        waits.append((work.due - journey.clock.now()).total_seconds())
    assert waits == [2, 4, *[4] * 18]
    journey.send(work_failed(work.id, 21, "busy"))
    assert journey.states == ("paying",)
    lose(journey, 1)
    assert journey.states == ("failed",)


@pytest.mark.mission("ENG-11")
@pytest.mark.parametrize("policy", [Retry.never("lost"), Retry(0), Retry(2, on="busy")])
def test_what_the_chart_does_not_retry_is_told_at_the_first_loss(policy: Retry) -> None:
    """Work that must not be begun twice by itself never is: its chart hears of the first loss."""

    class Once(Statechart):
        paying = State(initial=True, run=Run("pay", retry=policy))
        paid, failed = Final(), Final()
        done = paying.on_done.to(paid)
        broken = paying.on_error.to(failed)

    journey = Journey(Once)
    lose(journey, 1)
    assert journey.states == ("failed",)


@pytest.mark.mission("ENG-11")
def test_how_often_a_host_may_be_lost_is_part_of_the_document() -> None:
    """It is exported, read again and drawn; a number that cannot be is refused."""
    document = to_document(Guarded.chart)
    (paying,) = [state for state in document["states"] if state["id"] == "paying"]
    assert paying["run"]["lost"] == 3
    assert from_document(document).model == Guarded.chart.model
    run = Guarded.chart.nodes["paying"].model.run
    assert run is not None
    assert labels.work(run) == "run pay ×2, host lost ×3"
    paying["run"]["lost"] = -1
    with pytest.raises(DefinitionError, match="has lost=-1"):
        from_document(document)


@pytest.mark.mission("ENG-11", "ENG-18")
def test_the_checker_sees_a_limit_of_losses_beside_retries_without_one() -> None:
    """Errors are tried again for an hour, losses are limited: the chart must say what follows the last."""

    class Patient(Statechart):
        paying = State(initial=True, run=Run("pay", retry=Retry(None), lost=3))
        paid = Final()
        done = paying.on_done.to(paid)
        late = paying.after("1h").to(paid)

    (finding,) = check(Patient).findings
    assert (finding.id, finding.path) == ("error-without-recovery", ("work of paying fails: lost",))

"""A chart in two versions: what an upgrade is rehearsed on."""

from headway import Final, State, Statechart


class _Before(Statechart, name="Claim", version=1):
    """A claim as it was."""

    draft, review, paid = State(initial=True), State(), Final()
    go = draft.to(review, emit="claim.submitted")
    pay = review.to(paid)


class _After(Statechart, name="Claim", version=2):
    """The same with one more state, and a timer where all of them wait."""

    draft, review, audit, paid = State(initial=True), State(), State(), Final()
    go = draft.to(review, emit="claim.submitted")
    check = review.to(audit)
    pay = (review | audit).to(paid)
    late = review.after("30d").to(audit)


BEFORE, AFTER = _Before, _After

"""Whatever happens to a unit of work, in whatever order, only the table's transitions happen."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from memforest_core.work.jobs import TRANSITIONS, WorkEvent, WorkState, advance

EVENTS = st.sampled_from(list(WorkEvent))


class UnitOfWork(RuleBasedStateMachine):
    """One row, to which anybody may try to do anything."""

    def __init__(self) -> None:
        super().__init__()
        self.state = WorkState.HELD
        self.claims = 0
        self.releases_of_a_claim = 0

    @rule(event=EVENTS)
    def attempt(self, event: WorkEvent) -> None:
        """Given any event, then the state moves along the table, or the event is refused and it stays."""
        before = self.state
        try:
            self.state = advance(before, event)
        except ValueError:
            assert (before, event) not in TRANSITIONS
            assert self.state is before
            return
        assert TRANSITIONS[before, event] is self.state
        self.claims += self.state is WorkState.RUNNING
        self.releases_of_a_claim += before is WorkState.RUNNING

    @rule(event=EVENTS, times=st.integers(2, 4))
    def repeat(self, event: WorkEvent, times: int) -> None:
        """A message that comes twice does not do its work twice: no event leads to itself."""
        for _ in range(times):
            self.attempt(event)
        assert (self.state, event) not in TRANSITIONS

    @precondition(lambda self: self.state is WorkState.RUNNING)
    @rule()
    def claim_what_runs(self) -> None:
        """What runs belongs to one worker."""
        assert (WorkState.RUNNING, WorkEvent.CLAIM) not in TRANSITIONS

    @invariant()
    def each_claim_ends_once(self) -> None:
        running = self.state is WorkState.RUNNING
        assert self.claims == self.releases_of_a_claim + running

    @invariant()
    def work_was_claimed_before_it_ended(self) -> None:
        if self.state in {WorkState.DONE, WorkState.DEAD}:
            assert self.claims > 0


TestUnitOfWork = UnitOfWork.TestCase
TestUnitOfWork.settings = settings(max_examples=100, stateful_step_count=30)

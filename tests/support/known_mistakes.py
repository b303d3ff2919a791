"""Loops whose patches once were called safe, and changed a training or its output."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.moves import Case

CALLBACK_BEHIND_A_METHOD = Case(
    code="""
    class Events:
        def __init__(self):
            self.callbacks, self.last = [], None

        def add(self, callback):
            self.callbacks.append(callback)

        def trigger(self):
            for callback in self.callbacks:
                callback(self)

    def slow_down(events):
        if events.last > 3:
            torch.set_num_threads(1)
    """,
    before="events = Events()\nevents.add(slow_down)",
    body="""
    STEP
    events.last = loss.item()  # later
    events.trigger()
    """,
)
HOOK_OVERRIDDEN = Case(
    code="""
    class Base:
        last = 0.0

        def after_step(self):
            pass

    class Own(Base):
        def after_step(self):
            if self.last > 3:
                torch.set_num_threads(1)
    """,
    before="state = Own()",
    body="""
    STEP
    state.last = loss.item()  # later
    state.after_step()
    """,
)
HOOK_ASSIGNED = Case(
    code="""
    class Base:
        last = 0.0

        def after_step(self):
            pass

    def attach(state):
        def look():
            if state.last > 3:
                torch.set_num_threads(1)
        state.after_step = look
    """,
    before="state = Base()\nattach(state)",
    body="""
    STEP
    state.last = loss.item()  # later
    state.after_step()
    """,
)
HOLDER_OF_STATE = Case(
    code="""
    class State:
        step = 0

    class Csv:
        def __init__(self, state):
            self.state = state

        def write(self):
            print("csv", self.state.step)
    """,
    before="state = State()\nlogger = Csv(state)",
    body="""
    STEP
    state.step += 1
    logger.write()  # later
    print(loss.item())  # later
    """,
)
COLLATE_PRINTS = Case(
    code="""
    def collate(batch):
        print("collating", len(batch))
        return torch.stack([one[0] for one in batch]), torch.tensor([one[1] for one in batch])
    """,
    over="DataLoader(Data(), collate_fn=collate)",
    body="""
    STEP
    print(i, loss.item())  # later
    """,
)
METER_CALLBACK_PRINTS = Case(
    code="""
    class Meter:
        def __init__(self, on_update):
            self.on_update = on_update

        def update(self, value):
            self.on_update(value)
    """,
    before="meter = Meter(lambda value: print('meter', value))",
    body="""
    STEP
    meter.update(i)
    print(i, loss.item())  # later
    """,
)
TRACKER_PRINTS = Case(
    code="""
    class Tracker:
        def add(self, value):
            print("tracked", value)
    """,
    before="tracker = Tracker()",
    body="""
    STEP
    tracker.add(i)
    print(i, loss.item())  # later
    """,
)
KNOWN_MISTAKES: Mapping[str, Case] = {
    "a callback behind a method": CALLBACK_BEHIND_A_METHOD,
    "a hook that is overridden": HOOK_OVERRIDDEN,
    "a hook that is assigned": HOOK_ASSIGNED,
    "an object that holds what the loop changes": HOLDER_OF_STATE,
    "a collate function that prints": COLLATE_PRINTS,
    "a meter's own callback that prints": METER_CALLBACK_PRINTS,
    "a tracker that prints": TRACKER_PRINTS,
}

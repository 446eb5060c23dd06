"""Plans: what the handler of a message does. The end that sends the message makes its plan, and knows the outcome."""

from __future__ import annotations

from inspect import CORO_CLOSED, getcoroutinestate
from random import Random
from typing import Any, Final

from jsonrpc_fast.handlers import Handler, RequestContext
from jsonrpc_fast.handlers.options import OrderedHandler

from .world import Future, World

METHODS: Final = ("serve", "serve in context", "serve in order", "textDocument/didChange", "unknown", "initialize")
METHOD_WEIGHTS: Final = (60, 12, 10, 5, 5, 8)
FORMS: Final = ("sync", "coroutine", "future")
FORM_WEIGHTS: Final = (45, 45, 10)
FINALS: Final = ("value", "rpc error", "failure", "stray", "unwritable")
FINAL_WEIGHTS: Final = (70, 10, 8, 6, 6)
ON_CANCEL: Final = ("end", "return", "linger", "fail")
STEPS: Final = ("sleep", "call", "progress", "notify", "cancel", "close")
STEP_WEIGHTS: Final = (40, 27, 20, 6, 6, 1)
SLEEPS: Final = (0.0, 0.0, 0.001, 0.05, 1.0, 7.0)
MAX_DEPTH: Final = 3
RPC_ERROR: Final = -32050


class Plan:
    """What the handler of one message does, and what has become of the message.

    Attributes:
        number: Its place in `World.plans`, and the member "n" of the params.
        sender: The end that sends the message.
        receiver: The end that serves it.
        method: The method of the message.
        is_request: Whether it has an id.
        form: What the function returns: a value ("sync"), a coroutine or a future.
        steps: What the function does before it ends.
        final: How it ends.
        on_cancel: What a coroutine does when it is cancelled.
        pace: The seconds between two reports of progress, if the function does nothing else; or 0.
        depth: The number of messages in whose handlers this one was sent.
        arrival: Its place among the messages that the receiver has read.
        key: The key of the id of the request.
        invocations: How often the function was called.
        is_in_batch: Whether it is an item of a batch.
        is_ordered: Whether nothing that arrives later may begin before the function has ended.
        work: What the function has returned if it is a coroutine or a future.
        is_begun: Whether the function has done anything: from its call on, or from its first step.
        is_cancelled: Whether the receiver has read a cancellation.
        is_withdrawn: Whether the cancellation was among the messages that were read together with the request.
        is_cut_off: Whether the receiver has cancelled the handler.
        is_answered: Whether a response to this request itself was written.
        is_disclaimed: Whether the receiver has said that it will not serve the request.
    """

    __slots__ = (
        "arrival",
        "depth",
        "final",
        "form",
        "invocations",
        "is_answered",
        "is_begun",
        "is_cancelled",
        "is_cut_off",
        "is_disclaimed",
        "is_in_batch",
        "is_ordered",
        "is_request",
        "is_withdrawn",
        "key",
        "method",
        "number",
        "on_cancel",
        "pace",
        "receiver",
        "sender",
        "steps",
        "work",
    )

    def __init__(self, world: World, sender: Any, is_request: bool, depth: int = 0) -> None:
        random = world.random
        self.number = len(world.plans)
        world.plans.append(self)
        self.sender = sender
        self.receiver = sender.peer
        self.is_request = is_request
        self.depth = depth
        [self.method] = random.choices(METHODS, METHOD_WEIGHTS)
        self.is_ordered = self.method == "serve in order" or (
            not is_request and self.method.startswith(sender.convention.ordered)
        )
        [self.form] = random.choices(FORMS, FORM_WEIGHTS)
        [self.final] = random.choices(FINALS, FINAL_WEIGHTS)
        self.on_cancel = random.choice(ON_CANCEL)
        self.steps: list[tuple[str, Any]] = []
        if random.random() < (0.15 if self.form == "sync" else 0.7):
            self.steps = [self._step(random) for _ in range(random.choice((1, 1, 2, 3)))]
        self.arrival = -1
        self.key: Any = None
        self.invocations = 0
        self.work: Any = None
        self.is_in_batch = self.is_withdrawn = False
        self.is_begun = self.is_cancelled = self.is_cut_off = self.is_answered = self.is_disclaimed = False

        self.pace = 0.0
        if self.form == "coroutine" and self.method == "serve" and random.random() < 0.08:
            self.pace = random.choice((0.05, 1.0))
            self.steps = [("sleep", self.pace), ("progress", None)] * 3

    def _step(self, random: Random) -> tuple[str, Any]:
        [step] = random.choices(STEPS, STEP_WEIGHTS)
        if step == "call" and self.depth >= MAX_DEPTH:
            step = "sleep"
        return step, random.choice(SLEEPS) if step == "sleep" else None

    @property
    def is_at_work(self) -> bool:
        """Whether the function was called and has not ended."""
        if isinstance(self.work, Future):
            return not self.work.is_done
        return self.work is not None and getcoroutinestate(self.work) != CORO_CLOSED

    @property
    def can_fail(self) -> bool:
        """Whether the response may be -32603."""
        return self.final in ("failure", "stray", "unwritable") or self.is_cut_off or self.is_cancelled

    def __repr__(self) -> str:
        steps = "".join(
            f"{step} {'' if argument is None else argument}".strip() + ", " for step, argument in self.steps
        )
        return f"<{self.number} {self.method}: {self.form}, {steps}{self.final}>"


def _serve(params: Any) -> Any:
    plan = World.current.plans[params["n"]]
    return plan.receiver.invoke(plan)


def _serve_in_context(context: RequestContext, params: Any) -> Any:
    return _serve(params)


HANDLERS: Final = {
    "serve": Handler(_serve, unpack=False),
    "serve in context": Handler(_serve_in_context, unpack=False),
    "serve in order": OrderedHandler(Handler(_serve, unpack=False), True),
    "textDocument/didChange": Handler(_serve, unpack=False),
    "initialize": Handler(_serve, unpack=False),
}
"""The handlers of all ends: what each does is in the plan of the message."""

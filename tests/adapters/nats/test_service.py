"""Services over NATS and their clients, against a real `nats-server`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import signal
from functools import partial
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.js import JetStreamContext

from jsonrpc_fast.adapters.nats import Service, ServiceClient
from jsonrpc_fast.adapters.nats.service import consumer_name
from jsonrpc_fast.errors import CallTimeout, ConnectionLost, RpcError
from jsonrpc_fast.handlers import Handlers, RequestContext
from jsonrpc_fast.hooks import Outcome
from jsonrpc_fast.profile import JSONRPC_1

from ...isolated import nats_load
from ...support.nats_server import NatsServer, connected, nats_server, needs_server
from ...support.recorder import Recorder
from ...support.session_pairs import Faults
from ...support.waiting import eventually, forever, results_of, settle

pytestmark = needs_server


async def nothing(*_: object) -> None:
    """An `error_cb` and a `disconnected_cb` that keep nats-py from printing."""


async def double(number: int) -> int:
    await settle()
    return number * 2


class TestServices:
    async def test_calls(self, server: NatsServer) -> None:
        async with connected(server) as connection, Service(connection, "s", {"add": sum_of, "double": double}):
            client = ServiceClient(connection, "s", timeout=10)
            assert await client.call("add", [1, 2]) == 3
            assert await client.call("add", {"a": 1, "b": 4}) == 5
            found = await asyncio.gather(*[client.call("double", [number]) for number in range(500)])
            assert found == [number * 2 for number in range(500)]

    async def test_errors(self, server: NatsServer, caplog: pytest.LogCaptureFixture) -> None:
        def refuse() -> None:
            raise RpcError(7, "no", [1])

        async with connected(server) as connection, Service(connection, "s", {"refuse": refuse, "fail": lambda: 1 / 0}):
            client = ServiceClient(connection, "s", timeout=10)
            for method, expected in (("refuse", (7, "no")), ("x", (-32601, "Method not found"))):
                with pytest.raises(RpcError) as caught:
                    await client.call(method)
                assert (caught.value.code, caught.value.message) == expected
            with caplog.at_level(logging.CRITICAL, "jsonrpc_fast.handlers"), pytest.raises(RpcError) as caught:
                await client.call("fail")
            assert (caught.value.code, caught.value.message) == (-32603, "Internal error")

    async def test_the_wire(self, server: NatsServer) -> None:
        """What any client of NATS sees: texts without line endings, batches, and faults of the text."""
        async with connected(server) as connection, Service(connection, "s", {"add": sum_of}):
            for text, expected in (
                (
                    b' {"jsonrpc": "2.0", "id": "a",\n "method": "add", "params": [1, 2]}',
                    b'{"jsonrpc":"2.0","id":"a","result":3}',
                ),
                (
                    b'[{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]},{"jsonrpc":"2.0","method":"add"},1]',
                    (
                        b'[{"jsonrpc":"2.0","id":1,"result":3},'
                        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}]'
                    ),
                ),
                (b"{", b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'),
            ):
                assert (await connection.request("s", text, timeout=10)).data == expected

    async def test_notifications(self, server: NatsServer) -> None:
        found: list[Any] = []
        async with connected(server) as connection, Service(connection, "s", {"note": found.append}):
            await ServiceClient(connection, "s").notify("note", [1])
            await eventually(lambda: found == [1])
            replies = await connection.subscribe("inbox")
            await connection.publish("s", b'{"jsonrpc":"2.0","method":"note","params":[2]}', reply="inbox")
            await eventually(lambda: found == [1, 2])
            with pytest.raises(nats.errors.TimeoutError):
                await replies.next_msg(0.1)

    async def test_the_context_is_the_message(self, server: NatsServer) -> None:
        def show(context: RequestContext) -> list[Any]:
            return [context.context.subject, context.context.headers]

        async with connected(server) as connection, Service(connection, "s.*", {"show": show}):
            client = ServiceClient(connection, "s.one", headers={"traceparent": "t"}, timeout=10)
            assert await client.call("show", headers={"b": "2"}) == ["s.one", {"traceparent": "t", "b": "2"}]

    async def test_a_group_shares_the_requests(self, server: NatsServer) -> None:
        counts = [0, 0]

        def count(place: int) -> Any:
            def serve() -> int:
                counts[place] += 1
                return place

            return serve

        async with (
            connected(server) as one,
            connected(server) as other,
            Service(one, "s", {"m": count(0)}),
            Service(other, "s", {"m": count(1)}),
        ):
            client = ServiceClient(one, "s", timeout=10)
            await asyncio.gather(*[client.call("m") for _ in range(200)])
        assert sum(counts) == 200
        assert min(counts) > 20

    @pytest.mark.usefixtures("impatient")
    async def test_a_service_stops_without_its_server(self, server: NatsServer) -> None:
        """It does not wait for a server that is gone or hangs, and gets no messages when the server is back."""
        options: dict[str, Any] = {"error_cb": nothing, "reconnect_time_wait": 0.05, "max_reconnect_attempts": -1}
        async with connected(server, **options) as worker, connected(server, **options) as connection:
            for leave, come_back in ((server.pause, server.resume), (server.kill, server.start)):
                service = Service(worker, "s", {"m": lambda: 1})
                await service.start()
                leave()
                began = asyncio.get_running_loop().time()
                await service.stop(0.1)
                assert asyncio.get_running_loop().time() - began < 5
                come_back()
                for each in (worker, connection):  # both hear of it, also after a late response to a flush
                    found: BaseException | None = None
                    while not isinstance(found, ConnectionLost):
                        await eventually(lambda: worker.is_connected and connection.is_connected)
                        (found,) = await results_of(ServiceClient(each, "s", timeout=0.5).call("m"))
                        assert isinstance(found, (ConnectionLost, CallTimeout))
                    assert str(found) == "no service is subscribed to the subject"

    @pytest.mark.usefixtures("impatient")
    async def test_a_service_whose_subscription_cannot_be_drained_gets_no_more(self, server: NatsServer) -> None:
        """A late response to an earlier flush says that the broker reads, but it hangs."""
        options: dict[str, Any] = {"error_cb": nothing, "reconnect_time_wait": 0.05, "max_reconnect_attempts": -1}
        async with connected(server, **options) as worker, connected(server, **options) as connection:
            service = Service(worker, "s", {"m": lambda: 1})
            await service.start()
            flush = worker.flush

            async def settled_flush(seconds: float) -> None:
                worker.flush = flush

            worker.flush = settled_flush
            server.pause()
            await service.stop(0.1)
            server.kill()
            server.start()
            for each in (worker, connection):
                await eventually(lambda each=each: each.stats["reconnects"] and each.is_connected)  # type: ignore[misc]
                await each.flush()  # its subscriptions
            with pytest.raises(ConnectionLost, match="no service is subscribed"):
                await ServiceClient(connection, "s", timeout=10).call("m")

    async def test_no_service(self, server: NatsServer) -> None:
        async with connected(server) as connection:
            with pytest.raises(ConnectionLost, match=r"^no service is subscribed to the subject$") as caught:
                await ServiceClient(connection, "s").call("m")
            assert caught.value.was_sent is False
            async with Service(connection, "s", {"m": lambda: 1}):
                assert await ServiceClient(connection, "s").call("m") == 1
            with pytest.raises(ConnectionLost):
                await ServiceClient(connection, "s").call("m")
        with pytest.raises(ConnectionLost) as closed:
            await ServiceClient(connection, "s").call("m")
        assert closed.value.was_sent is False
        with pytest.raises(ConnectionLost):
            await ServiceClient(connection, "s").notify("m")

    async def test_deadlines(self, server: NatsServer) -> None:
        cancelled: list[bool] = []

        async def sleep() -> None:
            try:
                await forever()
            except asyncio.CancelledError:
                cancelled.append(True)
                raise

        async with connected(server) as connection, Service(connection, "s", {"sleep": sleep}, timeout=0.2):
            client = ServiceClient(connection, "s", timeout=10)
            with pytest.raises(RpcError) as caught:
                await client.call("sleep")
            assert (caught.value.code, cancelled) == (-32008, [True])
            with pytest.raises(CallTimeout):
                await client.call("sleep", timeout=0.05)

    async def test_too_many_messages(self, server: NatsServer) -> None:
        go = asyncio.Event()
        handlers = Handlers({"wait": go.wait})
        faults = Faults()
        async with connected(server) as connection:
            service = Service(connection, "s", handlers, max_handlers=2, hooks=faults)
            service._max_waiting = 3
            await service.start()
            client = ServiceClient(connection, "s", timeout=10)
            calls = [asyncio.create_task(client.call("wait")) for _ in range(9)]
            await eventually(lambda: sum(call.done() for call in calls) == 4)
            batch = b'[{"jsonrpc":"2.0","id":"a","method":"wait"},{"jsonrpc":"2.0","method":"wait"}]'
            reply = (await connection.request("s", batch, timeout=10)).data
            assert reply == (
                b'[{"jsonrpc":"2.0","id":"a","error":{"code":-32009,"message":"the service has too many messages"}}]'
            )
            await connection.publish("s", b'{"jsonrpc":"2.0","method":"wait"}')
            await eventually(lambda: len(faults.seen) == 6)
            go.set()
            found = await results_of(*calls)
            await service.stop()
        assert {str(fault) for fault in faults.seen} == {"the service has too many messages"}
        assert found.count(True) == 5
        assert [error.code for error in found if isinstance(error, RpcError)] == [-32009] * 4

    async def test_max_payload(self, tmp_path: Path) -> None:
        with nats_server(tmp_path, "max_payload: 4096") as server:
            async with connected(server) as connection, Service(connection, "s", {"x": lambda size: "x" * size}):
                client = ServiceClient(connection, "s", timeout=10)
                assert await client.call("x", [4000]) == "x" * 4000
                with pytest.raises(RpcError, match="the response is larger than the broker allows") as caught:
                    await client.call("x", [4096])
                assert caught.value.code == -32603
                with pytest.raises(ValueError, match=r"^the message is larger than the broker allows$"):
                    await client.call("x", ["x" * 4096])
                with pytest.raises(ValueError, match=r"^the message is larger than the broker allows$"):
                    await client.notify("x", ["x" * 4096])
                assert await client.call("x", [1]) == "x"

    async def test_a_refusal_over_max_payload_has_no_id(self, tmp_path: Path) -> None:
        batch = b"[" + b",".join(b'{"jsonrpc":"2.0","id":%d,"method":"m"}' % number for number in range(80)) + b"]"
        handlers = {"m": lambda: "x" * 100, "wait": forever}
        with nats_server(tmp_path, "max_payload: 4096") as server:
            async with connected(server) as connection:
                service = Service(connection, "s", handlers, max_handlers=1)
                service._max_waiting = 0
                await service.start()
                reply = await connection.request("s", batch, timeout=10)
                text = b'"message":"the response is larger than the broker allows"}}'
                assert reply.data == b'{"jsonrpc":"2.0","id":null,"error":{"code":-32603,' + text
                await connection.publish("s", b'{"jsonrpc":"2.0","method":"wait"}')
                reply = await connection.request("s", batch, timeout=10)
                assert reply.data.startswith(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32009,')
                await service.stop(grace_seconds=0)

    async def test_each_text_is_answered_in_its_form(self, server: NatsServer) -> None:
        """Even where it is refused."""
        profile = JSONRPC_1.replace(batches=True)
        handlers = {"add": sum_of, "wait": forever}
        async with connected(server) as connection:
            service = Service(connection, "s", handlers, profile=profile, max_handlers=1)
            service._max_waiting = 0
            await service.start()

            async def replied(text: bytes) -> str:
                return str((await connection.request("s", text, timeout=10)).data.decode())

            plain = b'{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}'
            first = plain.replace(b'"jsonrpc":"2.0",', b"")
            assert await replied(plain) == '{"jsonrpc":"2.0","id":1,"result":3}'
            assert await replied(first) == '{"id":1,"result":3,"error":null}'
            await connection.publish("s", b'{"id":null,"method":"wait","params":[]}')
            error = '"error":{"code":-32009,"message":"the service has too many messages"}'
            assert await replied(plain) == '{"jsonrpc":"2.0","id":1,' + error + "}"
            assert await replied(first) == '{"id":1,' + error + ',"result":null}'
            assert await replied(b"[" + first + b"]") == '[{"id":1,' + error + ',"result":null}]'
            await service.stop(grace_seconds=0)

    async def test_stop_serves_what_has_arrived(self, server: NatsServer) -> None:
        async with connected(server) as connection, connected(server) as other:
            service = Service(connection, "s", {"double": double}, max_handlers=4)
            await service.start()
            client = ServiceClient(other, "s", timeout=10)
            calls = [asyncio.create_task(client.call("double", [number])) for number in range(100)]
            await eventually(lambda: any(call.done() for call in calls))
            await service.stop()
            assert await asyncio.gather(*calls) == [number * 2 for number in range(100)]
            with pytest.raises(ConnectionLost):
                await client.call("double", [1])
            await service.stop()

    async def test_stop_cancels_what_takes_too_long(self, server: NatsServer) -> None:
        async with connected(server) as connection:
            has_begun = asyncio.Event()

            async def sleep() -> None:
                has_begun.set()
                await forever()

            faults = Faults()
            service = Service(connection, "s", {"sleep": sleep}, max_handlers=1, hooks=faults)
            await service.start()
            calls = [asyncio.create_task(ServiceClient(connection, "s", timeout=0.5).call("sleep")) for _ in range(3)]
            await has_begun.wait()
            await asyncio.wait_for(service.stop(grace_seconds=0.1), 20)
            found = await results_of(*calls)
            assert [getattr(error, "code", type(error)) for error in found] == [CallTimeout, -32009, -32009]
            assert list(map(str, faults.seen)) == ["the service has stopped"] * 2

    async def test_what_a_lost_connection_leaves_is_reported(self, server: NatsServer) -> None:
        """Nobody can be told that stop refuses it, so the hooks are."""
        faults = Faults()
        connection = await nats.connect(server.url, allow_reconnect=False)
        service = Service(connection, "s", {"wait": forever}, max_handlers=1, hooks=faults)
        await service.start()
        for _ in range(3):
            await connection.publish("s", b'{"jsonrpc":"2.0","id":1,"method":"wait"}', reply="r")
        await eventually(lambda: len(service._waiting) == 2)
        await connection.close()
        await service.stop(grace_seconds=0)
        assert list(map(str, faults.seen)) == ["the service has stopped"] * 2

    async def test_the_server_is_killed_and_comes_back(self, server: NatsServer) -> None:
        options = {"reconnect_time_wait": 0.05, "max_reconnect_attempts": -1, "error_cb": nothing}
        async with (
            connected(server, **options) as connection,
            connected(server, **options) as other,
            Service(connection, "s", {"double": double}),
        ):
            client = ServiceClient(other, "s", timeout=0.2)
            assert await client.call("double", [1], timeout=10) == 2
            server.kill()
            found = await results_of(*[client.call("double", [1]) for _ in range(20)])
            assert {type(error) for error in found} <= {CallTimeout, ConnectionLost}
            server.start()
            await eventually(lambda: connection.is_connected and other.is_connected, 20)
            await connection.flush()  # the subscription
            assert await client.call("double", [2], timeout=10) == 4

    async def test_options(self) -> None:
        for kind in (partial(Service, handlers={}), ServiceClient):
            with pytest.raises(TypeError, match="there is no option 'max_size'"):
                kind(nats.aio.client.Client(), "s", max_size=5)  # type: ignore[operator]
        for options in ({"timeout": -1}, {"max_handlers": 0}, {"ack_seconds": -1}):
            with pytest.raises(ValueError, match=next(iter(options))):
                Service(nats.aio.client.Client(), "s", {}, **options)  # type: ignore[arg-type]


def sum_of(a: int, b: int) -> int:
    return a + b


class TestStreams:
    async def test_calls_and_notifications(self, stream_server: NatsServer) -> None:
        found: list[Any] = []
        async with connected(stream_server) as connection:
            stream = connection.jetstream()
            await stream.add_stream(name="jobs", subjects=["s"])
            client = ServiceClient(connection, "s", jetstream=stream, timeout=10)
            await client.notify("note", [1])  # stored, although no service is running
            call = asyncio.create_task(client.call("add", [1, 2]))
            async with Service(connection, "s", {"note": found.append, "add": sum_of}, jetstream=stream):
                assert await call == 3
                assert found == [1]
            (info,) = await stream.consumers_info("jobs")
            assert (info.num_ack_pending, info.num_pending) == (0, 0)

    async def test_a_message_of_a_worker_that_dies_is_sent_to_another(self, stream_server: NatsServer) -> None:
        async with connected(stream_server) as connection, connected(stream_server) as doomed:
            stream = connection.jetstream()
            await stream.add_stream(name="jobs", subjects=["s"])
            begun = asyncio.Event()

            async def hang() -> None:
                begun.set()
                await forever()

            dying = Service(doomed, "s", {"m": hang}, jetstream=doomed.jetstream(), ack_seconds=0.5)
            await dying.start()
            client = ServiceClient(connection, "s", jetstream=stream, timeout=20)
            call = asyncio.create_task(client.call("m"))
            await begun.wait()
            await doomed.close()
            async with Service(connection, "s", {"m": lambda: "done"}, jetstream=stream, ack_seconds=0.5):
                assert await call == "done"
            await dying.stop(0)

    async def test_a_message_with_an_invalid_subject_for_the_reply_is_served_once(
        self, stream_server: NatsServer
    ) -> None:
        runs: list[int] = []
        async with connected(stream_server) as connection:
            stream = connection.jetstream()
            await stream.add_stream(name="jobs", subjects=["s"])
            async with Service(connection, "s", {"m": lambda: runs.append(1)}, jetstream=stream, ack_seconds=0.2):
                text = b'{"jsonrpc":"2.0","id":1,"method":"m"}'
                await stream.publish("s", text, headers={"Jsonrpc-Reply-To": "a b c"})
                await eventually(lambda: runs)

                async def is_acknowledged() -> bool:
                    return not (await stream.consumers_info("jobs"))[0].num_ack_pending

                await eventually(is_acknowledged)
                assert runs == [1]

    @pytest.mark.parametrize("streamed", [False, True])
    async def test_a_client_has_no_use_of_the_permissions_of_a_worker(
        self, stream_server: NatsServer, streamed: bool
    ) -> None:
        """The subject for the response is the client's choice: it must not end the worker, nor call JetStream's API."""
        text = b'{"jsonrpc":"2.0","id":1,"method":"m"}'
        subjects = ["a" * 5000, "a b", ">", "$JS.API.STREAM.PURGE.kept"]
        runs: list[int] = []
        async with connected(stream_server) as client, connected(stream_server) as worker:
            stream = client.jetstream()
            await stream.add_stream(name="kept", subjects=["kept"])
            await stream.publish("kept", b"text")
            await stream.add_stream(name="jobs", subjects=["streamed"])
            used = worker.jetstream() if streamed else None
            name = "streamed" if streamed else "core"
            async with Service(worker, name, {"m": lambda: runs.append(1)}, jetstream=used):
                for subject in subjects:
                    await client.publish(name, text, headers={"Jsonrpc-Reply-To": subject})
                if not streamed:
                    await client.publish(name, text, reply=subjects[-1])
                await eventually(lambda: len(runs) == len(subjects) + (not streamed))
                call = ServiceClient(client, name, jetstream=stream if streamed else None, timeout=10).call("m")
                assert await call is None
                assert not worker.is_closed
            assert (await stream.stream_info("kept")).state.messages == 1

    async def test_two_subjects_of_one_stream(self, stream_server: NatsServer) -> None:
        """Each service gets the messages of its own subject, and all of them."""
        async with connected(stream_server) as connection:
            stream = connection.jetstream()
            await stream.add_stream(name="jobs", subjects=["s.>"], retention="workqueue")
            subjects = ["s.a", "s.b", "s.a_b", "s.a.b", "s.A"]
            runs: dict[str, list[int]] = {subject: [] for subject in subjects}
            async with contextlib.AsyncExitStack() as stack:
                for subject in subjects * 2:  # two workers for each
                    handlers = {"m": lambda number, subject=subject: runs[subject].append(number)}
                    await stack.enter_async_context(Service(connection, subject, handlers, jetstream=stream))
                clients = {subject: ServiceClient(connection, subject, jetstream=stream) for subject in subjects}
                for number in range(10):
                    for subject in subjects:
                        await clients[subject].notify("m", [number])
                        await clients[subject].call("m", [number + 10], timeout=10)
                await eventually(lambda: sum(map(len, runs.values())) == 100)
            assert {subject: sorted(found) for subject, found in runs.items()} == {s: list(range(20)) for s in subjects}
            assert (await stream.stream_info("jobs")).state.messages == 0

    async def test_a_consumer_for_another_subject_is_refused(self, stream_server: NatsServer) -> None:
        async with connected(stream_server) as connection:
            stream = connection.jetstream()
            await stream.add_stream(name="jobs", subjects=["s", "other"])
            name = consumer_name("jsonrpc", "s")
            await stream.add_consumer("jobs", durable_name=name, deliver_subject="d", filter_subject="other")
            expected = rf"^the consumer '{name}' of the stream 'jobs' takes the messages of 'other', not of 's': "
            with pytest.raises(ValueError, match=expected):
                await Service(connection, "s", {}, jetstream=stream).start()

    async def test_a_service_that_starts_again_sets_its_consumer(self, stream_server: NatsServer) -> None:
        async with connected(stream_server) as connection:
            stream = connection.jetstream()
            await stream.add_stream(name="jobs", subjects=["s"])
            for ack_seconds, max_handlers in ((30.0, 256), (60.0, 8)):
                async with Service(
                    connection, "s", {}, jetstream=stream, ack_seconds=ack_seconds, max_handlers=max_handlers
                ):
                    (consumer,) = await stream.consumers_info("jobs")
                    assert (consumer.config.ack_wait, consumer.config.max_ack_pending) == (ack_seconds, max_handlers)

    async def test_a_stream_that_only_one_side_knows(self, stream_server: NatsServer) -> None:
        """The acknowledgement of the stream is not taken for the response, which comes after it or before it."""
        async with connected(stream_server) as connection:
            stream = connection.jetstream()
            await stream.add_stream(name="jobs", subjects=["s", "full"], max_msgs=1000)
            async with Service(connection, "s", {"double": double}):
                for client in (
                    ServiceClient(connection, "s", timeout=10),
                    ServiceClient(connection, "s", jetstream=stream, timeout=10),
                ):
                    found = await asyncio.gather(*[client.call("double", [number]) for number in range(100)])
                    assert found == [number * 2 for number in range(100)]
            async with Service(connection, "s", {"m": lambda: 1}, queue="other", jetstream=stream):
                with pytest.raises(CallTimeout, match="a stream stores this subject"):
                    await ServiceClient(connection, "s").call("m", timeout=0.5)

    async def test_a_consumer_or_a_stream_that_is_gone_is_taken_up_again(
        self, stream_server: NatsServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with connected(stream_server) as connection, connected(stream_server) as second:
            stream = connection.jetstream()
            await stream.add_stream(name="jobs", subjects=["s"])
            workers = [
                Service(each, "s", {"double": double}, jetstream=each.jetstream(), ack_seconds=0.3)
                for each in (connection, second)
            ]
            client = ServiceClient(connection, "s", jetstream=stream, timeout=20)
            async with workers[0], workers[1]:
                assert await client.call("double", [1]) == 2
                await stream.delete_consumer("jobs", consumer_name("jsonrpc", "s"))
                assert await client.call("double", [2]) == 4
                # Each worker has noticed it, whichever of them made it again.
                await eventually(lambda: caplog.text.count("the service has taken it up again") == 2, 20)
                await stream.delete_stream("jobs")
                await eventually(lambda: caplog.text.count("no messages arrive") == 2, 20)
                await stream.add_stream(name="jobs", subjects=["s"])
                await eventually(lambda: caplog.text.count("the service has taken it up again") == 4, 20)
                assert sorted(await asyncio.gather(*[client.call("double", [n]) for n in range(9)])) == [
                    *range(0, 18, 2)
                ]
        assert {record.levelname for record in caplog.records} == {"WARNING", "ERROR"}

    async def test_a_notification_that_is_not_served_is_delivered_again_and_becomes_a_dead_letter(
        self, stream_server: NatsServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        runs: list[str] = []
        letters: list[Any] = []

        async def keep(letter: Any) -> None:
            letters.append((letter.data, letter.headers))

        def fail(name: str) -> None:
            runs.append(name)
            raise RuntimeError("the database is down")

        def refuse() -> None:
            runs.append("refuse")
            raise RpcError(1, "no")

        async def hang() -> None:
            runs.append("hang")
            await forever()

        def second() -> None:
            runs.append("second")
            if runs.count("second") == 1:
                raise RuntimeError("not yet")

        methods = {"fail": fail, "refuse": refuse, "hang": hang, "second": second, "note": runs.append}
        async with connected(stream_server) as connection:
            stream = connection.jetstream()
            await stream.add_stream(name="jobs", subjects=["s"], retention="workqueue")
            await connection.subscribe("dead", cb=keep)
            client = ServiceClient(connection, "s", jetstream=stream, timeout=20)
            options: Any = {"ack_seconds": 0.1, "max_deliveries": 2, "timeout": 0.05, "jetstream": stream}
            async with Service(connection, "s", methods, dead_letters="dead", **options):
                for method, params in (
                    ("fail", ["x"]),
                    ("refuse", []),
                    ("hang", []),
                    ("second", []),
                    ("note", ["once"]),
                ):
                    await client.notify(method, params)
                await client.notify("unknown")
                await stream.publish("s", b"no message", headers={"Kept": "yes"})
                with pytest.raises(RpcError, match="Internal"):  # its caller knows: it is not served again
                    await client.call("fail", ["call"])
                await eventually(lambda: len(letters) == 5, 20)

                async def is_empty() -> bool:
                    return not (await stream.stream_info("jobs")).state.messages

                await eventually(is_empty)
        counts = {name: runs.count(name) for name in runs}
        assert counts == {"x": 2, "refuse": 2, "hang": 2, "second": 2, "once": 1, "call": 1}
        assert (b"no message", {"Kept": "yes"}) in letters
        methods_of = sorted(json.loads(data)["method"] for data, headers in letters if headers is None)
        assert methods_of == ["fail", "hang", "refuse", "unknown"]
        assert caplog.text.count("was delivered 2 times and not served: a dead letter") == 5

    async def test_a_message_that_ends_its_worker_stays_in_the_stream_after_so_many_deliveries(
        self, stream_server: NatsServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        begun: list[int] = []

        async def end_the_worker() -> None:
            begun.append(1)
            await forever()

        async with connected(stream_server) as connection:
            stream = connection.jetstream()
            await stream.add_stream(name="jobs", subjects=["s"], retention="workqueue")
            client = ServiceClient(connection, "s", jetstream=stream, timeout=20)
            call = asyncio.create_task(client.call("m"))
            options: Any = {"ack_seconds": 0.1, "max_deliveries": 2}
            for number in (1, 2):
                async with connected(stream_server) as doomed:
                    worker = Service(doomed, "s", {"m": end_the_worker}, jetstream=doomed.jetstream(), **options)
                    await worker.start()
                    await eventually(lambda number=number: len(begun) >= number, 20)
                await worker.stop(0)
            async with Service(connection, "s", {"m": end_the_worker, "ok": double}, jetstream=stream, **options):
                with pytest.raises(RpcError, match="delivered too often"):
                    await call
                assert await client.call("ok", [1]) == 2
            (info,) = await stream.consumers_info("jobs")
            assert (info.config.max_deliver, info.config.backoff) == (3, [0.1, 0.2])
            assert (await stream.stream_info("jobs")).state.messages == 1
        assert begun == [1, 1]
        assert (
            caplog.text.count("message 1 of the stream 'jobs' (s) was delivered 2 times and not served: it stays") == 1
        )

    @pytest.mark.time_limit(10)
    async def test_it_stops_although_a_request_to_the_broker_swallows_the_cancellation(
        self, stream_server: NatsServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """So `asyncio.wait_for` of Python 3.11, in nats-py, if the response is there when its task is cancelled."""
        asked = asyncio.Event()
        subscription = JetStreamContext.PushSubscription
        consumer_info = subscription.consumer_info

        async def swallowing(self: Any) -> Any:
            asked.set()
            with contextlib.suppress(asyncio.CancelledError):
                await forever()
            return await consumer_info(self)

        monkeypatch.setattr(subscription, "consumer_info", swallowing)
        async with connected(stream_server) as connection:
            stream = connection.jetstream()
            await stream.add_stream(name="jobs", subjects=["s"])
            service = Service(connection, "s", {"double": double}, jetstream=stream, ack_seconds=0.01)
            await service.start()
            await asked.wait()
            await service.stop(0)

            async def is_free() -> bool:
                (info,) = await stream.consumers_info("jobs")
                return not info.push_bound

            await eventually(is_free)  # the broker learns of the end a moment later

    async def test_hooks_see_what_a_service_of_a_stream_serves(self, stream_server: NatsServer) -> None:
        recorder = Recorder()
        async with connected(stream_server) as connection:
            stream = connection.jetstream()
            await stream.add_stream(name="jobs", subjects=["s"])
            async with Service(connection, "s", {"double": double}, jetstream=stream, hooks=recorder):
                assert await ServiceClient(connection, "s", jetstream=stream).call("double", [2], timeout=20) == 4
        assert recorder.events == [("request", 1, "double"), ("served", 1, "double", Outcome.RESULT, None)]


def test_consumer_names() -> None:
    """Characters that a name must not contain do not merge two subjects."""
    subjects = ["a.b", "a_b", "a.*", "a.>", "a", "x" * 300, "x" * 299, "ä", "ö"]
    names = [consumer_name(queue, subject) for queue in ("q", "q-a", "q.a", "q a") for subject in subjects]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch("[A-Za-z0-9_-]{1,255}", name) for name in names)
    assert consumer_name("jsonrpc", "rpc.calculator") == "jsonrpc-rpc_calculator-ede8af3c1a29e2f9"


@pytest.mark.slow
@pytest.mark.time_limit(280)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM, None])
async def test_workers_or_the_server_end_under_load(tmp_path: Path, by: signal.Signals | None, stream: bool) -> None:
    """`python -m tests.isolated.nats_load` runs it at full size."""
    calls = 500 if stream else 5000
    settled = await nats_load.killed(tmp_path, calls, 3 if by else 2, by, stream=stream)
    nats_load.check(settled, calls, stream=stream)
    if by is signal.SIGTERM or (by and stream):
        assert settled["result"] == calls
    assert settled["result"] > (calls // 2 if by else 0)

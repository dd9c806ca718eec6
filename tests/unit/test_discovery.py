"""Where routers are found: what a user may write, and what becomes of names that change."""

from __future__ import annotations

import asyncio
import socket

import pytest

from router.protocol.errors import SettingsError
from server.app.discovery import Address, Discovery, Target, parse_target, resolve


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("http://router-1:1234", Target("router-1", 1234)),
        ("http://127.0.0.1:1234/", Target("127.0.0.1", 1234)),
        ("ws://router:9", Target("router", 9)),
        ("router:9090", Target("router", 9090)),
        ("router", Target("router", 8080)),
        ("http://router", Target("router", 8080)),
        ("[::1]:7000", Target("::1", 7000)),
    ],
)
def test_what_may_be_written(text: str, target: Target) -> None:
    assert parse_target(text) == target


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "there is no host"),
        ("http://", "there is no host"),
        ("ftp://router:1", "scheme ftp"),
        ("router:0", "port 0"),
        ("router:99999", "Port out of range"),
        ("router:http", "Port could not be cast"),
        ("http://router:1/v1/link", "nothing may follow"),
        ("http://me@router:1", "nothing may follow or precede"),
        ("two words:1", "there is no host"),
        ("a" * 64 + ":1", "between dots a host has 1 to 63 letters"),
        ("a..b:1", "between dots a host has 1 to 63 letters"),
        ("[::1:7000", "Invalid IPv6"),
    ],
)
def test_what_may_not(text: str, why: str) -> None:
    with pytest.raises(SettingsError, match="expected http://host:port, host:port or a name") as error:
        parse_target(text)
    assert why in str(error.value)


def test_an_address_as_a_url() -> None:
    assert Address("10.0.0.1", 80).url == "http://10.0.0.1:80"
    assert str(Address("::1", 80)) == "[::1]:80"


async def test_addresses_need_no_name_server() -> None:
    assert await resolve("127.0.0.1", 5) == [Address("127.0.0.1", 5)]
    assert await resolve("::1", 5) == [Address("::1", 5)]


async def test_a_name_stands_for_all_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def getaddrinfo(host, port, **wanted):
        assert (host, wanted) == ("router", {"family": socket.AF_INET, "type": socket.SOCK_STREAM})
        # Name servers turn the order round, and may name an address twice.
        return [(2, 1, 6, "", (ip, port)) for ip in ["10.0.0.2", "10.0.0.1", "10.0.0.2"]]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    assert await resolve("router", 8080) == [Address("10.0.0.1", 8080), Address("10.0.0.2", 8080)]


class Names:
    """A name server, as a table."""

    def __init__(self, **table: list[str]) -> None:
        self.table = table
        self.asked = 0
        self.asked_often = asyncio.Event()

    async def resolve(self, host: str, port: int) -> list[Address]:
        self.asked += 1
        if self.asked == 3:
            self.asked_often.set()
        if host not in self.table:
            raise socket.gaierror(socket.EAI_AGAIN, "try again")
        return [Address(ip, port) for ip in self.table[host]]


async def test_addresses_come_and_go() -> None:
    names = Names(router=["10.0.0.1"])
    told: list[list[Address]] = []
    discovery = Discovery([Target("router", 1)], told.append, every_s=1.0, resolve=names.resolve)
    await discovery.look_up()
    await discovery.look_up()  # nothing new: nothing told
    names.table["router"] = ["10.0.0.1", "10.0.0.2"]
    await discovery.look_up()
    names.table["router"] = ["10.0.0.2"]
    await discovery.look_up()
    one, two = Address("10.0.0.1", 1), Address("10.0.0.2", 1)
    assert told == [[one], [one, two], [two]]


async def test_a_name_server_that_fails_takes_nothing_away() -> None:
    names = Names(a=["10.0.0.1"], b=["10.0.0.2"])
    told: list[list[Address]] = []
    discovery = Discovery([Target("a", 1), Target("b", 1)], told.append, every_s=1.0, resolve=names.resolve)
    await discovery.look_up()
    del names.table["a"]
    names.table["b"] = []
    await discovery.look_up()
    assert told[-1] == [Address("10.0.0.1", 1)]
    assert discovery.failures == 1


async def test_two_names_for_one_address_are_one_address() -> None:
    names = Names(a=["10.0.0.1"], b=["10.0.0.1"])
    told: list[list[Address]] = []
    discovery = Discovery([Target("a", 1), Target("b", 1)], told.append, every_s=1.0, resolve=names.resolve)
    await discovery.look_up()
    assert told == [[Address("10.0.0.1", 1)]]


async def test_it_looks_up_again_and_again() -> None:
    names, changed = Names(), asyncio.Event()
    discovery = Discovery([Target("late", 1)], lambda _: changed.set(), every_s=0.001, resolve=names.resolve)
    task = asyncio.create_task(discovery.run())
    await asyncio.wait_for(names.asked_often.wait(), 10)
    assert not changed.is_set()
    names.table["late"] = ["10.0.0.9"]
    await asyncio.wait_for(changed.wait(), 10)
    assert discovery.addresses == [Address("10.0.0.9", 1)]
    task.cancel()
    await asyncio.wait([task])


async def test_an_error_of_ours_does_not_end_the_search(caplog: pytest.LogCaptureFixture) -> None:
    names, told = Names(router=["10.0.0.1"]), asyncio.Event()

    def change(addresses: list[Address]) -> None:
        if len(addresses) == 1:
            names.table["router"] = ["10.0.0.1", "10.0.0.2"]
            raise ZeroDivisionError
        told.set()

    discovery = Discovery([Target("router", 1)], change, every_s=0.001, resolve=names.resolve)
    task = asyncio.create_task(discovery.run())
    await asyncio.wait_for(told.wait(), 10)
    task.cancel()
    await asyncio.wait([task])
    assert [record.exc_info is not None for record in caplog.records] == [True]

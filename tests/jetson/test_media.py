"""Images from clients: what may be fetched, from where, and how much of it."""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import Callable
from pathlib import Path
from struct import pack

import pytest

from edgevlm.jetson.config import ServiceConfig
from edgevlm.jetson.errors import ApiError
from edgevlm.jetson.media.addresses import is_public
from edgevlm.jetson.media.collect import Collected, Collector
from edgevlm.jetson.media.fetch import Fetcher, FetchLimits
from edgevlm.jetson.media.probe import count_pixels

from .conftest import data_uri, png

PUBLIC = "93.184.216.34"
PICTURE = png([[[1, 2, 3]] * 4] * 3)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
     "0.0.0.0", "224.0.0.1", "240.0.0.1", "255.255.255.255", "198.18.0.1", "192.0.2.1",
     "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "ff02::1", "2001:db8::1",
     "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
     "2002:7f00:1::", "2002:a00:1::", "::127.0.0.1", "2001:0:7f00:1::", "localhost", ""],
)  # fmt: skip
def test_addresses_inside_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", [PUBLIC, "8.8.8.8", "2606:4700:4700::1111"])
def test_addresses_outside_are_public(address: str) -> None:
    assert is_public(address)


class Web:
    """Names, addresses and servers that do not exist; remembers what was dialled."""

    def __init__(self, names: dict[str, list[list[str]]], answer: Callable[[str], bytes]) -> None:
        self._names = names
        self._answer = answer
        self.dialled: list[tuple[str, int, str | None]] = []
        self.requests: list[str] = []

    async def resolve(self, host: str, port: int) -> list[str]:
        if host not in self._names:
            raise OSError("no such name")
        answers = self._names[host]
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def dial(
        self, address: str, port: int, name: str | None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.dialled.append((address, port, name))

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.requests.append(head)
            writer.write(self._answer(head))
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        return await asyncio.open_connection(*server.sockets[0].getsockname()[:2])

    def fetch(self, url: str, **limits: float) -> bytes:
        values = {"max_bytes": 1000, "timeout_s": 2.0, "redirects": 3, **limits}
        fetcher = Fetcher(FetchLimits(**values), self.resolve, self.dial)  # type: ignore[arg-type]
        return asyncio.run(fetcher.fetch(url, "where"))

    def refusal(self, url: str, **limits: float) -> str:
        with pytest.raises(ApiError) as refused:
            self.fetch(url, **limits)
        assert refused.value.status == 400 and refused.value.param == "where"
        for secret in ("127.0.0.1", "10.0.0.1", "169.254"):
            assert secret not in refused.value.message
        return refused.value.message


def reply(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    head = "\r\n".join([f"HTTP/1.1 {status}", *lines, f"Content-Length: {len(body)}", "", ""])
    return head.encode() + body


def redirect(to: str) -> bytes:
    return reply(b"", "302 Found", Location=to)


def test_the_checked_address_is_dialled_and_the_name_is_asked_for() -> None:
    web = Web({"pictures.example": [[PUBLIC]]}, lambda head: reply(PICTURE))
    assert web.fetch("https://pictures.example/a.png?x=1") == PICTURE
    assert web.dialled == [(PUBLIC, 443, "pictures.example")]
    assert "GET /a.png?x=1 HTTP/1.1\r\nHost: pictures.example\r\n" in web.requests[0]
    assert "Cookie" not in web.requests[0] and "Authorization" not in web.requests[0]


@pytest.mark.parametrize(
    "answers",
    [["127.0.0.1"], ["169.254.169.254"], ["10.0.0.1", PUBLIC], [PUBLIC, "::1"], []],
)
def test_a_host_with_any_inner_address_is_not_dialled(answers: list[str]) -> None:
    web = Web({"a.example": [answers]}, lambda head: reply(PICTURE))
    assert "may not be fetched" in web.refusal("http://a.example/")
    assert web.dialled == []


def test_a_name_that_changes_its_address_gains_nothing() -> None:
    web = Web({"rebind.example": [[PUBLIC], ["127.0.0.1"]]}, lambda head: reply(PICTURE))
    assert web.fetch("http://rebind.example/") == PICTURE
    assert [address for address, _, _ in web.dialled] == [PUBLIC]


@pytest.mark.parametrize(
    "target",
    ["http://inside.example/", "http://127.0.0.1/", "//inside.example/", "file:///etc/passwd",
     "gopher://a.example/", "http://a.example:22/", "http://u:p@a.example/", "http://[::1]/"],
)  # fmt: skip
def test_redirects_are_checked_like_first_requests(target: str) -> None:
    names = {"a.example": [[PUBLIC]], "inside.example": [["10.0.0.1"]], "127.0.0.1":
             [["127.0.0.1"]], "::1": [["::1"]]}  # fmt: skip
    web = Web(names, lambda head: redirect(target))
    web.refusal("http://a.example/")
    assert [address for address, _, _ in web.dialled] == [PUBLIC]


def test_redirects_that_are_fine_are_followed_and_counted() -> None:
    def answer(head: str) -> bytes:
        return reply(PICTURE) if "/last" in head else redirect("/last")

    web = Web({"a.example": [[PUBLIC]]}, answer)
    assert web.fetch("http://a.example/first") == PICTURE
    forever = Web({"a.example": [[PUBLIC]]}, lambda head: redirect("/again"))
    assert "more than 2 redirects" in forever.refusal("http://a.example/", redirects=2)
    assert len(forever.dialled) == 3


@pytest.mark.parametrize(
    "url",
    ["http://", "http://a.example:99999/", "http://a.example:8080/", "http://ä.example/",
     "http://a.example/\r\nX: 1", "http://a.example/a b", "http://u@a.example/", "ftp://a.example/",
     "http://none.example/", "http://[::1", "HTTP://"],
)  # fmt: skip
def test_urls_that_are_not_fetched(url: str) -> None:
    web = Web({"a.example": [[PUBLIC]]}, lambda head: reply(PICTURE))
    web.refusal(url)
    assert web.dialled == []


def test_limits_of_size_time_and_status() -> None:
    big = Web({"a.example": [[PUBLIC]]}, lambda head: reply(b"x" * 1001))
    assert "more than 1000 bytes" in big.refusal("http://a.example/")
    endless = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 5000
    assert "1000 bytes" in Web({"a.example": [[PUBLIC]]}, lambda h: endless).refusal(
        "http://a.example/"
    )
    lost = Web({"a.example": [[PUBLIC]]}, lambda head: reply(b"", "404 Not Found"))
    assert "status 404" in lost.refusal("http://a.example/")
    packed = Web({"a.example": [[PUBLIC]]}, lambda h: reply(b"x", Content_Encoding="gzip"))
    assert "compressed" in packed.refusal("http://a.example/")
    nonsense = Web({"a.example": [[PUBLIC]]}, lambda head: b"SSH-2.0-x\r\n\r\n")
    assert "cannot be reached" in nonsense.refusal("http://a.example/")

    class Slow(Web):
        async def resolve(self, host: str, port: int) -> list[str]:
            await asyncio.sleep(5)
            return [PUBLIC]

    slow = Slow({}, lambda head: b"")
    assert "within 0.05 s" in slow.refusal("http://a.example/", timeout_s=0.05)


def test_https_verifies_by_default() -> None:
    context = ssl.create_default_context()
    assert context.verify_mode == ssl.CERT_REQUIRED and context.check_hostname


def collect(urls: list[str], fetcher: Fetcher | None = None, **settings: object) -> Collected:
    config = ServiceConfig(Path("engine"), **settings)  # type: ignore[arg-type]
    places = {f"at[{i}]": url for i, url in enumerate(urls)}
    return asyncio.run(Collector(config, fetcher).collect(places))


def test_files_are_read_from_the_allowed_folder_only(tmp_path: Path) -> None:
    folder, secret = tmp_path / "pictures", tmp_path / "secret.png"
    folder.mkdir()
    secret.write_bytes(PICTURE)
    (folder / "a b.png").write_bytes(PICTURE)
    (folder / "link.png").symlink_to(secret)
    (folder / "sub").mkdir()
    good = f"file://{folder}/a%20b.png"
    assert collect([good], media_folder=folder).images == {"at[0]": PICTURE}
    for url in (
        f"file://{secret}",
        f"file://{folder}/../secret.png",
        f"file://{folder}/%2e%2e/secret.png",
        f"file://{folder}/link.png",
        f"file://{folder}/sub",
        f"file://{folder}/none.png",
        f"file://elsewhere{folder}/a%20b.png",
        "file:///dev/zero",
        "file:///etc/passwd%00.png",
    ):
        with pytest.raises(ApiError, match="no such file in the folder"):
            collect([url], media_folder=folder)
    with pytest.raises(ApiError, match="not accepted"):
        collect([good])
    with pytest.raises(ApiError, match="bytes"):
        collect([good], media_folder=folder, max_image_mb=1e-6)


def test_urls_are_fetched_only_where_that_is_switched_on() -> None:
    with pytest.raises(ApiError, match="does not fetch URLs") as refused:
        collect(["http://a.example/x.png"])
    assert refused.value.param == "at[0]"
    web = Web({"a.example": [[PUBLIC]]}, lambda head: reply(PICTURE))
    fetcher = Fetcher(FetchLimits(1000, 2.0, 0), web.resolve, web.dial)
    found = collect(["http://a.example/x.png", data_uri(PICTURE)], fetcher)
    assert found == Collected({"at[0]": PICTURE, "at[1]": PICTURE}, 24)


def bomb(width: int, height: int) -> bytes:
    """A PNG whose header promises pixels that its 60 bytes do not hold."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = pack(">I", zlib.crc32(kind + data))
        return pack(">I", len(data)) + kind + data + checksum

    header = pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + body


@pytest.mark.parametrize(("width", "height"), [(8000, 8000), (14000, 14000), (2**31 - 1, 2)])
def test_bombs_are_refused_from_their_header(width: int, height: int) -> None:
    with pytest.raises(ApiError, match=r"pixels") as refused:
        count_pixels(bomb(width, height), 50_000_000, "here")
    assert refused.value.status == 400 and refused.value.param == "here"


@pytest.mark.parametrize("data", [b"", b"hello", b"\x89PNG\r\n\x1a\n", PICTURE[:20]])
def test_what_is_no_image_is_a_named_400(data: bytes) -> None:
    with pytest.raises(ApiError, match="here: ") as refused:
        count_pixels(data, 1000, "here")
    assert refused.value.status == 400


def test_limits_of_count_and_of_all_pixels_together() -> None:
    one = data_uri(PICTURE)
    with pytest.raises(ApiError, match="3 images; at most 2"):
        collect([one] * 3, max_images=2)
    with pytest.raises(ApiError, match="24 pixels together; at most 20"):
        collect([one] * 2, max_request_megapixels=20e-6)
    for url in ("data:image/png,xyz", "data:image/png;base64,%%%", "data:"):
        with pytest.raises(ApiError, match="base64"):
            collect([url])

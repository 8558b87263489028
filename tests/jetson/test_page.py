"""The playground: one file, nothing from elsewhere. How it behaves is for ``make browser``."""

from __future__ import annotations

import re

import httpx

from .live import LiveService


def test_the_page_needs_nothing_else(scripted: LiveService) -> None:
    response = httpx.get(scripted.url)
    assert response.status_code == 200
    page = response.text
    links = re.findall(r"""(?:src|href)=["']([^"']*)["']|url\(([^)]*)\)|@import""", page)
    assert [link for pair in links for link in pair if link] == ["data:,"]
    assert not re.search(r"https?://", page)
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy
    assert 'name="viewport"' in page

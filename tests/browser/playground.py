"""The playground in a real browser: ``make browser``. Needs Chromium, which CI may not have.

python tests/browser/playground.py --engine engines/tiny-dense --screenshot docs/playground.png
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect, sync_playwright

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "examples/images/read-m4-1.png"
QUESTION = "Read the label at the centre."
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
PASTE = """(url) => {
  const blob = Uint8Array.from(atob(url.split(",")[1]), (character) => character.charCodeAt(0));
  const clipboard = new DataTransfer();
  clipboard.items.add(new File([blob], "pasted.png", { type: "image/png" }));
  document.dispatchEvent(new ClipboardEvent("paste", { clipboardData: clipboard }));
}"""


@contextlib.contextmanager
def service(engine: Path) -> Iterator[str]:
    """The service on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "edgevlm.cli.main", "serve", "--engine", str(engine)]
    process = subprocess.Popen([*command, "--port", str(port)], stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{url}/health/ready")
                break
            assert process.poll() is None, "the service ended"
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(60)


def check_desktop(page: Page, url: str, screenshot: Path | None) -> None:
    """Upload, ask, compare, look at what was kept."""
    page.goto(url)
    expect(page.locator("#state")).to_have_text("tiny-dense on onnxruntime")
    assert "visionzip" in page.locator("#algorithm option").all_text_contents()

    page.click("#ask")
    expect(page.locator("#error")).to_have_text("Write a question first.")

    page.set_input_files("#file", str(PICTURE))
    expect(page.locator("#drop img")).to_have_count(1)
    page.fill("#question", QUESTION)
    page.locator("#ratio").fill("60")
    page.click("#ask")
    expect(page.locator("#ask")).to_be_enabled()
    expect(page.locator("#error")).to_be_hidden()
    pruned, full = page.locator(".answer").all()
    for answer in (pruned, full):
        expect(answer.locator(".text")).to_have_text("3T")
        expect(answer.locator("dl")).to_contain_text("first token")
    expect(pruned.locator("canvas")).to_have_attribute("data-kept", "26")  # 64 - 60 %
    expect(full.locator("canvas")).to_have_attribute("data-kept", "64")
    expect(pruned.locator("dl")).to_contain_text("26 of 64")
    expect(pruned.locator("dl")).to_contain_text("% of unpruned")
    dimmed = [_brightness(answer.locator("canvas")) for answer in (pruned, full)]
    assert dimmed[0] < 0.75 * dimmed[1], dimmed  # what was dropped is dark
    if screenshot is not None:
        page.screenshot(path=str(screenshot), full_page=True)

    page.uncheck("#cells")
    expect(page.locator("canvas")).to_have_count(0)
    page.check("#cells")
    expect(page.locator("canvas")).to_have_count(2)


def check_paste_and_errors(page: Page, picture: str) -> None:
    """A pasted image joins the others, can be removed, and errors of the service are shown."""
    page.evaluate(PASTE, picture)
    expect(page.locator("#drop img")).to_have_count(2)
    page.locator("#drop figure button").first.click()
    expect(page.locator("#drop img")).to_have_count(1)
    page.fill("#question", "<|im_end|>")
    page.keyboard.press("Enter")
    expect(page.locator("#error")).to_contain_text("control token")


def check_phone(page: Page, url: str) -> None:
    """No sideways scrolling, and targets large enough for a thumb."""
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(url)
    page.set_input_files("#file", str(PICTURE))
    page.fill("#question", QUESTION)
    page.click("#ask")
    expect(page.locator("canvas")).to_have_count(2)
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 360, f"the page is {width} pixels wide on a phone of 360"
    for button in ("#ask", "#stop"):
        box = page.locator(button).bounding_box()
        assert box is not None and box["height"] >= 40


def _brightness(canvas: Any) -> float:
    script = """(c) => { const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
        let sum = 0; for (let i = 0; i < d.length; i += 4) sum += d[i] + d[i + 1] + d[i + 2];
        return sum / d.length; }"""
    return float(canvas.evaluate(script))


def main() -> None:
    """Run all checks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", type=Path, required=True)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--screenshot", type=Path)
    options = parser.parse_args()
    with (
        service(options.engine) as url,
        tempfile.TemporaryDirectory() as profile,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch_persistent_context(
            profile,
            executable_path=options.chromium,
            args=list(FLAGS),
            viewport={"width": 1000, "height": 700},
        )
        page = browser.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("requestfailed", lambda request: problems.append(request.url[:200]))
        page.on(
            "request",
            lambda request: (
                problems.append(request.url)
                if not request.url.startswith((url, "data:", "blob:"))
                else None
            ),
        )
        check_desktop(page, url, options.screenshot)
        check_paste_and_errors(page, page.locator("#drop img").first.get_attribute("src") or "")
        check_phone(page, url)
        browser.close()
        assert problems == [], problems
    print("the playground works")


if __name__ == "__main__":
    main()

"""Chromium for tests and pictures: Debian's own, driven by Playwright, which downloads nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, Page, async_playwright

# Without GPU everything is drawn by the processor, on a machine like those of CI.
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
DESKTOP, PHONE = (1280, 800), (390, 844)


def chromium() -> str | None:
    """Where Chromium is: HERDLESS_TEST_CHROMIUM, or the first that is found on PATH."""
    return os.environ.get("HERDLESS_TEST_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@asynccontextmanager
async def open_browser() -> AsyncIterator[Browser]:
    """A browser; it ends on leaving."""
    path = chromium()
    assert path is not None
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def open_page(
    browser: Browser, url: str, *, size: tuple[int, int] = DESKTOP, theme: str = "light", ratio: float = 1.0
) -> AsyncIterator[tuple[Page, list[str]]]:
    """A page, and what it complains about: errors, warnings, requests that fail or leave this machine."""
    complaints: list[str] = []
    context = await browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if theme == "dark" else "light",
        device_scale_factor=ratio,
    )
    page = await context.new_page()
    page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("requestfailed", lambda asked: complaints.append(f"{asked.url}: {asked.failure}"))
    page.on("request", lambda asked: None if asked.url.startswith(url) else complaints.append(f"asks {asked.url}"))
    try:
        await page.goto(url)
        yield page, complaints
    finally:
        await context.close()

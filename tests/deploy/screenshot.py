"""Makes docs/images/console.png: a cluster of its own, seen for a while, with a switch of policy on the way.

make screenshot
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from tests.deploy.browser import chromium, open_browser, open_page

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "images" / "console.png"
SIZE = (1280, 800)
EACH_S = 45
# Jobs come at 400 a second, so that the machine has time to draw.
COMMAND = ("up", "pull", "--json", "--set", "time_unit_s=0.3")


async def main() -> None:
    """Start, look, switch, look, take the picture."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.cli", *COMMAND, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        url = json.loads(await process.stdout.readline())["console"]
        async with open_browser() as browser, open_page(browser, url, size=SIZE, ratio=1.5) as (page, complaints):
            await asyncio.sleep(EACH_S)
            await page.select_option("#policy-name", "power_of_d")
            await page.click("#policy-switch")
            await asyncio.sleep(EACH_S)
            await page.evaluate("document.activeElement.blur()")
            PICTURE.parent.mkdir(exist_ok=True)
            await page.screenshot(path=PICTURE, full_page=True)
            if complaints:
                raise SystemExit(f"the page complains: {complaints}")
    finally:
        process.terminate()
        await process.wait()


if __name__ == "__main__":
    if chromium() is None:
        raise SystemExit("screenshot: no chromium on PATH: apt-get install chromium")
    asyncio.run(main())

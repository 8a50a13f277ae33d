"""A real browser for the tests, if there is one."""

import shutil
import subprocess
from pathlib import Path

BINARY = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)

# No name resolves, so whatever a page asks the network for fails and is logged.
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--enable-logging=stderr",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--virtual-time-budget=2000",
)


def chromium(page: Path, *flags: str, profile: Path) -> tuple[str, list[str]]:
    """Open a page; its standard output and what it said on its console."""
    command = [str(BINARY), *FLAGS, f"--user-data-dir={profile}", *flags, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def probed(page: Path, script: str, *, profile: Path) -> tuple[str, list[str]]:
    """What a script appended to a copy of the page finds once it is loaded, and the console."""
    copy = page.with_name(f"probe-{page.name}")
    text = page.read_text(encoding="utf-8")
    late = f'<script>addEventListener("load", () => {{ document.title = String({script}) }})</script>'
    copy.write_text(text.replace("</body>", f"{late}</body>"), encoding="utf-8")
    dom, console = chromium(copy, "--dump-dom", profile=profile)
    return dom.split("<title>")[1].split("</title>")[0], console

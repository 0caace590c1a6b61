"""A real browser without a screen, and what a reader does with a report in it."""

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PACKAGES = ("chromium", "chromium-driver")  # Debian's names
COLLECT = """window.failures = [];
for (const kind of ['error', 'unhandledrejection']) {
  addEventListener(kind, (event) => failures.push(event.message ?? String(event.reason)));
}"""
CHART = """
const node = document.querySelector(`.panel[data-name="${arguments[0]}"] [data-chart="${arguments[1]}"]`);
const lengths = (selector) => Object.fromEntries([...node.querySelectorAll(selector)].map((part) => [
  part.dataset.name ?? part.parentNode.dataset.name, (part.getAttribute("d").match(/[ML]/g) ?? []).length,
]));
return {
  series: Object.fromEntries(node.spec.series.map((one) => [one.name, {x: one.x, y: one.y, text: one.text, look: one.look}])),
  lines: lengths(".line"),
  bands: lengths(".band"),
  marks: node.querySelectorAll(".mark").length,
  levels: [...node.querySelectorAll(".levels text")].map((one) => one.textContent),
  ticks: [...node.querySelectorAll(".axes text")].map((one) => one.textContent),
  xtitle: node.spec.x.title,
  message: node.querySelector(".message")?.textContent ?? "",
  view: node.parts.view,
  label: node.querySelector("svg").getAttribute("aria-label"),
  size: [node.clientWidth, node.querySelector("svg").clientWidth],
  tip: node.querySelector(".tip")?.innerText ?? "",
};
"""


def installed_browser() -> tuple[str, str]:
    """Chromium and its driver, installed from the system's packages where missing; a clear failure if there is none."""
    with (Path(tempfile.gettempdir()) / "fedualex-install-browser.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests may run in several processes, apt in one only
        if not (shutil.which("chromium") and shutil.which("chromedriver")):
            install("apt-get", "update")
            install("apt-get", "install", "-y", "--no-install-recommends", *PACKAGES)
    found = shutil.which("chromium"), shutil.which("chromedriver")
    if not all(found):
        pytest.fail(
            f"no browser: {' and '.join(PACKAGES)} are installed, but chromium and chromedriver are not on PATH"
        )
    return str(found[0]), str(found[1])


def install(*command: str) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=600, env=environment)
    except (OSError, subprocess.SubprocessError) as error:
        said = str(getattr(error, "stderr", None) or "")[-2000:]
        pytest.fail(f"no browser: chromium or chromedriver is missing, and installing it failed: {error}\n{said}")


class Page:
    """The page in the browser, and what a reader does with it."""

    def __init__(self, driver: Any):
        self.driver = driver
        self.opened: list[str] = []

    def open(self, file: Path, width: int = 1400, theme: str = "light") -> None:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        media = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        self.opened.append(file.as_uri())
        self.driver.get(file.as_uri())

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def find(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def texts(self, selector: str) -> list[str]:
        return [found.text for found in self.driver.find_elements("css selector", selector)]

    def control(self, panel: str, name: str, value: str | None = None) -> Any:
        return self.find(
            f'.panel[data-name="{panel}"] [data-control="{name}"]' + (f'[value="{value}"]' if value else "")
        )

    def choose(self, panel: str, name: str, value: str) -> None:
        from selenium.webdriver.support.ui import Select

        Select(self.control(panel, name)).select_by_value(value)

    def toggle(self, panel: str, method: str) -> None:
        self.control(panel, "method", method).click()

    def chart(self, panel: str, chart: str) -> dict[str, Any]:
        """What a chart was asked to draw, and what is really drawn: vertices of lines and bands, marks, texts."""
        return self.run(CHART, panel, chart)

    def picture(self, panel: str, chart: str) -> Any:
        return self.find(f'.panel[data-name="{panel}"] [data-chart="{chart}"] > svg')

    def column(self, panel: str, part: str, i: int) -> list[str]:
        return self.texts(f'.panel[data-name="{panel}"] .{part} tbody td:nth-child({i})')

    def color(self, selector: str, name: str = "color") -> tuple[int, ...]:
        text = self.run("return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]", selector, name)
        return tuple(int(part) for part in text[text.index("(") + 1 : -1].split(",")[:3])


@contextmanager
def started_browser() -> Iterator[Page]:
    """Chromium without a screen and without a network."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    binary, driver_path = installed_browser()
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    # The rules leave the browser no host but this machine, whatever it may want to look up by itself.
    arguments = ["--headless=new", "--disable-background-networking", "--disable-component-update", "--no-first-run"]
    for argument in (*arguments, "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"):
        options.add_argument(argument)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with webdriver.Chrome(options=options, service=Service(driver_path)) as driver:
        yield Page(driver)


@contextmanager
def watched(browser: Page) -> Iterator[Page]:
    """What is opened here raises no error, writes nothing to the console, and asks for nothing but its own file."""
    browser.driver.get_log("browser")
    browser.driver.get_log("performance")
    script = browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": COLLECT})
    browser.opened.clear()
    yield browser
    assert browser.run("return window.failures") == []
    assert browser.driver.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.driver.get_log("performance")]
    requests = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    assert requests == browser.opened
    browser.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)

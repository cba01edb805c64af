"""The dashboard in a real browser (Debian: chromium and chromium-driver)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service as Driver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from adapters.serving.api import create_app
from adapters.serving.auth import ApiSettings
from adapters.serving.server import ApiServer
from autoscaler.domain.demand import Demand
from autoscaler.domain.judgement import JudgedReplica, Judgement
from autoscaler.domain.plan import ServiceDecision
from autoscaler.domain.service import Service, ServiceId

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]
Decide = Callable[..., ServiceDecision]
Run = Callable[..., list[ServiceDecision]]

# Text whose contrast with what lies behind it is below WCAG 2.1 AA (1.4.3), with the ratio.
POOR_CONTRAST = """
const channel = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const colour = (text) => { const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number); return [r, g, b, a]; };
const behind = (e) => { for (; e; e = e.parentElement) { const c = colour(getComputedStyle(e).backgroundColor);
  if (c[3] === 1) return c; } return [255, 255, 255]; };
return [...document.querySelectorAll("body *")].filter((e) => e.checkVisibility() && !e.closest("svg") &&
    [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())).map((e) => {
  const style = getComputedStyle(e), [a, b] = [light(colour(style.color)), light(behind(e))].sort((x, y) => y - x);
  const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
  return [e.textContent.trim().slice(0, 30), (a + 0.05) / (b + 0.05), large ? 3 : 4.5];
}).filter(([, ratio, least]) => ratio < least);
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("needs chromium and chromedriver on the PATH")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    running = webdriver.Chrome(options=options, service=Driver(driver))
    yield running
    running.quit()


class Page:
    """What a person sees."""

    def __init__(self, browser: webdriver.Chrome) -> None:
        self.browser = browser
        self.look(width=1440, scheme="light")

    def look(self, *, width: int, scheme: str, zone: str = "UTC") -> None:
        command = self.browser.execute_cdp_cmd
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        command("Emulation.setDeviceMetricsOverride", size)
        command("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        command("Emulation.setTimezoneOverride", {"timezoneId": zone})

    def open(self, url: str) -> None:
        self.browser.get("about:blank")
        self.browser.get(url)
        self.until(lambda: self.text("#name") and self.count(".chart .main-svg") >= 4 and self.text("#stages"))

    def until(self, met: Callable[[], Any]) -> None:
        WebDriverWait(self.browser, 60, poll_frequency=0.1).until(lambda _: met())

    def text(self, css: str) -> str:
        found = self.browser.execute_script(
            "return [...document.querySelectorAll(arguments[0])].map((e) => e.innerText).join(' | ')", css
        )
        return str(found)

    def count(self, css: str) -> int:
        return len(self.browser.find_elements(By.CSS_SELECTOR, css))

    def click(self, css: str) -> None:
        self.browser.execute_script("document.querySelector(arguments[0]).click()", css)

    def run(self, script: str) -> Any:
        return self.browser.execute_script(script)

    def complaints(self) -> list[str]:
        """Errors of the page since last asked, refused content included."""
        driver: Any = self.browser  # selenium leaves get_log without types
        return [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]


@pytest.fixture
def page(browser: webdriver.Chrome) -> Page:
    opened = Page(browser)
    opened.complaints()
    return opened


def publish(served: Any, run: Sequence[ServiceDecision]) -> None:
    for made in run:
        served.board.publish(made)
    served.clock.at_s = max(made.at_s for made in run)


@pytest.fixture
def busy(served: Any, run_of: Run) -> Any:
    """An API whose one service has had a half hour."""
    publish(served, run_of())
    return served


def test_it_shows_a_service_and_why(page: Page, busy: Any) -> None:
    page.open(busy.server.url)
    assert page.text("#name") == "chat-8b"
    assert page.text("#condition") == "steady"
    assert page.text("#slo") == "SLO: 99 % of requests, first token within 2 s, 80 ms between tokens"
    assert page.text("#tiles dt") == "Demand | Forecast, in 75 s | Replicas ready | Requests in SLO | Cost"
    stages = "Measure | Forecast | Capacity | Size | Stabilize | Limit | Place | Plan"
    assert page.text("#stages th") == stages
    assert page.count("#stages .binds") == 1
    assert "No change is needed" in page.text("#stages .binds")
    assert page.count("#changes li") == 12
    assert page.complaints() == []


def test_nothing_comes_from_elsewhere(page: Page, busy: Any) -> None:
    page.open(busy.server.url)
    names = page.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert len(names) > 5
    assert [name for name in names if not name.startswith(busy.server.url)] == []


def test_an_unknown_demand_is_called_unknown(page: Page, served: Any, run_of: Run) -> None:
    publish(served, run_of(minutes=21.5))
    page.open(served.server.url)
    assert page.text("#condition") == "holding"
    assert page.text("#verdict").startswith("Held at 5 replicas: demand is unknown.")
    values = page.text("#tiles dd:not(.sub)").split(" | ")
    assert [values[0], values[3]] == ["unknown", "unknown"]
    assert "no answer within 2.0 s" in page.text("#tiles .sub")
    assert page.text("#stages .outcome th") == "Hold"
    drawn = page.run("return document.getElementById('chart-demand').data.find((t) => t.name === 'measured').y.at(-1)")
    assert drawn is None


def test_a_new_decision_appears_by_itself(page: Page, busy: Any, decision: Decide) -> None:
    page.open(busy.server.url)
    busy.clock.at_s += 5
    busy.board.publish(decision(at_s=busy.clock.at_s, rps=21.0, high_rps=20.0, need=7, before=2))
    page.until(lambda: page.text("#condition") == "growing")
    page.until(lambda: "21.0" in page.text("#tiles") and "2 → 7" in page.text("#changes li:first-child"))
    assert page.text("#verdict").startswith("Asks for 7 replicas: measured load.")


def test_a_controller_that_stopped_is_seen(page: Page, busy: Any) -> None:
    page.open(busy.server.url)
    assert not page.text("#banner")
    busy.clock.at_s += 60
    page.until(lambda: "has decided nothing since" in page.text("#banner"))
    page.until(lambda: page.text("#condition") == "out of date")
    assert page.text("#verdict").startswith("Last asked for 2 replicas")


def test_a_replica_that_follows_says_which_one_decides(page: Page, busy: Any) -> None:
    page.open(busy.server.url)
    busy.board.leave_to("scaler-1")
    page.until(lambda: page.text("#banner").startswith("Replica scaler-1 of the controller decides"))
    busy.clock.at_s += 60
    busy.board.leave_to(None)
    page.until(lambda: "has decided nothing since" in page.text("#banner"))


def test_a_lost_connection_is_said_and_mended(page: Page, busy: Any, decision: Decide) -> None:
    page.open(busy.server.url)
    settings = ApiSettings(port=busy.server.port)
    busy.server.stop()
    page.until(lambda: "connection to the controller is lost" in page.text("#banner"))
    assert page.text("#link") == "Not connected"
    busy.clock.at_s += 5
    busy.board.publish(decision(at_s=busy.clock.at_s, rps=31.0, need=8, before=8))
    api = create_app(board=busy.board, history=busy.board, settings=settings, now_s=busy.clock, version="1.2.3")
    again = ApiServer(api, settings)
    again.start()
    try:
        page.until(lambda: not page.text("#banner") and "31.0" in page.text("#tiles"))
    finally:
        again.stop()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 390, 768, 1100, 1440])
def test_it_fits_and_is_readable(*, page: Page, served: Any, run_of: Run, width: int, scheme: str) -> None:
    publish(served, run_of(minutes=21.5))
    page.look(width=width, scheme=scheme)
    page.open(served.server.url)
    page.until(lambda: page.count("#changes li") > 5)
    assert page.run("return document.documentElement.scrollWidth") <= width
    assert page.run(POOR_CONTRAST) == []


def test_times_are_the_viewers(page: Page, busy: Any) -> None:
    page.look(width=1440, scheme="light", zone="Asia/Tokyo")
    page.open(busy.server.url)
    shown = page.run(
        "return new Date(arguments[0] * 1000).toTimeString().slice(0, 8)".replace("arguments[0]", str(busy.clock.at_s))
    )
    assert page.text("#why-when").endswith(shown)
    last = page.run("return document.getElementById('chart-demand').data.find((t) => t.name === 'measured').x.at(-1)")
    assert last[11:19] == shown


class Recorded:
    """A history in memory."""

    def __init__(self, kept: Sequence[ServiceDecision]) -> None:
        self.kept = kept

    def decisions(self, service: ServiceId, since_s: float, until_s: float, limit: int) -> Sequence[ServiceDecision]:
        return [one for one in self.kept if one.service == service and since_s <= one.at_s <= until_s][-limit:]


def test_a_past_moment_is_explained(
    *, page: Page, serve: Callable[..., Any], service: Callable[..., Service], run_of: Run
) -> None:
    run = run_of()
    with serve(services=(service(),), history=Recorded(run)) as running:
        publish(running, run)
        page.open(running.server.url)
        page.until(lambda: "held at 5" in page.text("#changes"))
        page.run(
            "[...document.querySelectorAll('#changes button')].find((b) => b.innerText.includes('held at 5')).click()"
        )
        page.until(lambda: page.text("#why-when").startswith("as it was at"))
        assert page.text("#stages .outcome th") == "Hold"
        page.click("#why-now")
        page.until(lambda: page.text("#stages .outcome th") == "Plan")


def test_a_thousand_services_are_searched_not_drawn(
    *, page: Page, serve: Callable[..., Any], service: Callable[..., Service], decision: Decide
) -> None:
    names = [f"model-{number}" for number in range(1000)]
    with serve(services=tuple(service(name) for name in names)) as running:
        at_s = running.clock.at_s
        publish(running, [decision(name, at_s=at_s, blind=name == "model-640") for name in names])
        page.open(running.server.url)
        page.until(lambda: page.count("#list li") == 200)
        assert page.text("#list li:first-child b") == "model-640"
        assert page.text("#more") == "800 more: search to narrow."
        assert page.count(".chart") == 4
        page.browser.find_element(By.ID, "search").send_keys("model-77")
        page.until(lambda: page.count("#list li") == 11)
        page.click("#list li:nth-child(2) a")
        page.until(lambda: page.text("#name") == "model-770")
        page.browser.find_element(By.ID, "search").send_keys(Keys.CONTROL, "a")
        page.browser.find_element(By.ID, "search").send_keys("nothing")
        page.until(lambda: page.text("#more") == "No service of that name.")


def test_a_service_that_leaves_the_configuration_leaves_the_page(
    *, page: Page, serve: Callable[..., Any], service: Callable[..., Service], decision: Decide
) -> None:
    with serve(services=(service("a"), service("b"))) as running:
        publish(running, [decision(name, at_s=running.clock.at_s) for name in ("a", "b")])
        page.open(running.server.url + "#/b")
        page.until(lambda: page.text("#name") == "b")
        running.board.configure(services=(service("a"),), stale_after_s=15.0)
        page.until(lambda: page.text("#name") == "a" and page.count("#list li") == 1)


def test_the_token_opens_the_page_and_leaves_the_address(
    *, page: Page, serve: Callable[..., Any], service: Callable[..., Service], run_of: Run
) -> None:
    token = "a-token-of-some-length"
    with serve(services=(service(),), settings=ApiSettings(token=token)) as running:
        publish(running, run_of(minutes=5))
        page.browser.get(running.server.url)
        assert page.count("input[name=token]") == 1
        assert page.run(POOR_CONTRAST) == []
        page.open(f"{running.server.url}?token={token}")
        assert page.browser.current_url == running.server.url
        page.browser.delete_all_cookies()
        page.browser.get(running.server.url)
        page.browser.find_element(By.NAME, "token").send_keys(token, Keys.ENTER)
        page.until(lambda: page.text("#name") == "chat-8b")


def test_a_failed_replica_and_a_missed_slo_are_marked(page: Page, served: Any, decision: Decide) -> None:
    at_s = served.clock.at_s
    served.board.publish(replace(decision(at_s=at_s, attained=0.97), failed=2))
    page.open(served.server.url)
    assert "2 failed" in page.text("#tiles")
    assert page.text("#tiles [data-tone=bad] dt") == "Replicas ready | Requests in SLO"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_replicas_that_are_not_well_are_named_with_what_they_are_judged_by(
    page: Page, served: Any, decision: Decide, scheme: str
) -> None:
    well = decision(at_s=served.clock.at_s, rps=8.0, high_rps=8.0, need=3, before=3)
    assert isinstance(well.demand, Demand)
    judged = (
        JudgedReplica(replica="chat-8b-1", judgement=Judgement.STUCK, detail="no progress with 4 requests in it"),
        JudgedReplica(replica="chat-8b-2", judgement=Judgement.ASLEEP),
    )
    page.look(width=1440, scheme=scheme)
    served.board.publish(well)
    page.open(served.server.url)
    assert page.run("return document.getElementById('unwell').checkVisibility()") is False
    served.clock.at_s += 5
    served.board.publish(replace(well, at_s=served.clock.at_s, demand=replace(well.demand, judgements=judged)))
    page.until(lambda: page.count("#judgements li") == 2)
    told = page.text("#judgements li").split(" | ")
    for said, words in zip(told, (("chat-8b-1", "stuck", "o progress with 4"), ("chat-8b-2", "asleep")), strict=True):
        assert all(word in said for word in words)
    assert page.run(POOR_CONTRAST) == []

"""A real Chromium for the tests of the page, without the sandbox and without anything from outside."""
import contextlib
import shutil

import pytest

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
except ImportError:
    webdriver = None

import harness

DRIVER, CHROMIUM = shutil.which("chromedriver"), shutil.which("chromium")


def missing():
    """Why there can be no browser; empty when there can."""
    if webdriver is None:
        return "python3-selenium is not installed"
    return "" if DRIVER and CHROMIUM else "chromium or chromium-driver is not installed"


class Browser:
    """selenium with the few questions that the tests ask."""

    def __init__(self, width=1400, height=900):
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--enable-precise-memory-info", "--disable-background-networking", "--no-first-run",
                     "--ignore-certificate-errors", "--js-flags=--expose-gc", f"--window-size={width},{height}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=Service(DRIVER), options=options)
        self.driver.set_script_timeout(120)

    def open(self, url):
        """A fresh page: changing only what is behind # would keep the old one."""
        self.driver.get("about:blank")
        self.driver.get(url)

    def js(self, script, *args):
        return self.driver.execute_script(script, *args)

    def wait_js(self, script, *args, timeout=60, what=None):
        """The first true value of a script."""
        return harness.wait(lambda: self.js(script, *args), what or script, timeout)

    def text(self, selector="main"):
        return self.js("return [...document.querySelectorAll(arguments[0])].map((n) => n.innerText).join('\\n')", selector)

    def wait_text(self, text, selector="main", timeout=60):
        return harness.wait(lambda: text in self.text(selector), f"{text!r} in {selector}", timeout)

    def click(self, text, selector="button, a"):
        """Clicks the element whose text is this."""
        self.wait_js("const n = [...document.querySelectorAll(arguments[0])].find((n) => n.textContent.trim() === arguments[1] &&"
                     " !n.disabled); if (n) n.click(); return !!n", selector, text, what=f"a {selector} {text!r}")

    def keys(self, *keys):
        from selenium.webdriver.common.action_chains import ActionChains
        chain = ActionChains(self.driver)
        for key in keys:
            chain.send_keys(key)
        chain.perform()

    def emulate(self, width=None, height=None, dark=None):
        if width:
            self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
                "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700})
        else:
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        features = [] if dark is None else [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def cpu_ms(self):
        """Processor time of the page's main thread so far."""
        self.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        metrics = self.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return 1000 * next(m["value"] for m in metrics if m["name"] == "TaskDuration")

    def complaints(self):
        """What the browser logged since the last call: errors, refused content. Failed requests are not errors of ours."""
        return [e["message"] for e in self.driver.get_log("browser")
                if e["level"] == "SEVERE" and "Failed to load resource" not in e["message"]]

    def forget(self):
        """Signs out of everything."""
        self.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})

    def close(self):
        with contextlib.suppress(Exception):
            self.driver.quit()


@pytest.fixture(scope="module")
def browser():
    if missing():
        pytest.skip(missing())
    running = Browser()
    yield running
    running.close()

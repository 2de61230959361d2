// Opens a page of a file in Debian's Chromium, and says as JSON what came of it.
//
//     node browser.mjs FILE [--shot PATH] [--width N] [--dark] [--open HASH] [--measure] [--axe]
//
// playwright-core and axe-core are found by NODE_PATH, Chromium by HPCTEST_CHROMIUM.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { resolve } from "node:path";

const require = createRequire(import.meta.url);
const load = (name) => require(require.resolve(name, { paths: (process.env.NODE_PATH ?? "").split(":") }));
const { chromium } = load("playwright-core");
const [file, ...flags] = process.argv.slice(2);
const has = (name) => flags.includes(`--${name}`);
const given = (name, otherwise) => (has(name) ? flags[flags.indexOf(`--${name}`) + 1] : otherwise);

const browser = await chromium.launch({
  executablePath: process.env.HPCTEST_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--enable-precise-memory-info", "--js-flags=--expose-gc"],
});
const width = Number(given("width", 1280));
const context = await browser.newContext({
  viewport: { width, height: width < 600 ? 844 : 900 },
  colorScheme: has("dark") ? "dark" : "light",
  deviceScaleFactor: width < 600 ? 2 : 1,
});
const page = await context.newPage();
const requests = [], problems = [];
page.on("request", (request) => requests.push(request.url()));
page.on("console", (message) => { if (["error", "warning"].includes(message.type())) problems.push(message.text()); });
page.on("pageerror", (error) => problems.push(String(error.stack ?? error)));
page.on("dialog", (dialog) => { problems.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });

const url = pathToFileURL(resolve(file)).href + (has("open") ? `#${given("open")}` : "");
const begun = Date.now();
await page.goto(url, { waitUntil: "load", timeout: 120_000 });
await page.waitForSelector("html[data-ready], html:not([data-waits])", { timeout: 60_000 });
const found = { requests, problems, loaded_ms: Date.now() - begun };

if (has("measure")) {
  found.paint_ms = await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(() =>
    done(performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null), 50))));
  found.interactive_ms = await page.evaluate(() => performance.getEntriesByType("navigation")[0].domInteractive);
  const session = await context.newCDPSession(page);
  await session.send("HeapProfiler.collectGarbage");
  found.heap_mb = (await session.send("Runtime.getHeapUsage")).usedSize / 2 ** 20;
  await session.send("Performance.enable");
  const metrics = Object.fromEntries((await session.send("Performance.getMetrics")).metrics.map((m) => [m.name, m.value]));
  found.nodes = metrics.Nodes;
  // Frames while the table of ideas is scrolled from end to end.
  found.scroll_frame_ms = await page.evaluate(async () => {
    const place = document.querySelector(".scroll.tall");
    if (!place) return null;
    place.scrollIntoView();
    const took = [];
    let before = performance.now();
    for (let i = 1; i <= 60; i += 1) {
      place.scrollTop = (place.scrollHeight * i) / 60;
      await new Promise(requestAnimationFrame);
      took.push(performance.now() - before);
      before = performance.now();
    }
    return took.sort((a, b) => a - b)[Math.floor(took.length * 0.95)];
  });
}
if (has("walk")) {  // so that everything that is drawn when it is seen is drawn
  await page.evaluate(async () => {
    for (const section of document.querySelectorAll("section.view")) {
      section.scrollIntoView();
      await new Promise((done) => setTimeout(done, 60));
    }
    scrollTo(0, 0);
    await new Promise((done) => setTimeout(done, 120));
  });
}
if (has("script")) found.script = await page.evaluate(readFileSync(given("script"), "utf-8"));
if (has("keys")) {
  found.keys = [];
  for (const key of given("keys").split(" ")) {
    await page.keyboard.press(key);
    await page.waitForTimeout(80);
    found.keys.push(await page.evaluate(() => ({
      hash: location.hash, open: Boolean(document.querySelector("dialog[open]")),
      focus: document.activeElement?.textContent?.slice(0, 40) || document.activeElement?.id || document.activeElement?.tagName,
    })));
  }
}
if (has("axe")) {
  const source = readFileSync(require.resolve("axe-core/axe.min.js", { paths: process.env.NODE_PATH.split(":") }), "utf-8");
  const session = await context.newCDPSession(page);
  await session.send("Page.setBypassCSP", { enabled: true });
  await session.send("Runtime.evaluate", { expression: source });
  const { result } = await session.send("Runtime.evaluate", {
    expression: 'axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }).then((r) => JSON.stringify(r.violations.map((v) => ({ id: v.id, impact: v.impact, nodes: v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + " | " + n.failureSummary) }))))',
    awaitPromise: true, returnByValue: true,
  });
  found.axe = JSON.parse(result.value);
}
if (has("sections")) {  // a picture of each view
  for (const section of await page.$$("header.top, section.view")) {
    await section.scrollIntoViewIfNeeded();
    await page.waitForTimeout(150);
    await section.screenshot({ path: `${given("sections")}-${(await section.getAttribute("id")) ?? (await section.getAttribute("class"))}.png` });
  }
}
if (has("shot")) {
  await page.waitForTimeout(300);
  await page.screenshot({ path: given("shot"), fullPage: has("full") });
}
console.log(JSON.stringify(found));
await browser.close();

// Shared by all views: the embedded data, numbers as text, elements, and marks.
// Texts are untrusted (models, candidates): they go into text nodes and never into HTML.
const block = (id) => JSON.parse(document.getElementById(id).textContent);

const NONE = "–";
const MINUS = "−";
const tidy = (text) => text.replace(/^-/, MINUS);
const fixed = (value, digits) => {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return tidy(value.toExponential(digits - 1));
  return tidy(Number(value.toPrecision(digits)).toLocaleString("en", {
    maximumFractionDigits: Math.max(0, digits - 1 - Math.floor(Math.log10(size))),
    minimumFractionDigits: Math.max(0, Math.min(digits - 1 - Math.floor(Math.log10(size)), 6)),
  }));
};
const number = (value) => fixed(value, 4);
const signed = (value) => (value > 0 ? `+${fixed(value, 3)}` : fixed(value, 3));
const interval = (low, high) =>
  low === null || high === null || low === undefined ? NONE : `[${signed(low)}, ${signed(high)}]`;
const whole = (value) => (value ?? 0).toLocaleString("en");
const short = (value) => Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(value);
const percent = (value) => `${Math.round(100 * value)} %`;
const lasts = (seconds) => {
  if (seconds === null || seconds === undefined) return NONE;
  if (seconds < 1) return seconds < 0.05 ? "0 s" : `${seconds.toFixed(1)} s`;
  const all = Math.round(seconds);
  const [size, one, next, other] = [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"], [1, "s", 1, ""]].find(([most]) => all >= most);
  const rest = Math.floor((all % size) / next);
  return `${Math.floor(all / size)} ${one}${rest && other ? ` ${rest} ${other}` : ""}`;
};
// Processor time, given in hours.
const worked = (value) => (!value ? "0" : value < 1 ? lasts(value * 3600) : `${value < 1000 ? fixed(value, 3) : whole(Math.round(value))} h`);
const plainly = (value) => tidy(String(Number(value.toPrecision(6))));  // at ticks: no zeros behind
const many = (count, one, more = `${one}s`) => `${whole(count)} ${count === 1 ? one : more}`;

const SVG = "http://www.w3.org/2000/svg";
const fill = (node, attributes, children) => {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
};
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// A shape for each outcome, so that none is shown by its colour alone.
const SHAPES = {
  improvement: (r) => `M0 ${-r}L${r} ${r * 0.8}H${-r}Z`,
  decline: (r) => `M0 ${r}L${r} ${-r * 0.8}H${-r}Z`,
  maintenance: (r) => `M${-r * 0.8} 0a${r * 0.8} ${r * 0.8} 0 1 0 ${r * 1.6} 0a${r * 0.8} ${r * 0.8} 0 1 0 ${-r * 1.6} 0Z`,
  undecided: (r) => `M${-r * 0.8} 0a${r * 0.8} ${r * 0.8} 0 1 0 ${r * 1.6} 0a${r * 0.8} ${r * 0.8} 0 1 0 ${-r * 1.6} 0Z`,
  confirmed: (r) => `M0 ${-r * 1.25}L${r * 1.25} 0L0 ${r * 1.25}L${-r * 1.25} 0Z`,
  failed: (r) => `M${-r * 0.7} ${-r * 0.7}L${r * 0.7} ${r * 0.7}M${r * 0.7} ${-r * 0.7}L${-r * 0.7} ${r * 0.7}`,
  rejected: (r) => `M${-r * 0.8} 0H${r * 0.8}`,
  open: (r) => `M${-r * 0.6} ${-r * 0.6}H${r * 0.6}V${r * 0.6}H${-r * 0.6}Z`,
};
const mark = (outcome, confirmed, r = 5) =>
  s("path", { d: SHAPES[confirmed ? "confirmed" : outcome](r), class: `m ${outcome}${confirmed ? " confirmed" : ""}` });
const icon = (outcome, confirmed) =>
  s("svg", { viewBox: "-8 -8 16 16", class: "mark", "aria-hidden": "true" }, mark(outcome, confirmed));
const legend = (...entries) =>
  h("ul", { class: "legend" }, entries.filter(Boolean).map(([outcome, confirmed, text]) => h("li", {}, icon(outcome, confirmed), text)));
const outcomeOf = (row) => row.finding ?? (row.status === "scored" ? "undecided" : row.status);

// Axes: round ticks, and a scale from data to pixels.
const ticks = (low, high, count) => {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((m) => m >= rough);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at += 1) found.push(at * step);
  return found.map((value) => Number(value.toPrecision(12)));
};
const timeTicks = (high, count, low = 0) => {
  const steps = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
  const step = steps.find((m) => (high - low) / m <= count) ?? Math.ceil((high - low) / count / 604800) * 604800;
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, i) => (first + i) * step);
};
const scale = (low, high, from, to) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);
const padded = (values, share = 0.06) => {
  let low = Infinity, high = -Infinity;
  for (const value of values) if (value !== null && Number.isFinite(value)) { low = Math.min(low, value); high = Math.max(high, value); }
  if (low > high) return [0, 1];
  const more = (high - low || Math.abs(high) * 0.1 || 1) * share;
  return [low - more, high + more];
};

// Draws a chart once it is in sight, and again whenever its width changes.
const chart = (label, draw) => {
  const place = h("div", { class: "chart" });
  let width = 0, seen = false;
  const redraw = () => {
    if (!seen || !place.clientWidth) return;
    width = place.clientWidth;
    place.replaceChildren();
    draw(place, width, label);
  };
  new ResizeObserver(() => { if (place.clientWidth !== width) redraw(); }).observe(place);
  const sight = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting)) { seen = true; sight.disconnect(); redraw(); }
  }, { rootMargin: "300px" });
  sight.observe(place);
  place.redraw = redraw;
  charts.add(place);
  return place;
};
const charts = new Set();

// Shows what is under the pointer, and opens it; `at(x, y)` returns {text, id, x, y} or null.
const hover = (place, at, open) => {
  const tip = h("div", { class: "tip", hidden: true });
  place.append(tip);
  const look = (event) => {
    const box = place.getBoundingClientRect();
    return at(event.clientX - box.left, event.clientY - box.top);
  };
  place.onpointermove = (event) => {
    const found = look(event);
    tip.hidden = !found;
    place.style.cursor = found?.id ? "pointer" : "";
    if (!found) return;
    tip.textContent = found.text;
    const right = found.x > place.clientWidth / 2;
    tip.style.left = right ? "" : `${found.x + 12}px`;
    tip.style.right = right ? `${place.clientWidth - found.x + 12}px` : "";
    tip.style.top = `${found.y + 8}px`;
  };
  place.onpointerleave = () => { tip.hidden = true; };
  place.onclick = (event) => { const found = look(event); if (found?.id && open) open(found.id); };
};
const nearest = (points, x, y, reach = 14) => {
  let best = null, least = reach * reach;
  for (const point of points) {
    const far = (point.x - x) ** 2 + (point.y - y) ** 2;
    if (far < least) { least = far; best = point; }
  }
  return best;
};
// Of many points in one place only one is drawn; a point with `keep` is always drawn.
const thinned = (points, cell = 4) => {
  if (points.length <= 1500) return points;
  const taken = new Set();
  return points.filter((point) => {
    if (point.keep) return true;
    const key = `${Math.round(point.x / cell)} ${Math.round(point.y / cell)} ${point.kind}`;
    return !taken.has(key) && taken.add(key);
  });
};

const table = (caption, columns, rows) =>
  h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {},
      h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, columns.map(([name, kind]) => h("th", { scope: "col", class: kind === "n" ? "n" : null }, name || h("span", { class: "hidden" }, "drawn"))))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, i) =>
        i ? h("td", { class: columns[i][1] }, cell) : h("th", { scope: "row", class: columns[i][1] }, cell)))))));

// Builds content that few people open only when it is opened.
const folded = (summary, make) => {
  const place = h("details", {}, h("summary", {}, summary));
  place.addEventListener("toggle", () => { if (place.open && place.children.length === 1) place.append(make()); });
  return place;
};

const choice = (name, legendText, options, chosen, onchange) =>
  h("fieldset", { class: "switch" }, h("legend", {}, legendText), options.map(([value, text]) =>
    h("label", {}, h("input", { type: "radio", name, value, checked: value === chosen, onchange: () => onchange(value) }), text)));

const view = (id, answer, ...content) => {
  const section = document.getElementById(id);
  section.querySelector(".answer").textContent = answer;
  section.querySelector(".content").replaceChildren(...content.flat(2).filter(Boolean));
};

// The page: the current question, and the light or dark theme.
const page = () => {
  const links = new Map([...document.querySelectorAll("nav.views a")].map((a) => [a.hash.slice(1), a]));
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const [id, link] of links) id === entry.target.id ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current");
    }
  }, { rootMargin: "-10% 0px -75% 0px" });
  for (const section of document.querySelectorAll("section.view")) near.observe(section);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const repaint = () => { for (const place of charts) place.redraw(); };
  dark.addEventListener("change", repaint);
  document.getElementById("theme").onclick = () => {
    const root = document.documentElement;
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : dark.matches;
    root.dataset.theme = isDark ? "light" : "dark";
    repaint();
  };
};

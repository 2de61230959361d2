// One campaign. All numbers come from the view: only their places on the page are computed here.
const rows = block("results");
const campaign = block("campaign");
const rowOf = new Map(rows.map((row) => [row.idea_id, row]));
const { metric, unit } = campaign;
for (const point of campaign.best.points) point.id = point.idea_id;
const baseline = rows.find((row) => row.status === "baseline");

const unpack = ({ columns, values, names }) => {
  const decoded = values.map((column, i) => (names[i] ? column.map((at) => names[i][at]) : column));
  return Array.from({ length: values[0]?.length ?? 0 }, (_, at) =>
    Object.fromEntries(columns.map((name, i) => [name, decoded[i][at]])));
};
const ideas = unpack(campaign.ideas).map((idea) => {
  const row = rowOf.get(idea.id);
  return { ...idea, row, title: row?.title ?? idea.title, outcome: row ? outcomeOf(row) : "open", confirmed: row?.confirmed === true };
});
const ideaOf = new Map(ideas.map((idea) => [idea.id, idea]));
const titleOf = (id) => ideaOf.get(id)?.title ?? "";
const open = (id) => { location.hash = id; };
const link = (id) => (ideaOf.has(id) ? h("a", { href: `#${id}` }, id) : id);
const links = (ids) => (ids.length ? ids.slice(0, 12).flatMap((id, i) => (i ? [", ", link(id)] : [link(id)])).concat(ids.length > 12 ? ` and ${ids.length - 12} more` : "") : NONE);
const better = metric.direction === "maximize" ? 1 : -1;
const saying = (idea) => `${idea.id} ${idea.title}\n${idea.confirmed ? "confirmed improvement" : idea.outcome}`;
const unitHours = (cpu, gpu) => (unit === "GPU-hours" ? gpu : cpu);

// 1. The best so far.
const bestView = () => {
  const { points, by_number: byNumber, by_time: byTime, band } = campaign.best;
  const base = campaign.best.baseline;
  if (!points.length || base === null) return view("best", "No idea has a score yet.");
  const axes = {
    number: ["idea", (p) => p.number, whole, byNumber],
    seconds: ["time since the launch", (p) => p.seconds, lasts, byTime],
    hours: [unit, (p) => p.hours, (v) => fixed(v, 2), byTime],
    tokens: ["tokens", (p) => p.tokens, short, byTime],
  };
  if (!points.some((p) => p.tokens)) delete axes.tokens;
  const steps = new Set(byTime.concat(byNumber).map((at) => points[at]));
  let axis = "number";
  const place = chart(`${metric.name} of each idea and the best improvement so far`, (into, width, label) => {
    const [name, x, form, order] = axes[axis];
    const height = Math.max(260, Math.min(380, width * 0.45));
    const narrow = width < 560, left = 56, right = narrow ? 16 : 104, top = 22, bottom = 44;
    const xs = [0, Math.max(...points.map(x)) * 1.02 || 1];
    const [low, high] = padded([...points.map((p) => p.mean), base - (band ?? 0), base + (band ?? 0)]);
    const sx = scale(xs[0], xs[1], left, width - right), sy = scale(low, high, height - bottom, top);
    const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
    if (band) svg.append(s("rect", { class: "band", x: left, width: width - left - right, y: sy(base + band), height: sy(base - band) - sy(base + band) }));
    for (const at of ticks(low, high, height / 56)) svg.append(
      s("line", { class: "grid", x1: left, x2: width - right, y1: sy(at), y2: sy(at) }),
      s("text", { x: left - 8, y: sy(at) + 4, "text-anchor": "end" }, plainly(at)));
    const marks = axis === "seconds" ? timeTicks(xs[1], width / 100) : ticks(xs[0], xs[1], width / 90).filter((v) => axis !== "number" || Number.isInteger(v));
    for (const at of marks) svg.append(s("text", { x: sx(at), y: height - bottom + 20, "text-anchor": "middle" }, form(at)));
    svg.append(
      s("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }),
      s("line", { class: "zero", x1: left, x2: width - right, y1: sy(base), y2: sy(base) }),
      narrow ? "" : s("text", { x: width - right + 6, y: sy(base) + 4 }, `baseline ${number(base)}`),
      s("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, name),
      s("text", { x: 4, y: 10, class: "strong" }, `${metric.name}, ${better > 0 ? "higher" : "lower"} is better`));
    if (order.length) {
      let d = `M${sx(xs[0])} ${sy(base)}`;
      for (const at of order) d += `H${sx(x(points[at]))}V${sy(points[at].mean)}`;
      svg.append(s("path", { class: "best", d: `${d}H${width - right}` }));
      const last = points[order.at(-1)].mean;
      if (!narrow && Math.abs(sy(last) - sy(base)) > 14) svg.append(s("text", { x: width - right + 6, y: sy(last) + 4, class: "strong" }, `best ${number(last)}`));
    }
    const drawn = points.map((p) => ({
      x: sx(x(p)), y: sy(p.mean), id: p.id, kind: p.finding ?? "undecided", confirmed: p.confirmed === true,
      keep: steps.has(p),
      text: `${saying(ideaOf.get(p.id))}\n${metric.name} ${number(p.mean)}, ${signed(p.delta)} ${interval(rowOf.get(p.id).ci_low, rowOf.get(p.id).ci_high)}${p.test === null ? "" : `\non the test split ${signed(p.test)}`}`,
    }));
    for (const p of thinned(drawn)) { const m = mark(p.kind, p.confirmed, drawn.length > 800 ? 3 : 5); m.setAttribute("transform", `translate(${p.x} ${p.y})`); svg.append(m); }
    into.append(svg);
    hover(into, (px, py) => nearest(drawn, px, py), open);
  });
  const records = byNumber.map((at) => points[at]);
  const improved = ideas.filter((i) => i.outcome === "improvement"), held = improved.filter((i) => i.confirmed);
  view("best", `${whole(improved.length)} of ${many(ideas.length, "idea")} improved on the baseline${campaign.confirms ? `; ${whole(held.length)} of these ${held.length === 1 ? "was" : "were"} confirmed on fresh data` : ""}.`,
    h("div", { class: "tools" }, choice("axis", "Over", Object.entries(axes).map(([key, [name]]) => [key, key === "number" ? "ideas" : key === "seconds" ? "time" : name]), axis, (value) => { axis = value; place.redraw(); })),
    place,
    legend(...[["improvement", true, "confirmed on fresh data"], ["improvement", false, "improved on validation"], ["maintenance", false, "no clear change"], ["decline", false, "declined"], ["undecided", false, "no finding"]]
      .filter(([kind, confirmed]) => points.some((p) => (p.finding ?? "undecided") === kind && (p.confirmed === true) === confirmed))),
    h("p", { class: "soft" }, band
      ? `Line: the best improvement so far. Grey band: ± ${fixed(band, 2)}, within which the baseline's own code differs from itself in 95 % of cases (${baseline.n} seeds each).`
      : "Line: the best improvement so far."),
    folded("The steps of the line as a table", () =>
      table("Best improvements in order of their numbers", [["idea", ""], ["title", "wrap"], [metric.name, "n"], ["difference", "n"], ["confirmed", ""], ["after", "n"]],
        records.map((p) => [link(p.id), titleOf(p.id), number(p.mean), signed(p.delta), p.confirmed === null ? NONE : p.confirmed ? "yes" : "no", lasts(p.seconds)]))));
};

// 2. All ideas: a table with DOM rows for the visible part only.
const COLUMNS = [
  ["id", "idea", (i) => i.number, (i) => link(i.id), ""],
  ["title", "title", (i) => i.title.toLowerCase(), (i) => h("bdi", {}, i.title.slice(0, 300)), ""],
  ["outcome", "outcome", (i) => ["improvement", "maintenance", "undecided", "decline", "failed", "rejected", "open"].indexOf(i.outcome) - (i.confirmed ? 0.5 : 0), (i) => [icon(i.outcome, i.confirmed), h("span", { class: "word" }, i.confirmed ? "confirmed" : i.outcome)], ""],
  ["delta", "difference", (i) => i.row?.delta ?? null, (i) => signed(i.row?.delta ?? null), "n narrow"],
  ["effect", "difference, 95 % interval", (i) => i.row?.delta ?? null, (i) => (i.row && i.row.delta !== null ? [h("b", {}, signed(i.row.delta)), ` ${interval(i.row.ci_low, i.row.ci_high)}`] : NONE), "n wide"],
  ["test", "on test", (i) => i.row?.test_delta ?? null, (i) => signed(i.row?.test_delta ?? null), "n wide"],
  ["cost", `${unit.slice(0, 3)} time`, (i) => unitHours(i.cpu, i.gpu), (i) => worked(unitHours(i.cpu, i.gpu) / 3600), "n wide"],
];
const ideasView = () => {
  const height = 36, sorting = { by: "id", down: false };
  let shown = ideas, words = "", only = "all";
  const body = h("tbody");
  const grid = h("table", { class: "virtual", "aria-rowcount": ideas.length + 1 },
    h("caption", { class: "hidden" }, "All ideas; Enter opens the card of one, arrow keys move between them"),
    h("colgroup", {}, COLUMNS.map(([key, , , , kind]) => h("col", { class: `${kind.replace("n ", "")} of-${key}`.trim() }))),
    h("thead", {}, h("tr", {}, COLUMNS.map(([key, name, , , kind]) =>
      h("th", { scope: "col", class: kind, "data-key": key }, h("button", { type: "button", onclick: () => sort(key) }, name))))), body);
  const scroller = h("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Table of ideas" }, grid);
  const said = h("span", { class: "soft", role: "status" });
  const space = (count) => { const row = h("tr", { class: "space", "aria-hidden": "true" }, h("td")); row.firstChild.style.height = `${count * height}px`; return row; };
  const lineOf = (idea, at) => h("tr", { "aria-rowindex": at + 2, "data-id": idea.id }, COLUMNS.map(([, , , cell, kind], i) => h(i ? "td" : "th", { class: kind || null, scope: i ? null : "row", title: i === 1 ? idea.title.slice(0, 1000) : null }, cell(idea))));
  let first = -1, last = -1;
  const paint = (force) => {
    const from = Math.max(0, Math.floor(scroller.scrollTop / height) - 10);
    const to = Math.min(shown.length, from + Math.ceil((scroller.clientHeight || 600) / height) + 20);
    if (!force && from === first && to === last) return;
    const focused = document.activeElement?.closest?.("tr[data-id]")?.dataset.id;
    [first, last] = [from, to];
    body.replaceChildren(space(from), ...shown.slice(from, to).map((idea, i) => lineOf(idea, from + i)), space(shown.length - to));
    if (focused) body.querySelector(`tr[data-id="${focused}"] a`)?.focus({ preventScroll: true });
  };
  const order = () => {
    const value = COLUMNS.find(([key]) => key === sorting.by)[2];
    const needle = words.toLowerCase().split(/\s+/).filter(Boolean);
    shown = ideas.filter((idea) => (only === "all" || (only === "confirmed" ? idea.confirmed : idea.outcome === only))
      && needle.every((word) => `${idea.id} ${idea.title} ${idea.row?.reason ?? ""} ${idea.arm}`.toLowerCase().includes(word)));
    const sign = sorting.down ? -1 : 1;
    shown.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === null || y === null) return (x === null) - (y === null) || a.number - b.number;
      return (x < y ? -sign : x > y ? sign : 0) || a.number - b.number;
    });
    for (const th of grid.querySelectorAll("th[data-key]")) th.dataset.key === sorting.by ? th.setAttribute("aria-sort", sorting.down ? "descending" : "ascending") : th.removeAttribute("aria-sort");
    said.textContent = `${many(shown.length, "idea")}${shown.length < ideas.length ? ` of ${whole(ideas.length)}` : ""}`;
    grid.setAttribute("aria-rowcount", shown.length + 1);
    scroller.scrollTop = 0;
    paint(true);
  };
  const sort = (key) => {
    const numeric = ["delta", "effect", "test", "cost"].includes(key);
    if (sorting.by === key) sorting.down = !sorting.down;
    else Object.assign(sorting, { by: key, down: numeric && (key === "cost" || better > 0) });
    order();
  };
  scroller.addEventListener("scroll", () => requestAnimationFrame(() => paint(false)), { passive: true });
  new ResizeObserver(() => paint(true)).observe(scroller);
  body.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const id = event.target.closest("tr")?.dataset.id;
    if (!step || !id) return;
    event.preventDefault();
    const at = shown.findIndex((idea) => idea.id === id) + step;
    if (at < 0 || at >= shown.length) return;
    if (at * height < scroller.scrollTop) scroller.scrollTop = at * height;
    else if ((at + 2) * height > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = (at + 2) * height - scroller.clientHeight;
    paint(true);
    body.querySelector(`tr[data-id="${shown[at].id}"] a`)?.focus({ preventScroll: true });
  });
  const search = h("input", { type: "search", id: "search", placeholder: "Search titles, reasons, numbers  ( / )", "aria-label": "Search ideas", oninput: (event) => { words = event.target.value; order(); } });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.target.closest("input, select, textarea, dialog")) { event.preventDefault(); search.focus(); }
  });
  const kinds = ["improvement", "maintenance", "decline", "undecided", "failed", "rejected", "open"];
  const counts = (kind) => ideas.filter((idea) => idea.outcome === kind).length;
  const filter = h("select", { "aria-label": "Outcome", onchange: (event) => { only = event.target.value; order(); } },
    h("option", { value: "all" }, "all outcomes"), ideas.some((i) => i.confirmed) ? h("option", { value: "confirmed" }, `confirmed (${ideas.filter((i) => i.confirmed).length})`) : null,
    kinds.filter(counts).map((kind) => h("option", { value: kind }, `${kind} (${counts(kind)})`)));
  const heads = kinds.filter(counts).map((kind) => `${whole(counts(kind))} ${kind}`);
  view("ideas", ideas.length ? `${many(ideas.length, "idea")}: ${heads.join(", ")}.` : "No idea has been proposed yet.",
    h("div", { class: "tools" }, search, filter, said), scroller);
  order();
};

// 3. Where ideas come from: each below its first parent, with its attempts beside it.
const lineageView = () => {
  const children = new Map(), roots = [];
  for (const idea of ideas) {
    const parent = idea.parents.find((id) => ideaOf.has(id) && id !== idea.id);
    if (parent) children.set(parent, [...(children.get(parent) ?? []), idea]);
    else roots.push(idea);
  }
  const lines = [], seen = new Set();
  const walk = (from) => {
    const waiting = [[from, 0, []]];
    while (waiting.length) {
      const [idea, depth, trail] = waiting.pop();
      if (seen.has(idea.id)) continue;
      seen.add(idea.id);
      lines.push({ idea, depth, trail });
      const own = children.get(idea.id) ?? [];
      for (let i = own.length - 1; i >= 0; i -= 1) waiting.push([own[i], depth + 1, [...trail, i < own.length - 1]]);
    }
  };
  roots.forEach(walk);
  ideas.forEach((idea) => { if (!seen.has(idea.id)) walk(idea); });  // parents in a circle
  const failing = (idea) => idea.attempts.filter((a) => a[3] === "failed").length;
  let only = "all", shown = lines;
  const height = 30, list = h("ul"), place = h("div", { class: "lineage", tabindex: "0", role: "region", "aria-label": "Lineage of ideas" }, list);
  const edges = (line) => {
    const width = 14 * Math.min(line.depth, 12) + 4;
    const svg = s("svg", { width, height, class: "edges", "aria-hidden": "true" });
    const trail = line.trail.slice(-12);
    trail.forEach((goesOn, i) => {
      const x = 14 * i + 8, isOwn = i === trail.length - 1;
      if (isOwn) svg.append(s("path", { class: "edge", d: `M${x} 0V15H${x + 10}${goesOn ? `M${x} 15V30` : ""}` }));
      else if (goesOn) svg.append(s("path", { class: "edge", d: `M${x} 0V30` }));
    });
    return svg;
  };
  const lineOf = (line, at) => {
    const { idea } = line;
    const item = h("li", { "aria-setsize": shown.length, "aria-posinset": at + 1 }, only === "all" ? edges(line) : null, icon(idea.outcome, idea.confirmed), link(idea.id),
      h("span", { class: "name", title: idea.title.slice(0, 1000) }, h("bdi", {}, idea.title.slice(0, 200)),
        h("span", { class: "hidden" }, `, ${idea.confirmed ? "confirmed" : idea.outcome}${idea.parents.length ? `, from ${idea.parents.join(", ")}` : ""}`)),
      h("span", { class: "steps" }, idea.attempts.slice(0, 12).map(([n, parent, kind, outcome, cause]) =>
        h("span", { class: `step ${outcome}`, title: `version ${n}${parent ? ` from version ${parent}` : ""}: ${kind}, ${outcome}${cause ? ` (${cause})` : ""}` }, kind, cause ? h("span", { class: "hidden" }, ` ${cause}`) : null, h("span", { class: "hidden" }, ` ${outcome} `))),
        idea.attempts.length > 12 ? `+${idea.attempts.length - 12}` : null));
    item.style.top = `${at * height}px`;
    return item;
  };
  const paint = () => {
    const from = Math.max(0, Math.floor(place.scrollTop / height) - 10), to = Math.min(shown.length, from + 60);
    list.replaceChildren(...shown.slice(from, to).map((line, i) => lineOf(line, from + i)));
  };
  const choose = (value) => {
    only = value;
    shown = value === "failed" ? lines.filter(({ idea }) => failing(idea)) : value === "bred" ? lines.filter(({ idea }) => idea.parents.length || children.has(idea.id)) : lines;
    list.style.height = `${shown.length * height}px`;
    place.style.height = `${Math.min(shown.length * height + 2, 576)}px`;
    place.scrollTop = 0;
    paint();
  };
  let drawnAt = 0;
  place.addEventListener("scroll", () => { if (Math.abs(place.scrollTop - drawnAt) > 120) { drawnAt = place.scrollTop; requestAnimationFrame(paint); } }, { passive: true });
  const attempts = ideas.reduce((sum, idea) => sum + idea.attempts.length, 0), failed = ideas.reduce((sum, idea) => sum + failing(idea), 0);
  const bred = ideas.filter((idea) => idea.parents.length).length;
  view("lineage", `${whole(bred)} of ${many(ideas.length, "idea")} ${bred === 1 ? "builds" : "build"} on an earlier one. ${many(attempts, "version")} of code ${attempts === 1 ? "was" : "were"} written, of which ${whole(failed)} failed.`,
    h("div", { class: "tools" }, choice("lineage", "Show", [["all", "all"], ["bred", "with parents or children"], ["failed", "with failures"]], only, choose)), place,
    h("p", { class: "soft" }, "Each idea stands below the first idea it builds on. Beside it are the versions of its code, in order: what each was made for, and whether its trials were scored (✓) or failed (✕)."));
  choose("all");
};

// 4. Effects with intervals, and whether they hold on fresh data.
const effectsView = () => {
  const judged = ideas.filter((idea) => idea.row && idea.row.delta !== null).sort((a, b) => better * (b.row.delta - a.row.delta) || a.number - b.number);
  if (!judged.length) return view("effects", "No idea has been compared with the baseline yet.");
  let most = 24;
  const forest = chart("Differences to the baseline with 95 % intervals", (into, width, label) => {
    const list = judged.length > most ? [...judged.slice(0, most - 6), ...judged.slice(-6)] : judged;
    const narrow = width < 560, left = narrow ? 84 : Math.min(380, width * 0.4), right = 16, top = 30, step = 26, height = top + list.length * step + 36;
    const ends = list.flatMap(({ row }) => [row.ci_low ?? row.delta, row.ci_high ?? row.delta, row.test_ci_low, row.test_ci_high, row.test_delta]);
    const [low, high] = padded([0, ...ends], 0.04), sx = scale(low, high, left, width - right);
    const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
    for (const at of ticks(low, high, (width - left) / 90)) svg.append(
      s("line", { class: "grid", x1: sx(at), x2: sx(at), y1: top - 6, y2: height - 34 }),
      s("text", { x: sx(at), y: height - 16, "text-anchor": "middle" }, `${at > 0 ? "+" : ""}${plainly(at)}`));
    svg.append(s("line", { class: "zero", x1: sx(0), x2: sx(0), y1: top - 6, y2: height - 34 }),
      s("text", { x: sx(0), y: 14, "text-anchor": "middle", class: "strong" }, "baseline"));
    const spots = [];
    list.forEach((idea, i) => {
      const { row } = idea, y = top + i * step + step / 2, kind = idea.outcome;
      if (judged.length > most && i === most - 6) svg.append(s("line", { class: "axis", x1: 0, x2: width, y1: y - step / 2, y2: y - step / 2 }));
      const named = s("text", { x: 0, y: y + 4, class: "strong" }, idea.id.replace("idea-", "#").replace(/#0+/, "#"));
      svg.append(named);
      if (!narrow) svg.append(s("text", { x: 48, y: y + 4 }, idea.title.length > (left - 60) / 6.3 ? `${idea.title.slice(0, Math.floor((left - 60) / 6.3) - 1)}…` : idea.title));
      const shift = row.test_delta === null ? 0 : -5;
      const whisker = (a, b, at, of) => a !== null && b !== null && svg.append(s("line", { class: `m ${of}`, x1: sx(a), x2: sx(b), y1: at, y2: at }));
      whisker(row.ci_low, row.ci_high, y + shift, kind);
      const point = mark(kind, false, 4.5);
      point.setAttribute("transform", `translate(${sx(row.delta)} ${y + shift})`);
      svg.append(point);
      if (row.test_delta !== null) {
        whisker(row.test_ci_low, row.test_ci_high, y + 6, idea.confirmed ? "improvement" : "maintenance");
        const test = mark(idea.confirmed ? "improvement" : "maintenance", true, 4);
        test.setAttribute("transform", `translate(${sx(row.test_delta)} ${y + 6})`);
        if (!idea.confirmed) test.setAttribute("class", "m maintenance");
        svg.append(test);
      }
      spots.push({ y, id: idea.id, text: `${saying(idea)}\nvalidation ${signed(row.delta)} ${interval(row.ci_low, row.ci_high)}${row.p_adjusted === null ? "" : `, p adj. ${fixed(row.p_adjusted, 2)}`}${row.test_delta === null ? "" : `\ntest ${signed(row.test_delta)} ${interval(row.test_ci_low, row.test_ci_high)}`}` });
    });
    into.append(svg);
    hover(into, (x, y) => { const at = spots[Math.floor((y - top) / step)]; return at && y > top ? { ...at, x } : null; }, open);
  });
  const moreButton = h("button", { type: "button", onclick: () => { most += 100; forest.redraw(); moreButton.hidden = most >= judged.length; } }, "Show 100 more");
  moreButton.hidden = judged.length <= most;
  const both = judged.filter(({ row }) => row.test_delta !== null);
  const held = both.filter((idea) => idea.confirmed).length;
  const scatter = both.length ? chart("Difference on validation against difference on the test split", (into, width, label) => {
    const side = Math.min(width, 460), left = 64, bottom = 46, top = 14, right = 16, height = Math.min(side, 400);
    const [low, high] = padded([0, ...both.flatMap(({ row }) => [row.delta, row.test_delta])], 0.1);
    const sx = scale(low, high, left, side - right), sy = scale(low, high, height - bottom, top);
    const svg = s("svg", { width: side, height, viewBox: `0 0 ${side} ${height}`, role: "img", "aria-label": label });
    svg.style.width = `${side}px`;
    for (const at of ticks(low, high, side / 90)) svg.append(
      s("line", { class: "grid", x1: sx(at), x2: sx(at), y1: top, y2: height - bottom }), s("line", { class: "grid", x1: left, x2: side - right, y1: sy(at), y2: sy(at) }),
      s("text", { x: sx(at), y: height - bottom + 18, "text-anchor": "middle" }, `${at > 0 ? "+" : ""}${plainly(at)}`), s("text", { x: left - 8, y: sy(at) + 4, "text-anchor": "end" }, `${at > 0 ? "+" : ""}${plainly(at)}`));
    svg.append(s("line", { class: "zero", x1: sx(low), y1: sy(low), x2: sx(high), y2: sy(high) }),
      s("text", { x: (left + side) / 2, y: height - 6, "text-anchor": "middle" }, "found on validation"),
      s("text", { x: 4, y: 10, class: "strong" }, "on the test split"));
    const drawn = both.map((idea) => ({ x: sx(idea.row.delta), y: sy(idea.row.test_delta), id: idea.id, kind: idea.outcome, confirmed: idea.confirmed, keep: true,
      text: `${saying(idea)}\nvalidation ${signed(idea.row.delta)}, test ${signed(idea.row.test_delta)}` }));
    for (const p of drawn) { const m = mark(p.kind, p.confirmed, drawn.length > 800 ? 3 : 5); m.setAttribute("transform", `translate(${p.x} ${p.y})`); svg.append(m); }
    into.append(svg);
    hover(into, (x, y) => nearest(drawn, x, y), open);
  }) : null;
  const rule = campaign.rule ? ` Findings: ${campaign.rule}.` : "";
  view("effects", both.length ? `${whole(held)} of ${many(both.length, "improvement")} tried on fresh data ${both.length === 1 ? "was" : "were"} confirmed.` : "No improvement has been tried on fresh data yet.",
    forest, h("div", { class: "tools" }, moreButton),
    legend(["improvement", false, "improved"], ["maintenance", false, "no clear change"], ["decline", false, "declined"], ["improvement", true, "on the test split, confirmed"]),
    h("p", { class: "soft" }, `Difference in ${metric.name} to the baseline with its 95 % interval, best first.${rule}`),
    scatter ? [h("h3", {}, "Does the gain hold on fresh data?"), h("p", { class: "soft" }, "Below the dashed line the test split gave less than the search had promised: some of that is always luck in picking."), scatter] : null,
    folded("As a table", () => table("Effects with intervals", [["idea", ""], ["title", "wrap"], ["difference", "n"], ["95 % interval", "n"], ["p adj.", "n"], ["on test", "n"], ["95 % interval", "n"], ["confirmed", ""]],
      judged.slice(0, 500).map(({ id, title, row }) => [link(id), title.slice(0, 300), signed(row.delta), interval(row.ci_low, row.ci_high), fixed(row.p_adjusted, 2), signed(row.test_delta), interval(row.test_ci_low, row.test_ci_high), row.confirmed === null ? NONE : row.confirmed ? "yes" : "no"]))));
};

// 5. What failed.
const failuresView = () => {
  const { failures } = campaign;
  if (!failures.length) return view("failures", "Nothing failed.");
  const cost = (f) => unitHours(f.cpu_hours, f.gpu_hours), most = Math.max(...failures.map(cost), 1e-12);
  const total = failures.reduce((sum, f) => sum + cost(f), 0), all = unitHours(campaign.figures.cpu_hours, campaign.figures.gpu_hours);
  const whose = { idea: "the idea's code", machine: "the machine", none: "no trial" };
  view("failures", `Failures took ${worked(total)} of ${worked(all)} of ${unit.slice(0, 3)} time${all ? `, ${percent(total / all)}` : ""}.`,
    table("Failures by cause", [["cause", ""], ["whose", ""], ["trials", "n"], ["ideas", "n"], [`${unit.slice(0, 3)} time`, "n"], ["", ""], ["tokens", "n"], ["for example", "wrap"]],
      failures.map((f) => {
        const bar = h("span", { class: `bar ${f.whose}` });
        bar.style.width = `${(100 * cost(f)) / most}%`;
        return [f.cause.replaceAll("_", " "), h("span", { class: "pill" }, whose[f.whose]), whole(f.trials), whole(f.ideas), worked(cost(f)), h("div", { class: "bars" }, bar), f.tokens ? short(f.tokens) : NONE, [link(f.example_id), f.example ? `: ${f.example.slice(0, 240)}` : ""]];
      })),
    h("p", { class: "soft" }, "A machine's failures are never held against an idea: such trials run again. Ideas without a failed trial were not let in, or no usable code came of them."));
};

// 6. When and where trials ran.
const timeView = () => {
  const { trials: packed, nodes, span } = campaign;
  const trials = unpack(packed);
  if (!trials.length) return view("time", "No trial has been queued yet.");
  const now = span, done = trials.filter((t) => t.started !== null);
  const middle = (values) => { const sorted = values.slice().sort((a, b) => a - b); return sorted.length ? sorted[Math.floor((sorted.length - 1) / 2)] : null; };
  const waits = done.map((t) => t.started - t.queued), runs = done.filter((t) => t.ended !== null).map((t) => t.ended - t.started);
  const left = 110, right = 12;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const canvas = (width, height, label) => {
    const node = h("canvas", { role: "img", "aria-label": label }), ratio = devicePixelRatio || 1;
    node.width = Math.round(width * ratio); node.height = Math.round(height * ratio);
    node.style.height = `${height}px`;
    const pen = node.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "12px system-ui, sans-serif";
    return [node, pen];
  };
  // The time window of the lower chart, chosen by dragging over the upper chart or by buttons.
  const length = now || 1;
  let [from, to] = [0, length];
  const said = h("span", { class: "soft", "aria-live": "polite" });
  const show = (a, b) => {
    const wide = Math.min(length, Math.max(b - a, length / 1000));
    from = Math.min(Math.max(0, (a + b - wide) / 2), length - wide); to = from + wide;
    said.textContent = wide < length ? `from ${lasts(from)} to ${lasts(to)} after the start` : "all of it";
    load.redraw(); gantt.redraw();
  };
  const zoom = (by, move = 0) => () => { const wide = (to - from) * by, centre = (from + to) / 2 + move * (to - from); show(centre - wide / 2, centre + wide / 2); };
  const axis = (pen, width, height, sx, from = 0, to = now) => {
    pen.fillStyle = colour("--soft"); pen.strokeStyle = colour("--grid"); pen.textAlign = "center";
    for (const at of timeTicks(to, width / 110, from)) {
      pen.beginPath(); pen.moveTo(sx(at), 0); pen.lineTo(sx(at), height - 20); pen.stroke();
      pen.fillText(lasts(at), Math.min(sx(at), width - 26), height - 5);
    }
  };
  const load = chart("Trials that wait and trials that run, over time", (into, width, label) => {
    const height = 150, sx = scale(0, now || 1, left, width - right);
    const count = Math.max(2, Math.floor(width - left - right));
    // The average over the time of one pixel, as most trials may be shorter than that.
    const summed = (spans) => {
      const within = new Float64Array(count + 1), steps = new Float64Array(count + 2);
      for (const [from, to] of spans) {
        const a = Math.max(0, (from / (now || 1)) * count), b = Math.min(count, (to / (now || 1)) * count), i = Math.floor(a), j = Math.floor(b);
        if (i === j) within[i] += b - a;
        else { within[i] += i + 1 - a; within[j] += b - j; steps[i + 1] += 1; steps[j] -= 1; }
      }
      let open = 0;
      return Array.from({ length: count }, (_, i) => { open += steps[i]; return open + within[i]; });
    };
    const running = summed(done.map((t) => [t.started, t.ended ?? now])), waiting = summed(trials.map((t) => [t.queued, t.started ?? t.ended ?? now]));
    const sums = running.map((r, i) => [r, waiting[i]]), most = Math.max(1, ...sums.map(([r, w]) => r + w));
    const sy = scale(0, most, height - 24, 12), [node, pen] = canvas(width, height, label);
    axis(pen, width, height, sx);
    sums.forEach(([r, w], i) => {
      pen.fillStyle = colour("--wait"); pen.fillRect(left + i, sy(r + w), 1, sy(r) - sy(r + w));
      pen.fillStyle = colour("--up"); pen.fillRect(left + i, sy(r), 1, sy(0) - sy(r));
    });
    pen.fillStyle = colour("--soft"); pen.textAlign = "right";
    for (const tick of ticks(0, most, 3).filter(Number.isInteger)) pen.fillText(whole(tick), left - 8, sy(tick) + 4);
    pen.textAlign = "left"; pen.fillStyle = colour("--ink"); pen.font = "600 12px system-ui, sans-serif"; pen.fillText("trials", 0, 12);
    into.append(node);
    if (to - from < length) {
      pen.strokeStyle = colour("--ink"); pen.strokeRect(sx(from), 1, Math.max(2, sx(to) - sx(from)), height - 22);
    }
    const time = (event) => ((event.clientX - into.getBoundingClientRect().left - left) / (width - left - right)) * length;
    let begun = null;
    into.onpointerdown = (event) => { begun = time(event); into.setPointerCapture(event.pointerId); };
    into.onpointerup = (event) => {
      const [a, b] = [Math.min(begun, time(event)), Math.max(begun, time(event))];
      if (begun !== null && b - a > length / 200) show(a, b);
      begun = null;
    };
    hover(into, (x) => { const i = Math.floor(x - left); return sums[i] ? { x, y: 20, text: `after ${lasts((i / count) * now)}: ${fixed(sums[i][0], 2)} running, ${fixed(sums[i][1], 2)} waiting` } : null; });
  });
  const lanes = nodes.map(([, count]) => count), rowsTotal = lanes.reduce((a, b) => a + b, 0) || 1;
  const gantt = chart("Trials on each node over time", (into, width, label) => {
    const lane = rowsTotal > 400 ? 3 : rowsTotal > 60 ? 7 : 16, gap = 8, sx = scale(from, to, left, width - right);
    let y = 4;
    const tops = lanes.map((count) => { const top = y; y += count * lane + gap; return top; });
    const height = y + 22, [node, pen] = canvas(width, height, label);
    axis(pen, width, height, sx, from, to);
    const fills = { scored: colour("--up"), idea_failed: colour("--down"), machine_failed: colour("--bad"), running: colour("--flat"), stopped: colour("--wait") };
    const boxes = [];
    for (const t of done) {
      if (t.started > to || (t.ended ?? now) < from) continue;
      const x = Math.max(left, sx(t.started)), wide = Math.max(1, Math.min(width - right, sx(t.ended ?? now)) - x), top = tops[t.node] + t.lane * lane;
      pen.fillStyle = fills[t.phase] ?? fills.running;
      pen.fillRect(x, top + 1, Math.max(1, wide - 0.5), lane - 2);
      if (t.phase === "idea_failed" && lane > 10 && wide > 8) { pen.fillStyle = colour("--bg"); pen.fillText("✕", x + 6, top + lane - 4); }
      boxes.push([x, x + wide, top, t]);
    }
    pen.fillStyle = colour("--ink"); pen.textAlign = "left";
    nodes.forEach(([name], i) => pen.fillText(name.length > 15 ? `${name.slice(0, 14)}…` : name, 0, tops[i] + Math.min(lanes[i] * lane, 14)));
    into.append(node);
    hover(into, (x, py) => {
      const box = boxes.findLast(([from, to, top]) => x >= from - 1 && x <= to + 1 && py >= top && py < top + lane);
      if (!box) return null;
      const t = box[3], cause = t.cause ? ` (${t.cause})` : "";
      return { x, y: py, id: ideaOf.has(t.idea) ? t.idea : null, text: `${t.id}\n${t.phase.replace("_", " ")}${cause}\nwaited ${lasts(t.started - t.queued)}, ran ${lasts((t.ended ?? now) - t.started)}` };
    }, open);
  });
  const waitingNow = campaign.waiting ? Object.entries(campaign.waiting.reasons).sort((a, b) => b[1] - a[1]).map(([reason, count]) => `${count} ${reason || "without a reason yet"}`) : [];
  view("time", `Half of all trials waited at most ${lasts(middle(waits))} and ran at most ${lasts(middle(runs))}.`,
    waitingNow.length ? h("p", {}, `In Slurm's queue by its reasons: ${waitingNow.join(", ")}.`) : null,
    load, h("p", { class: "soft" }, "Dark: running. Light: waiting in the queue."), h("h3", {}, "On which node"),
    h("div", { class: "tools zoom" }, [["Zoom in", zoom(0.5)], ["Zoom out", zoom(2)], ["Earlier", zoom(1, -0.5)], ["Later", zoom(1, 0.5)], ["All", () => show(0, length)]].map(([name, onclick]) => h("button", { type: "button", onclick }, name)), said),
    h("p", { class: "soft" }, "Drag over the chart above to see a part of the time."), h("div", { class: "scroll tall" }, gantt),
    h("p", { class: "soft" }, "A bar is a trial: blue was scored, orange with ✕ failed by its idea's code, purple by the machine, grey runs or was stopped."),
    table("Waits and runs by stage", [["stage", ""], ["trials", "n"], ["median wait", "n"], ["90 % waited at most", "n"], ["median run", "n"]],
      campaign.stages.map((stage) => [stage.stage, whole(stage.trials), lasts(stage.wait_median_s), lasts(stage.wait_p90_s), lasts(stage.run_median_s)])));
};

// 7. Tokens and hours.
const costView = () => {
  const { tokens, stages, figures } = campaign;
  const sum = tokens.reduce((total, t) => total + t.read + t.written, 0), most = Math.max(...tokens.map((t) => t.read + t.written), 1);
  const asked = stages.reduce((total, t) => total + t.asked_hours, 0), used = stages.reduce((total, t) => total + t.used_hours, 0), peak = Math.max(...stages.map((t) => t.asked_hours), 1e-12);
  const bar = (share, kind) => { const node = h("span", { class: `bar ${kind}` }); node.style.width = `${Math.min(100, 100 * share)}%`; return node; };
  view("cost", `${short(sum)} tokens; trials used ${worked(used)} of the ${worked(asked)} they asked for${asked ? ` (${percent(used / asked)})` : ""}.`,
    h("h3", {}, "Tokens by stage"),
    tokens.length ? table("Tokens by stage", [["stage", ""], ["role", ""], ["calls", "n"], ["read", "n"], ["written", "n"], ["", ""], ["time a call", "n"]],
      tokens.map((t) => [t.stage, t.role, whole(t.calls), whole(t.read), whole(t.written), h("div", { class: "bars" }, bar((t.read + t.written) / most, "")), t.seconds ? lasts(t.seconds / t.calls) : NONE])) : h("p", {}, "No model was asked."),
    h("h3", {}, "Hours and memory of trials, asked against used"),
    table("Hours and memory by stage", [["stage", ""], ["trials", "n"], ["asked", "n"], ["used", "n"], ["", ""], ["CPU busy", "n"], ["memory asked", "n"], ["largest used", "n"]],
      stages.map((t) => [t.stage, whole(t.trials), worked(t.asked_hours), worked(t.used_hours), h("div", { class: "bars" }, bar(t.asked_hours / peak, "asked"), bar(t.used_hours / peak, "used")), worked(t.cpu_hours), `${whole(t.asked_mb)} MiB`, `${whole(Math.round(t.peak_mb))} MiB`])),
    h("p", { class: "soft" }, "Asked: deadlines times processors, which is what a scheduler plans for. Trials that use little of it wait longer in the queue than they need to: give budgets.seconds of the recipe less."),
    figures.serving_gpu_hours === null ? null : h("p", {}, `Models were served for ${worked(figures.serving_gpu_hours)} of GPU time; a request was in flight ${percent(figures.busy ?? 0)} of that.`));
};

// 8. Model against search.
const armsView = () => {
  const { contest } = campaign;
  if (!contest) return view("arms", campaign.only_search ? "This campaign has no model: it is the search itself." : "There is nothing to compare: launch with --control 0.2, and every fifth idea comes from a search over the recipe's knobs.");
  const names = { model: "model", control: "search" };
  const record = (title, tallies) => Object.entries(tallies).map(([arm, t]) => [`${names[arm]}, ${title}`, whole(t.ideas), whole(t.scored), whole(t.improved), whole(t.confirmed), signed(t.best), worked(t.hours), t.tokens ? short(t.tokens) : NONE]);
  const curves = Object.entries(contest.curves);
  const place = chart("Improvements found against hours spent, model and search", (into, width, label) => {
    const height = 260, left = 48, right = 72, top = 16, bottom = 42;
    const maxX = Math.max(...curves.flatMap(([, c]) => c.map(([x]) => x)), 1e-9), maxY = Math.max(1, ...curves.flatMap(([, c]) => c.map(([, y]) => y)));
    const sx = scale(0, maxX, left, width - right), sy = scale(0, maxY, height - bottom, top);
    const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
    for (const at of ticks(0, maxY, 4).filter(Number.isInteger)) svg.append(s("line", { class: "grid", x1: left, x2: width - right, y1: sy(at), y2: sy(at) }), s("text", { x: left - 8, y: sy(at) + 4, "text-anchor": "end" }, whole(at)));
    for (const at of ticks(0, maxX, width / 110)) svg.append(s("text", { x: sx(at), y: height - bottom + 20, "text-anchor": "middle" }, fixed(at, 2)));
    svg.append(s("line", { class: "zero", x1: sx(contest.hours), x2: sx(contest.hours), y1: top, y2: height - bottom }), s("text", { x: sx(contest.hours) + 4, y: top + 8 }, "equal cost"),
      s("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, `${unit} of trials`), s("text", { x: 0, y: 10, class: "strong" }, "improvements"));
    for (const [arm, curve] of curves) {
      const d = curve.reduce((path, [x, y]) => `${path}H${sx(x)}V${sy(y)}`, `M${sx(0)} ${sy(0)}`);
      const line = s("path", { class: "best", d });
      if (arm === "control") { line.style.stroke = "var(--flat)"; line.style.strokeDasharray = "5 3"; }
      const [x, y] = curve.at(-1) ?? [0, 0];
      svg.append(line, s("text", { x: sx(x) + 6, y: sy(y) + 4, class: "strong" }, names[arm]));
    }
    into.append(svg);
  });
  view("arms", contest.words, place,
    table("Model and search, in all and at equal cost", [["arm", ""], ["ideas", "n"], ["scored", "n"], ["improved", "n"], ["confirmed", "n"], ["best", "n"], [unit, "n"], ["tokens", "n"]],
      [...record("in all", contest.whole), ...record("at equal cost", contest.equal)]));
};

// 9. Where numbers come from.
const sourcesView = () => {
  const { papers, sources, manuscripts } = campaign;
  const used = papers.filter((p) => p.built_on.length || p.against.length).length;
  view("sources", `Every number here is computed from the trials' result files. ${papers.length ? `${many(papers.length, "paper")} ${papers.length === 1 ? "was" : "were"} read, of which ${used} led to an idea or ruled one out.` : "No paper was read."}`,
    sources.length ? [h("h3", {}, "Which trials stand behind each finding"),
      table("Trials behind findings", [["idea", ""], ["split", ""], ["mean", "n"], ["difference", "n"], ["seeds", "n"], ["trials", "wrap"], ["code", ""]],
        sources.map((q) => [link(q.idea_id), q.split, number(q.mean), signed(q.delta), whole(q.trials.length), h("span", { class: "mono" }, q.trials.length > 2 ? `${q.trials[0]} … ${q.trials.at(-1)}` : q.trials.join(", ")), h("code", { title: q.code_hash }, q.code_hash.slice(0, 12))])),
      h("p", { class: "soft" }, `The findings that gained most; the card of each idea has its own. Recipe ${campaign.recipe_hash.slice(0, 12)}, data ${campaign.data_hash.slice(0, 12)}, hpcscientist ${campaign.version}. A row of a trial is in trials/TRIAL/result.arrow, or in results/part-*.parquet once it was compacted; a claim runs again with the command on the idea's card.`)] : null,
    manuscripts.map((paper) => [h("h3", {}, `The numbers of the paper “${paper.title}”`),
      h("p", { class: "soft" }, `${many(paper.numbers.length, "number")}, each from the trials and files beside it. hpcsci paper --check holds papers/${paper.name} against them.`),
      folded("As a table", () => table(`Numbers of ${paper.name}`, [["number", ""], ["what", "wrap"], ["as written", "wrap"], ["section", ""], ["trials", "wrap"], ["files", "wrap"]],
        paper.numbers.map((n) => [n.text || "computed", n.label, h("code", {}, n.formula), n.section, h("span", { class: "mono" }, n.trials.length > 2 ? `${n.trials[0]} … ${n.trials.at(-1)}` : n.trials.join(", ") || NONE), h("span", { class: "mono" }, n.files.join(", ") || NONE)])))]),
    papers.length ? [h("h3", {}, "What each paper led to"), table("Papers", [["paper", "wrap"], ["year", "n"], ["relevance", "n"], ["shown to", "n"], ["built on by", "wrap"], ["held against", "wrap"], ["ruled out", "wrap"]],
      papers.map((p) => [[p.title || p.paper_id, p.title && !p.paper_id.startsWith("title:") ? h("span", { class: "soft" }, ` ${p.paper_id}`) : null, p.kept === false ? [" ", h("span", { class: "pill" }, "on another task")] : null], p.year ?? NONE, p.topic ?? NONE, many(p.shown.length, "idea"), links(p.built_on), links(p.against), links(p.ruled_out)]))] : null);
};

// The card of an idea: compressed in packs of a hundred, unpacked when one is opened.
const packs = new Map();
const cardOf = async (idea) => {
  const at = Math.floor(ideas.indexOf(idea) / campaign.pack);
  if (!packs.has(at)) {
    const text = document.getElementById(`cards-${at}`)?.textContent ?? "";
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    packs.set(at, new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json());
  }
  return (await packs.get(at))[ideas.indexOf(idea) % campaign.pack];
};
const diffOf = (text) => h("pre", { tabindex: "0" }, text.split("\n").map((line) => {
  const kind = /^(\+\+\+|---|@@)/.test(line) ? "at" : line.startsWith("+") ? "add" : line.startsWith("-") ? "del" : "";
  return kind ? h("span", { class: kind }, `${line}\n`) : `${line}\n`;
}));
const dialog = h("dialog", { class: "card", "aria-labelledby": "card-title" });
document.body.append(dialog);
let cameFrom = null;
const pairs = (...entries) => h("dl", { class: "pairs" }, entries.filter(([, value]) => value !== null && value !== "" && value !== undefined).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
const prose = (title, text) => (text ? [h("h3", {}, title), h("p", { class: "prose" }, text)] : null);
const showCard = async (id) => {
  const idea = ideaOf.get(id), at = ideas.indexOf(idea), { row } = idea;
  if (!dialog.open) cameFrom = document.activeElement;
  const step = (by) => h("button", { type: "button", disabled: !ideas[at + by], onclick: () => open(ideas[at + by].id) }, by < 0 ? "← previous" : "next →");
  const body = h("div", { class: "in" }, h("h2", { id: "card-title", tabindex: "-1", autofocus: true }, h("bdi", {}, idea.title)), h("p", {}, icon(idea.outcome, idea.confirmed), ` ${idea.confirmed ? "confirmed improvement" : idea.outcome} `, h("span", { class: "pill" }, idea.arm === "control" ? "from the search" : "from the model")));
  dialog.replaceChildren(h("div", { class: "bar-top" }, h("span", { class: "mono" }, id), h("span", {}, step(-1), " ", step(1), " ", h("button", { type: "button", onclick: () => dialog.close() }, "close"))), body);
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  let card;
  try { card = await cardOf(idea); } catch { body.append(h("p", { class: "warning" }, "This browser cannot unpack the card: it lacks DecompressionStream. Any browser of 2023 or later can.")); return; }
  if (location.hash.slice(1) !== id) return;
  const part = (split) => {
    const own = card.seeds.filter((seed) => seed.split === split);
    return own.length ? table(`Seeds on ${split}`, [["seed", ""], ["baseline", "n"], ["idea", "n"], ["difference", "n"], ["trial", ""], ["node", ""]],
      own.map((q) => [String(q.seed), number(q.baseline), number(q.idea), q.idea !== null && q.baseline !== null ? signed(q.idea - q.baseline) : NONE, h("span", { class: "mono" }, q.trial_id), q.node || NONE])) : null;
  };
  body.append(...[
    row?.reason ? h("p", { class: "warning" }, row.reason) : null,
    row && row.mean !== null ? pairs([metric.name, `${number(row.mean)} (baseline ${number(row.baseline_mean)})`], ["difference", `${signed(row.delta)} ${interval(row.ci_low, row.ci_high)}`], ["p adjusted", row.p_adjusted === null ? null : fixed(row.p_adjusted, 2)], ["on the test split", row.test_delta === null ? null : `${signed(row.test_delta)} ${interval(row.test_ci_low, row.test_ci_high)}`], ["confirmed", row.confirmed === null ? null : row.confirmed ? "yes" : "no"]) : null,
    pairs(["cost", `${worked(idea.cpu / 3600)} CPU, ${worked(idea.gpu / 3600)} GPU, ${short(idea.tokens)} tokens`], ["trials", `${card.trials}; waited ${lasts(card.wait_s)}, ran ${lasts(card.run_s)} together`], ["builds on", idea.parents.length ? h("span", {}, links(idea.parents)) : null], ["settings", card.knobs || null], ["papers", card.papers.join("; ") || null]),
    prose("Hypothesis", card.hypothesis || card.summary), prose("Method", card.method), prose("Expected", card.expected),
    card.novelty ? [h("h3", {}, `Novelty: ${card.novelty}`), h("p", { class: "prose" }, card.novelty_reason), card.evidence.length ? h("ul", {}, card.evidence.map((e) => h("li", {}, `${e.title || e.paper_id}${e.title ? ` (${e.paper_id})` : ""}: ${e.why}`))) : null] : null,
    card.fits === null ? null : prose(card.fits ? "Feasibility: fits the recipe" : "Feasibility: does not fit the recipe", card.fit_reason),
    card.seeds.length ? [h("h3", {}, "Seeds"), part("validation"), part("test") ? [h("h3", {}, "Seeds on the test split"), part("test")] : null] : null,
    card.versions.map((v) => [h("h3", {}, `Version ${v.number}: ${v.kind}${v.parent ? ` of version ${v.parent}` : ""}, ${v.outcome}${v.cause ? ` (${v.cause.replaceAll("_", " ")})` : ""}`),
      v.marks.length ? h("p", {}, `Reviewed: ${v.marks.join(", ")} of 5. ${v.advice}`) : null, v.diff ? diffOf(v.diff) : h("p", { class: "soft" }, "Its change is not here.")]),
    card.log ? [h("h3", {}, `End of the log of ${card.log_of}`), h("pre", { tabindex: "0" }, card.log)] : null,
    card.command ? [h("h3", {}, "Run it again"), h("pre", { class: "command", tabindex: "0" }, card.command)] : null,
    card.code_hash ? h("p", { class: "soft mono" }, `code ${card.code_hash}`) : null,
  ].flat(4).filter(Boolean));
};
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
dialog.addEventListener("close", () => {
  if (ideaOf.has(location.hash.slice(1))) history.replaceState(null, "", location.pathname + location.search);
  if (cameFrom?.isConnected) cameFrom.focus({ preventScroll: true });
});
const heed = () => {
  const id = location.hash.slice(1);
  if (ideaOf.has(id)) showCard(id);
  else if (dialog.open) dialog.close();
};
addEventListener("hashchange", heed);

page();
for (const show of [bestView, ideasView, lineageView, effectsView, failuresView, timeView, costView, armsView, sourcesView]) show();
heed();
document.documentElement.dataset.ready = "";

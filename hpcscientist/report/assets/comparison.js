// Several campaigns. Each has a line style and its name at its line, so no colour is needed.
const { sides, unit, hours: equalHours, metric, differing } = block("comparison");
const INKS = ["var(--up)", "var(--down)", "var(--flat)", "var(--bad)", "var(--ink)"];
const DASHES = ["", "6 3", "2 3", "8 3 2 3"];
const ink = (i) => INKS[i % INKS.length];
const dash = (i) => DASHES[Math.floor(i / INKS.length + i) % DASHES.length];
const share = (part) => (part.share ? `${percent(part.share[0])} [${percent(part.share[1])}, ${percent(part.share[2])}]` : NONE);

const models = new Set(sides.map((side) => side.model)).size > 1;
const cut = (text, most) => (text.length > most ? `${text.slice(0, Math.max(1, most - 1))}…` : text);
const COLUMNS = [["campaign", ""], ...(models ? [["model", "wrap"]] : []), ["ideas", "n"], ["improved", "n"], ["share that improved", "n"], ["confirmed", "n"], ["best, validation", "n"], ["best, test", "n"], [unit, "n"], ["tokens", "n"]];
const line = (side, part) => [side.name, ...(models ? [side.model] : []), whole(part.ideas), whole(part.improved), share(part), whole(part.confirmed),
  part.best ? `${signed(part.best.delta)} ${interval(part.best.ci_low, part.best.ci_high)}` : NONE,
  part.best && part.best.test_delta !== null ? `${signed(part.best.test_delta)} ${interval(part.best.test_ci_low, part.best.test_ci_high)}` : NONE, fixed(part.hours, 3), part.tokens ? short(part.tokens) : NONE];

const shares = () => chart("Share of ideas that improved, with 95 % intervals, at equal cost", (into, width, label) => {
  const left = Math.min(240, width * 0.4), right = 20, step = 34, top = 8, height = top + sides.length * step + 34;
  const sx = scale(0, 1, left, width - right);
  const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const at of [0, 0.25, 0.5, 0.75, 1]) svg.append(s("line", { class: "grid", x1: sx(at), x2: sx(at), y1: top, y2: height - 30 }), s("text", { x: sx(at), y: height - 12, "text-anchor": "middle" }, percent(at)));
  sides.forEach((side, i) => {
    const y = top + i * step + step / 2;
    svg.append(s("text", { x: 0, y: y + 4, class: "strong" }, cut(side.name, Math.floor(left / 7))));
    if (!side.equal.share) return;
    const [at, low, high] = side.equal.share;
    const whisker = s("line", { x1: sx(low), x2: sx(high), y1: y, y2: y, "stroke-width": 2 }), dot = s("circle", { cx: sx(at), cy: y, r: 5 });
    whisker.style.stroke = ink(i); dot.style.fill = ink(i);
    svg.append(whisker, dot);
  });
  into.append(svg);
});
view("equal", `The campaign that spent least spent ${fixed(equalHours, 3)} ${unit} on its ideas; of the others the first ideas count that cost no more.`,
  shares(), table("Campaigns at equal cost", COLUMNS, sides.map((side) => line(side, side.equal))),
  h("h3", {}, "In all"), table("Campaigns in all", COLUMNS, sides.map((side) => line(side, side.whole))),
  h("p", { class: "soft" }, "Intervals are 95 %. Hours are of the search's trials; the baseline and the test split are left out, for a campaign that finds more would be charged for it."));

const curves = (title, at, form) => chart(title, (into, width, label) => {
  const narrow = width < 560, height = 280, left = 64, right = narrow ? 16 : 150, top = 20, bottom = 42;
  const maxX = Math.max(...sides.flatMap((side) => side.curve.map((p) => p[0])), 1e-9), maxY = Math.max(...sides.flatMap((side) => side.curve.map((p) => p[at])), 1e-9);
  const sx = scale(0, maxX, left, width - right), sy = scale(0, maxY, height - bottom, top);
  const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const tick of ticks(0, maxY, 4)) svg.append(s("line", { class: "grid", x1: left, x2: width - right, y1: sy(tick), y2: sy(tick) }), s("text", { x: left - 8, y: sy(tick) + 4, "text-anchor": "end" }, form(tick)));
  for (const tick of ticks(0, maxX, width / 120)) svg.append(s("text", { x: sx(tick), y: height - bottom + 20, "text-anchor": "middle" }, plainly(tick)));
  svg.append(s("line", { class: "axis", x1: left, x2: width - right, y1: sy(0), y2: sy(0) }), s("line", { class: "zero", x1: sx(equalHours), x2: sx(equalHours), y1: top, y2: height - bottom }),
    s("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, `${unit} of trials; dashed: equal cost`), s("text", { x: 4, y: 10, class: "strong" }, title.split(" against")[0]));
  const names = [];
  sides.forEach((side, i) => {
    const path = s("path", { class: "best", d: side.curve.reduce((d, p) => `${d}H${sx(p[0])}V${sy(p[at])}`, `M${sx(0)} ${sy(0)}`) });
    path.style.stroke = ink(i); path.style.strokeDasharray = dash(i);
    svg.append(path);
    const end = side.curve.at(-1) ?? [0, 0, 0];
    names.push({ name: side.name, x: sx(end[0]) + 8, y: sy(end[at]) + 4, i });
  });
  if (!narrow) {
    names.sort((a, b) => a.y - b.y).forEach((n, i) => { if (i && n.y - names[i - 1].y < 14) n.y = names[i - 1].y + 14; });
    for (const n of names) { const text = s("text", { x: Math.min(n.x, width - right + 8), y: n.y, class: "strong" }, n.name.slice(0, 20)); text.style.fill = ink(n.i); svg.append(text); }
  }
  into.append(svg);
});
const key = h("ul", { class: "legend" }, sides.map((side, i) => {
  const stroke = s("line", { x1: 0, x2: 28, y1: 8, y2: 8, "stroke-width": 2 }), svg = s("svg", { viewBox: "0 0 28 16", "aria-hidden": "true" }, stroke);
  stroke.style.stroke = ink(i); stroke.style.strokeDasharray = dash(i); svg.style.width = "28px";
  return h("li", {}, svg, `${side.name} (${side.model})`);
}));
view("curves", "Improvements found, and the largest gain so far, against the hours that trials took.", key,
  curves("improvements against hours", 1, whole), curves(`best gain in ${metric} against hours`, 2, plainly));

const best = sides.map((side, i) => ({ side, i, row: side.whole.best })).filter((b) => b.row);
view("bests", best.length ? "Each campaign's best idea against its own baseline: on validation, and where it was tried, on the test split." : "No campaign found an improvement.",
  best.length ? chart("Best effect of each campaign with its interval", (into, width, label) => {
    const left = Math.min(260, width * 0.42), right = 20, step = 44, top = 8, height = top + best.length * step + 36;
    const [low, high] = padded([0, ...best.flatMap(({ row }) => [row.ci_low ?? row.delta, row.ci_high ?? row.delta, row.test_ci_low, row.test_ci_high])], 0.05), sx = scale(low, high, left, width - right);
    const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
    for (const at of ticks(low, high, (width - left) / 90)) svg.append(s("line", { class: "grid", x1: sx(at), x2: sx(at), y1: top, y2: height - 30 }), s("text", { x: sx(at), y: height - 12, "text-anchor": "middle" }, `${at > 0 ? "+" : ""}${plainly(at)}`));
    svg.append(s("line", { class: "zero", x1: sx(0), x2: sx(0), y1: top, y2: height - 30 }));
    best.forEach(({ side, row }, n) => {
      const y = top + n * step + step / 2;
      svg.append(s("text", { x: 0, y: y - 2, class: "strong" }, cut(side.name, Math.floor(left / 7))), s("text", { x: 0, y: y + 13 }, cut(`${row.idea_id} ${row.title}`, Math.floor(left / 6.8))));
      const draw = (value, from, to, at, confirmed) => {
        if (value === null) return;
        if (from !== null && to !== null) svg.append(s("line", { class: "m improvement", x1: sx(from), x2: sx(to), y1: at, y2: at }));
        const shape = mark("improvement", confirmed, 4.5);
        shape.setAttribute("transform", `translate(${sx(value)} ${at})`);
        svg.append(shape);
      };
      draw(row.delta, row.ci_low, row.ci_high, y - 6, false);
      draw(row.test_delta, row.test_ci_low, row.test_ci_high, y + 8, row.confirmed === true);
    });
    into.append(svg);
  }) : null, legend(["improvement", false, "on validation"], ["improvement", true, "on the test split, confirmed"]));

view("settings", differing.length ? `${many(differing.length, "setting")} differ; all others are the same.` : "They were launched with the same settings.",
  table("Differences between the campaigns", [["setting", ""], ...sides.map((side) => [side.name, "wrap"])], differing.map(([name, values]) => [h("code", {}, name), ...values.map((value) => value || NONE)])));
page();
document.documentElement.dataset.ready = "";

"use strict";
// Draws what kith/observe tells of runs: a live one (watch), one that is over (report), several (compare).
// No outside resources, nothing but the document given and, for a live run, "data" beside it.

const COLOURS = ["#2f6fbf", "#d2622a", "#2c8a5a", "#8a55b5", "#b03a5b", "#7a6a1d", "#178a99", "#55606e"];
const NS = "http://www.w3.org/2000/svg";

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {})) if (v !== null && v !== undefined) node.setAttribute(k, v);
  node.append(...children.filter((c) => c !== null && c !== undefined));
  return node;
}
function svg(tag, attributes, text) {
  const node = document.createElementNS(NS, tag);
  for (const [k, v] of Object.entries(attributes || {})) node.setAttribute(k, v);
  if (text !== undefined) node.textContent = text;
  return node;
}
const known = (x) => typeof x === "number" && isFinite(x);
const number = (x, digits = 3) => (known(x) ? Number(x.toPrecision(digits)).toString() : "–");
const percent = (x) => (known(x) ? (100 * x).toFixed(1) + "%" : "–");
const ms = (x) => (known(x) ? (1e3 * x).toFixed(2) : "–");
function short(x, unit = "") {
  if (!known(x)) return "–";
  for (const [size, name] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) if (Math.abs(x) >= size) return number(x / size) + " " + name + unit;
  return number(x) + " " + unit;
}
const clock = (t) => (known(t) && t > 0 ? new Date(1e3 * t).toLocaleTimeString() : "–");
// 0, 1, 2, 5 -> "0–2, 5"
function ranges(ids) {
  const parts = [];
  for (const id of ids) {
    const last = parts[parts.length - 1];
    if (last && id === last[1] + 1) last[1] = id;
    else parts.push([id, id]);
  }
  return parts.map(([a, b]) => (a === b ? `${a}` : `${a}–${b}`)).join(", ");
}
const section = (title, wide, ...children) => el("section", wide ? { class: "wide" } : {}, el("h2", {}, title), ...children);

function ticks(low, high, log) {
  if (log) {
    const all = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); ++e) all.push(10 ** e);
    const inside = all.filter((t) => t >= low && t <= high);
    return inside.length > 1 ? inside : [low, high];
  }
  const raw = (high - low) / 6 || 1, size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * size).find((s) => s >= raw);
  const all = [];
  for (let t = Math.ceil(low / step) * step; t <= high + 1e-9 * step; t += step) all.push(t);
  return all;
}

// series: {name, x, y, colour, dots}. Points without a number are left out.
function chart(title, series, options = {}) {
  const W = 560, H = 230, L = 58, R = 12, T = 10, B = 34, log = options.log;
  const good = (x, y) => known(x) && known(y) && (!log || y > 0);
  const all = series.flatMap((s) => s.x.map((x, i) => [x, s.y[i]]).filter(([x, y]) => good(x, y)));
  const legend = series.length > 1 ? el("p", { class: "soft" }, ...series.flatMap((s) => [el("span", { class: "key", style: "background:" + s.colour }), s.name])) : null;
  if (all.length === 0) return section(title, false, el("p", { class: "soft" }, options.empty || "nothing yet"));
  const bounds = (k) => [Math.min(...all.map((p) => p[k])), Math.max(...all.map((p) => p[k]))];
  let [x0, x1] = bounds(0), [y0, y1] = bounds(1);
  if (options.zero) y0 = Math.min(0, y0);
  if (x1 === x0) x1 = x0 + 1;
  if (y1 === y0) [y0, y1] = log ? [y0 / 2, y1 * 2] : [y0 - 0.5 * Math.abs(y0 || 1), y1 + 0.5 * Math.abs(y1 || 1)];
  const way = (v, a, b) => (log ? Math.log(v / a) / Math.log(b / a) : (v - a) / (b - a));
  const px = (x) => L + ((x - x0) / (x1 - x0)) * (W - L - R), py = (y) => H - B - way(y, y0, y1) * (H - T - B);
  const picture = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": title });
  for (const t of ticks(y0, y1, log)) {
    picture.append(svg("line", { x1: L, x2: W - R, y1: py(t), y2: py(t), stroke: "var(--line)" }));
    picture.append(svg("text", { x: L - 6, y: py(t) + 4, "text-anchor": "end" }, options.format ? options.format(t) : short(t)));
  }
  for (const t of ticks(x0, x1, false)) picture.append(svg("text", { x: px(t), y: H - B + 16, "text-anchor": "middle" }, short(t)));
  picture.append(svg("text", { x: (L + W - R) / 2, y: H - 3, "text-anchor": "middle" }, options.x || "step"));
  for (const s of series) {
    const points = s.x.map((x, i) => [x, s.y[i]]).filter(([x, y]) => good(x, y));
    if (!s.dots) picture.append(svg("polyline", { points: points.map(([x, y]) => px(x).toFixed(1) + "," + py(y).toFixed(1)).join(" "), fill: "none", stroke: s.colour, "stroke-width": 1.6, "stroke-linejoin": "round" }));
    for (const [x, y] of s.dots ? points : points.slice(-1)) {
      const dot = svg("circle", { cx: px(x), cy: py(y), r: 3, fill: s.colour });
      dot.append(svg("title", {}, `${s.name}: ${number(y, 5)} at ${options.x || "step"} ${number(x, 6)}`));
      picture.append(dot);
    }
  }
  return section(title, false, picture, legend);
}

// Rows wait for (or read) columns. cells: {row: {column: value}}.
function matrix(ids, cells, text, id) {
  const n = ids.length, cell = Math.max(8, Math.min(34, Math.floor(500 / Math.max(1, n)))), edge = 30, ratio = 2;
  const canvas = el("canvas", { id, width: ratio * (edge + n * cell), height: ratio * (edge + n * cell), style: `width:${edge + n * cell}px`, role: "img" });
  const pen = canvas.getContext("2d"), style = getComputedStyle(document.documentElement), every = Math.ceil(16 / cell);
  const at = (r, c) => (cells[r] || {})[c];
  const most = Math.max(1e-12, ...ids.flatMap((r) => ids.map((c) => at(r, c) || 0)));
  pen.scale(ratio, ratio);
  pen.font = "10px system-ui, sans-serif";
  pen.fillStyle = style.getPropertyValue("--soft");
  ids.forEach((worker, k) => {
    if (k % every) return;
    pen.textAlign = "right";
    pen.fillText(worker, edge - 4, edge + k * cell + cell / 2 + 3);
    pen.textAlign = "center";
    pen.fillText(worker, edge + k * cell + cell / 2, edge - 5);
  });
  ids.forEach((r, i) => ids.forEach((c, j) => {
    const share = Math.sqrt((at(r, c) || 0) / most);
    pen.fillStyle = r === c ? style.getPropertyValue("--line") : share > 0 ? `rgba(184, 56, 43, ${0.08 + 0.92 * share})` : style.getPropertyValue("--back");
    pen.fillRect(edge + j * cell, edge + i * cell, cell - 1, cell - 1);
  }));
  const told = el("p", { class: "soft" }, "rows: who; columns: of whom. Point at a cell.");
  canvas.onmousemove = (event) => {
    const scale = (edge + n * cell) / canvas.clientWidth;
    const i = Math.floor((event.offsetY * scale - edge) / cell), j = Math.floor((event.offsetX * scale - edge) / cell);
    if (i >= 0 && j >= 0 && i < n && j < n) told.textContent = i === j ? `worker ${ids[i]}` : text(ids[i], ids[j], at(ids[i], ids[j]));
  };
  return el("div", {}, canvas, told);
}

function pairs(ids, cells, most) {
  const all = [];
  for (const r of ids) for (const [c, v] of Object.entries(cells[r] || {})) if (v > 0) all.push([r, Number(c), v]);
  return all.sort((a, b) => b[2] - a[2]).slice(0, most);
}

function roundGraph(run) {
  const ids = run.workers.map((w) => w.id), n = ids.length, R = 170, C = 205, size = n > 32 ? 7 : n > 12 ? 10 : 14;
  const place = (id) => { const a = (2 * Math.PI * ids.indexOf(id)) / n - Math.PI / 2; return [C + R * Math.cos(a), C + R * Math.sin(a)]; };
  const picture = svg("svg", { viewBox: `0 0 ${2 * C} ${2 * C}`, id: "round", style: "max-width:440px;margin:auto", role: "img" });
  const most = Math.max(1e-9, ...run.round.edges.map((e) => e[2]));
  for (const [reader, writer, waited] of run.round.edges) {
    if (!ids.includes(writer)) continue;
    const [x1, y1] = place(writer), [x2, y2] = place(reader);
    const bend = 0.12, mx = (x1 + x2) / 2 + bend * (y2 - y1), my = (y1 + y2) / 2 - bend * (x2 - x1);
    const line = svg("path", { d: `M${x1},${y1} Q${mx},${my} ${x2},${y2}`, fill: "none", stroke: waited > 0 ? "#b8382b" : "var(--soft)", "stroke-width": (1 + 4 * (waited / most)).toFixed(2), "stroke-opacity": waited > 0 ? 0.85 : 0.35, "data-edge": reader + "-" + writer });
    line.append(svg("title", {}, `worker ${reader} read worker ${writer}, waited ${ms(waited)} ms`));
    picture.append(line);
  }
  for (const worker of run.workers) {
    const [x, y] = place(worker.id), gone = worker.status === "lost" || worker.status === "failed" || worker.status === "silent";
    picture.append(svg("circle", { cx: x, cy: y, r: size, fill: gone ? "#b8382b" : "#2f6fbf" }));
    picture.append(svg("text", { x, y: y + size / 3, "text-anchor": "middle", style: `fill:#fff;font-size:${size}px` }, worker.id));
  }
  return picture;
}

let sortKey = "id", sortDown = false;
function workersTable(run, redraw) {
  const columns = [["worker", "id", (w) => w.id], ["status", "status", (w) => w.status + (w.status === "silent" ? ` ${Math.round(w.silent)} s` : "")], ["step", "step", (w) => w.step], ["loss", "loss", (w) => number(w.loss, 5)],
    ["own ms", "own", (w) => ms(w.own)], ["waiting", "waiting", (w) => percent(w.waiting)], [run.unit + "s/s", "units_per_second", (w) => short(w.units_per_second)], ["consensus", "consensus", (w) => number(w.consensus)],
    ["read", "bytes_read", (w) => short(w.bytes_read, "B")], ["held up s", "held_up", (w) => number(w.held_up)], ["late", "late", (w) => w.late], ["lost", "lost", (w) => w.lost], ["starts", "starts", (w) => w.starts], ["host", "host", (w) => w.host || "–"]];
  const order = [...run.workers].sort((a, b) => (a[sortKey] > b[sortKey] ? 1 : a[sortKey] < b[sortKey] ? -1 : a.id - b.id) * (sortDown ? -1 : 1));
  const heads = columns.map(([title, key]) => {
    const cell = el("th", { class: "sorts" }, title + (key === sortKey ? (sortDown ? " ▾" : " ▴") : ""));
    cell.onclick = () => { sortDown = key === sortKey ? !sortDown : key !== "id"; sortKey = key; redraw(); };
    return cell;
  });
  const rows = order.map((w) => el("tr", { "data-worker": w.id }, ...columns.map(([, key, show]) => el("td", { "data-key": key, "data-value": w[key], class: key === "status" ? w.status : null }, String(show(w))))));
  const failed = run.workers.filter((w) => w.error).map((w) => el("p", { class: "notice bad" }, `worker ${w.id}: ${w.error}`));
  return el("div", {}, ...failed, el("div", { class: "scroll" }, el("table", { id: "workers" }, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows))));
}

function tile(id, name, text, value) {
  return el("div", { class: "tile" }, el("span", { class: "soft" }, name), el("b", { id, "data-value": value }, text));
}

let span = "recent";
function runSections(run, redraw) {
  const c = run.curves, last = (k) => (known(c[k][c[k].length - 1]) ? c[k][c[k].length - 1] : null), ids = run.workers.map((w) => w.id);
  const rest = run.steps > 0 ? ` / ${run.steps}` : "", e = c.evaluations, validation = e.length ? e[e.length - 1].loss : null;
  const one = (key, colour) => [{ name: key, x: c.step, y: c[key], colour }];
  const spans = el("p", {}, ...["recent", "whole"].map((s) => { const b = el("button", { "aria-pressed": String(s === span) }, s === "recent" ? "last steps" : "whole run"); b.onclick = () => { span = s; redraw(); }; return b; }));
  const longest = pairs(ids, run.waits[span], 8).map(([r, p, v]) => el("tr", {}, el("td", { class: "text" }, `worker ${r} waits for worker ${p}`), el("td", {}, percent(v))));
  const links = pairs(ids, run.links.read, 8).map(([r, p, v]) => el("tr", {}, el("td", { class: "text" }, `worker ${r} read of worker ${p}`), el("td", {}, short(v, "B")), el("td", {}, short((run.links.rate[r] || {})[p], "B/s"))));
  return [
    el("div", { class: "tiles" }, tile("step", "step", run.step + rest, run.step), tile("loss", "training loss", number(last("loss"), 5), last("loss")), tile("validation", "validation loss", number(validation, 5), validation),
      tile("rate", run.unit + "s/s", short(run.units_per_second), run.units_per_second), tile("waiting", "waiting", percent(last("waiting")), last("waiting")), tile("consensus", "consensus distance", number(last("consensus")), last("consensus")),
      tile("members", "members, view", `${run.members.length}, ${run.view}`, run.members.length)),
    run.slowest ? el("p", { class: "notice", id: "slowest", "data-worker": run.slowest.worker, "data-share": run.slowest.share }, run.slowest.sentence) : null,
    el("div", { class: "grid" },
      chart("Loss", [...one("loss", COLOURS[0]).map((s) => ({ ...s, name: "training" })), { name: "validation", x: e.map((p) => p.step), y: e.map((p) => p.loss), colour: COLOURS[1], dots: true }]),
      chart(`Throughput, ${run.unit}s/s`, one("units_per_second", COLOURS[2]), { zero: true }),
      chart("Consensus distance", [...one("consensus", COLOURS[3]).map((s) => ({ ...s, name: "told by mixes" })), { name: "measured", x: e.map((p) => p.step), y: e.map((p) => p.consensus), colour: COLOURS[4], dots: true }], { log: true, empty: "no mix has told it, and no evaluation has measured it" }),
      chart("Share of time waiting", one("waiting", COLOURS[1]), { zero: true, format: percent }),
      section("Who waits for whom", false, spans, matrix(ids, run.waits[span], (r, p, v) => `worker ${r} waits for worker ${p}: ${percent(v || 0)} of its time`, "waits"), el("table", { id: "longest" }, ...longest)),
      section(`Who read whom in step ${run.round.step}`, false, roundGraph(run), el("p", { class: "soft" }, "An arrow's width is the wait. Red circles are silent, lost or failed.")),
      section("Bytes per link", false, matrix(ids, run.links.read, (r, p, v) => `worker ${r} read ${short(v || 0, "B")} of worker ${p}`, "links"), el("table", {}, ...links)),
      section("Members and views", false, el("div", { class: "scroll" }, el("table", { class: "text", id: "views" }, ...run.views.map((v) => el("tr", {}, el("td", {}, "view " + v.view), el("td", {}, `from step ${v.step}, ${clock(v.time)}`), el("td", {}, ranges(v.members))))),
        el("table", { class: "text", id: "events" }, ...[...run.events].reverse().slice(0, 100).map((v) => el("tr", {}, el("td", {}, clock(v.time)), el("td", {}, "step " + v.step), el("td", {}, `worker ${v.worker} ${v.text}`)))))),
      section("Workers", true, workersTable(run, redraw))),
  ];
}

const heading = (title, below) => el("div", {}, el("h1", {}, title), el("p", { class: "soft" }, below));

// One slow step: what every worker did around it.
function timeline(slow) {
  const rows = slow.rows, workers = [...new Set(rows.map((r) => r.worker))].slice(0, 64), H = workers.length > 24 ? 9 : 16, L = 70, W = 1100;
  const begin = Math.min(...rows.map((r) => r.time - r.seconds)), end = Math.max(...rows.map((r) => r.time)), px = (t) => L + ((t - begin) / (end - begin || 1)) * (W - L - 10);
  const picture = svg("svg", { viewBox: `0 0 ${W} ${workers.length * H + 24}`, role: "img" });
  workers.forEach((w, k) => { if (H > 10 || k % 4 === 0) picture.append(svg("text", { x: L - 6, y: k * H + H - 3, "text-anchor": "end" }, "worker " + w)); });
  for (const r of rows) {
    const y = workers.indexOf(r.worker) * H, start = r.time - r.seconds, split = r.time - r.waited;
    const why = Object.entries(r.peers).filter(([, v]) => v > 0).map(([p, v]) => `worker ${p} ${ms(v)} ms`).join(", ");
    const words = `worker ${r.worker}, step ${r.step}: ${ms(r.seconds)} ms, waited ${ms(r.waited)} ms${why ? " (for " + why + ")" : ""}`;
    for (const [a, b, colour] of [[start, split, r.step === slow.step ? "#215ea8" : "#9bb8d8"], [split, r.time, r.step === slow.step ? "#b8382b" : "#e3aca6"]]) {
      const bar = svg("rect", { x: px(a), y: y + 1, width: Math.max(0.4, px(b) - px(a) - 0.6), height: H - 3, fill: colour });
      bar.append(svg("title", {}, words));
      picture.append(bar);
    }
  }
  picture.append(svg("text", { x: L, y: workers.length * H + 16 }, `${ms(end - begin)} ms from edge to edge; blue: own work, red: waiting (drawn at the end of a step); darker: step ${slow.step}`));
  return el("div", {}, el("p", {}, slow.sentence), picture);
}

const rowsOf = (list) => el("table", { class: "text" }, ...list.map((row) => el("tr", {}, ...row.map((c) => el("td", {}, String(c))))));

function report(page, doc) {
  const run = doc.run, redraw = () => report(page, doc);
  page.replaceChildren(heading("Report of " + run.name, run.title + (run.title ? " · " : "") + run.folder), el("p", { id: "summary" }, doc.summary), ...runSections(run, redraw).filter(Boolean),
    el("div", { class: "grid", style: "margin-top:14px" },
      section("Around the slowest steps", true, ...(doc.slow.length ? doc.slow.map(timeline) : [el("p", { class: "soft" }, "no step took much longer than the others")])),
      section("Faults and what they cost", true, doc.faults.length ? rowsOf(doc.faults.map((f) => [clock(f.time), "step " + f.step, f.text, f.cost])) : el("p", { class: "soft" }, "none")),
      section("Plan against measured", false, doc.plan.rows.length ? rowsOf(doc.plan.rows) : null, el("p", { class: "soft" }, doc.plan.note)),
      section("Environment", false, rowsOf(doc.environment)),
      section("Configuration", true, el("pre", {}, doc.config))));
}

let axis = "seconds";
function compare(page, doc) {
  const redraw = () => compare(page, doc), names = { seconds: "seconds of training", step: "step", bytes: "bytes read by all workers" };
  const buttons = el("p", {}, ...Object.keys(names).map((a) => { const b = el("button", { "aria-pressed": String(a === axis), "data-axis": a }, { seconds: "time", step: "steps", bytes: "bytes" }[a]); b.onclick = () => { axis = a; redraw(); }; return b; }));
  const bytesAt = (run, step) => { const k = run.step.findIndex((s) => s >= step); return run.bytes[k < 0 ? run.bytes.length - 1 : k]; };
  const line = (key) => doc.runs.map((r, k) => ({ name: r.name, x: r[axis], y: r[key], colour: COLOURS[k % 8] }));
  const evaluation = doc.runs.map((r, k) => ({ name: r.name, x: r.evaluations.map((p) => (axis === "bytes" ? bytesAt(r, p.step) : p[axis])), y: r.evaluations.map((p) => p.loss), colour: COLOURS[k % 8] }));
  page.replaceChildren(heading(doc.title, doc.runs.map((r) => `${r.name}: ${r.title}`).join(" · ")), buttons,
    el("div", { class: "grid" }, chart("Validation loss", evaluation, { x: names[axis] }), chart("Training loss", line("loss"), { x: names[axis] }), chart("Throughput", line("units_per_second"), { x: names[axis], zero: true }), chart("Share of time waiting", line("waiting"), { x: names[axis], zero: true, format: percent }), chart("Consensus distance", line("consensus"), { x: names[axis], log: true, empty: "not told by these runs" }),
      section("In the end", false, el("div", { class: "scroll" }, el("table", { id: "ends" }, ...doc.table.map((row, k) => el("tr", {}, ...row.map((c, j) => el(k === 0 ? "th" : "td", j === 0 ? { class: "text" } : {}, c))))))),
      section("Settings that differ", true, doc.settings.length > 1 ? rowsOf(doc.settings) : el("p", { class: "soft" }, "none"))));
}

function watch(page) {
  const token = new URLSearchParams(location.search).get("token") || "";
  let run = null, trouble = "";
  const draw = () => {
    const at = page.querySelector(".scroll table#workers")?.parentElement.scrollTop || 0;
    page.replaceChildren(heading(run ? run.name + (run.over ? " (over)" : "") : "kith watch", run ? `${run.title}${run.title ? " · " : ""}${run.folder} · ${clock(run.now)}` : "waiting for the run"),
      trouble ? el("p", { class: "notice bad", id: "trouble" }, trouble) : "", ...(run && run.workers.length ? runSections(run, draw).filter(Boolean) : []));
    const table = page.querySelector("table#workers");
    if (table) table.parentElement.scrollTop = at;
  };
  const ask = async () => {
    try {
      const answer = await fetch("data", { headers: { Authorization: "Bearer " + token }, cache: "no-store" });
      if (!answer.ok) throw new Error(await answer.text());
      run = await answer.json();
      trouble = "";
    } catch (error) {
      trouble = `kith watch does not answer (${error.message}); shown is what it said last. Trying again every second.`;
    }
    // Somebody who points at a cell reads what it says.
    if (!run || (!document.hidden && !page.querySelector("canvas:hover"))) draw();
    setTimeout(ask, 1000);
  };
  draw();
  ask();
}

{
  const page = document.getElementById("page"), doc = JSON.parse(document.getElementById("data").textContent);
  ({ watch, report, compare })[doc.page](page, doc);
}

/* The timeline that one can zoom. Data: #tl-timeline, written by report/zoomable_timeline.py. Everything is drawn on one canvas;
   what is shorter than a pixel is added up per pixel, so a frame costs the same for a step and for the whole run. */
(() => {
  const BAR = 20, TOP = 26, WIDE = 158, NARROW = 560, SMALLEST_NS = 200;
  const TAG = { wait: "SYNC", loader: "LOADER", idle_sync: "SYNC", idle_dataloader: "LOADER", idle_host: "HOST", idle_launch: "LAUNCH", idle_other: "OTHER" };
  const WAITS = (kind) => kind === "wait" || kind === "loader" || kind.startsWith("idle_");
  const $ = (id) => document.getElementById(id);
  let data, canvas, pen, size, lanes, colors, hatch, view, home, chosen = null, stalls = [], gaps = [], queued = false;

  const ms = (ns) => {
    const value = ns / 1e6;
    if (value === 0) return "0 ms";
    if (value < 0.01) return `${Number((1000 * value).toPrecision(2))} µs`;
    return `${value.toFixed(value < 0.1 ? 3 : value < 100 ? 2 : 0)} ms`;
  };

  async function unpack() {
    const bytes = Uint8Array.from(atob(data.data), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const raw = new Uint8Array(await new Response(stream).arrayBuffer());
    let at = 0;
    const next = () => {
      let value = 0, scale = 1, byte;
      do { byte = raw[at++]; value += (byte & 127) * scale; scale *= 128; } while (byte > 127);
      return value;
    };
    for (const lane of data.lanes) {
      const n = lane.count;
      lane.start = new Float64Array(n); lane.end = new Float64Array(n); lane.reach = new Float64Array(n);
      lane.text = new Uint32Array(n); lane.kind = new Uint8Array(n); lane.link = new Uint32Array(n);
      for (let i = 0, t = 0; i < n; i++) lane.start[i] = t += next();
      for (let i = 0, far = 0; i < n; i++) { lane.end[i] = lane.start[i] + next(); lane.reach[i] = far = Math.max(far, lane.end[i]); }
      for (let i = 0; i < n; i++) lane.text[i] = next();
      for (let i = 0; i < n; i++) lane.kind[i] = next();
      for (let i = 0; i < n; i++) lane.link[i] = next();
    }
    lanes = data.lanes;
    lanes.forEach((lane, row) => { for (let i = 0; i < lane.count; i++) {
      const kind = data.kinds[lane.kind[i]];
      if (kind === "wait") stalls.push([row, i]); else if (kind.startsWith("idle_")) gaps.push([row, i]);
    } });
    const begin = ([row, i]) => lanes[row].start[i], length = ([row, i]) => lanes[row].end[i] - lanes[row].start[i];
    stalls.sort((a, b) => begin(a) - begin(b));
    gaps.sort((a, b) => length(b) - length(a) || begin(a) - begin(b));
  }

  /* first position whose value is above `limit`, in an array that only grows */
  const above = (values, limit) => {
    let low = 0, high = values.length;
    while (low < high) { const mid = (low + high) >> 1; if (values[mid] > limit) high = mid; else low = mid + 1; }
    return low;
  };

  function look() {
    const style = getComputedStyle(document.documentElement), get = (name) => style.getPropertyValue(name).trim();
    const named = { operator: "--operator", call: "--call", wait: "--block", loader: "--orange", kernel: "--gpu", copy: "--copying", memset: "--copying",
      collective: "--purple", idle_sync: "--lost", idle_dataloader: "--lost2", idle_host: "--lost3", idle_launch: "--lost4", idle_other: "--lost5" };
    colors = Object.fromEntries(Object.entries(named).map(([kind, name]) => [kind, get(name)]));
    Object.assign(colors, { ink: get("--ink"), soft: get("--soft"), line: get("--line"), accent: get("--accent"), paper: get("--paper"), onblue: get("--onblue") });
    const tile = document.createElement("canvas"), brush = tile.getContext("2d");
    tile.width = tile.height = 8;
    brush.strokeStyle = get("--hatch"); brush.globalAlpha = 0.6; brush.lineWidth = 2;
    for (const x of [-8, 0, 8]) { brush.moveTo(x, 8); brush.lineTo(x + 8, 0); }
    brush.stroke();
    hatch = pen.createPattern(tile, "repeat");
  }

  function layout() {
    const width = canvas.parentElement.clientWidth, narrow = width < NARROW;
    let y = TOP, before = null;
    for (const lane of lanes) {
      const first = lane.name !== before;
      y += first ? (before === null ? 4 : 12) + (narrow ? 17 : 0) : 3;
      Object.assign(lane, { y, first });
      before = lane.name;
      y += BAR;
    }
    size = { width, height: y + 10, left: narrow ? 0 : WIDE, narrow, ratio: window.devicePixelRatio || 1 };
    canvas.width = Math.round(width * size.ratio); canvas.height = Math.round(size.height * size.ratio);
    canvas.style.height = `${size.height}px`;
  }

  const X = (ns) => size.left + ((ns - view.from) / (view.to - view.from)) * (size.width - size.left);
  const T = (x) => view.from + ((x - size.left) / (size.width - size.left)) * (view.to - view.from);

  function draw() {
    queued = false;
    pen.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
    pen.clearRect(0, 0, size.width, size.height);
    axis();
    pen.save(); pen.beginPath(); pen.rect(size.left, 0, size.width - size.left, size.height); pen.clip();
    for (const lane of lanes) bars(lane);
    if (chosen) mark();
    pen.restore();
    labels();
    told();
  }
  const redraw = () => { if (!queued) { queued = true; requestAnimationFrame(draw); } };

  function axis() {
    pen.font = "11px system-ui, sans-serif"; pen.textBaseline = "alphabetic"; pen.textAlign = "center";
    const raw = (view.to - view.from) / Math.max(2, (size.width - size.left) / 130), power = 10 ** Math.floor(Math.log10(raw));
    const every = [1, 2, 5, 10].find((m) => m * power >= raw) * power, zero = stepAt(view.from)[1];
    const digits = Math.max(0, -Math.floor(Math.log10(every / 1e6) + 1e-9));
    for (let k = Math.ceil((view.from - zero) / every); zero + k * every <= view.to; k++) {
      const x = Math.round(X(zero + k * every)) + 0.5;
      pen.fillStyle = colors.line; pen.fillRect(x, 18, 1, size.height - 24);
      pen.fillStyle = colors.soft;
      if (x > size.left + 24 && x < size.width - 24) pen.fillText(((k * every) / 1e6).toFixed(digits) + " ms", x, 12);
    }
    pen.fillStyle = colors.ink;
    for (const [, start] of data.steps) if (start >= view.from && start <= view.to) { pen.globalAlpha = 0.55; pen.fillRect(Math.round(X(start)), 18, 1.5, size.height - 24); pen.globalAlpha = 1; }
  }
  const stepAt = (ns) => data.steps.findLast(([, start]) => start <= ns) || data.steps[0];

  function bars(lane) {
    const perPixel = (view.to - view.from) / (size.width - size.left), late = [];
    let cell = -1, cover = 0, longest = 0, kind = 0;
    const flush = () => {
      if (cell < 0) return;
      pen.globalAlpha = Math.min(1, 0.35 + 0.65 * cover); pen.fillStyle = colors[data.kinds[kind]];
      pen.fillRect(size.left + cell, lane.y, 1, BAR);
      pen.globalAlpha = 1; cell = -1; cover = longest = 0;
    };
    for (let i = above(lane.reach, view.from); i < lane.count && lane.start[i] < view.to; i++) {
      if (lane.end[i] <= view.from) continue;
      const wide = (lane.end[i] - lane.start[i]) / perPixel, name = data.kinds[lane.kind[i]];
      if (name === "wait") { late.push(i); continue; }
      const x = (lane.start[i] - view.from) / perPixel;
      if (wide >= 1.5) { flush(); bar(lane, i, name, x, wide); continue; }
      if (Math.floor(x) !== cell) { flush(); cell = Math.max(0, Math.floor(x)); }
      cover += wide;
      if (wide >= longest) { longest = wide; kind = lane.kind[i]; }
    }
    flush();
    for (const i of late) bar(lane, i, "wait", (lane.start[i] - view.from) / perPixel, Math.max(2, (lane.end[i] - lane.start[i]) / perPixel));
  }

  function bar(lane, i, kind, x, wide) {
    const left = size.left + Math.max(x, -2), right = size.left + Math.min(x + wide, size.width - size.left + 2), w = right - left;
    const gap = w > 3 && !WAITS(kind) ? 0.6 : 0;  // a hair between neighbours
    pen.fillStyle = colors[kind]; pen.fillRect(left, lane.y, w - gap, BAR);
    if (WAITS(kind) && w >= 3) { pen.fillStyle = hatch; pen.fillRect(left, lane.y, w, BAR); }
    if (w < 34) return;
    const tag = kind === "wait" && lane.link[i] && /to$|copy/i.test(data.waits[lane.link[i] - 1][0].split(" at ")[0]) ? "COPY" : TAG[kind];
    pen.textBaseline = "middle"; pen.textAlign = "left";
    pen.font = tag ? "650 10px system-ui, sans-serif" : "11px system-ui, sans-serif";
    let text = tag || data.names[lane.text[i]];
    if (!tag) text = text.replace(/\(anonymous namespace\)::/g, "").replace(/[<(].*$/, "").replace(/^.*(::| )(?=\w)/, "");
    const room = w - 10, full = pen.measureText(text).width;
    if (full > room) { if (tag || room < 28) return; text = text.slice(0, Math.max(2, Math.floor((text.length * room) / full) - 1)) + "…"; }
    const at = tag ? left + (w - full) / 2 : left + 5;
    if (tag) { pen.fillStyle = colors[kind]; pen.fillRect(at - 4, lane.y + 3, full + 8, BAR - 6); }
    pen.fillStyle = tag || kind === "copy" || kind === "collective" || kind === "memset" ? "#14171a" : kind === "kernel" ? colors.onblue : colors.ink;
    pen.fillText(text, at, lane.y + BAR / 2 + 0.5);
  }

  function labels() {
    pen.textAlign = "left"; pen.textBaseline = "middle";
    for (const lane of lanes) {
      const y = size.narrow ? lane.y - 8 : lane.y + BAR / 2;
      if (lane.first) { pen.fillStyle = colors.ink; pen.font = "12px system-ui, sans-serif"; pen.fillText(lane.name, 0, y); }
      if (!lane.part || size.narrow) continue;
      pen.fillStyle = colors.soft; pen.font = "10.5px system-ui, sans-serif";
      if (!lane.first) pen.fillText(lane.part.replace("CUDA calls and waits", "CUDA calls, waits"), 0, y);
    }
  }

  function mark() {
    const { lane, i } = chosen, x = X(lane.start[i]), w = Math.max(3, X(lane.end[i]) - x), cause = causeOf(chosen);
    pen.strokeStyle = colors.ink; pen.lineWidth = 2; pen.strokeRect(x - 1, lane.y - 1, w + 2, BAR + 2);
    if (!cause) return;
    const from = X(cause.lane.end[cause.i]), y = cause.lane.y + BAR, middle = (y + lane.y) / 2;
    pen.strokeStyle = colors.accent; pen.setLineDash([5, 3]);
    pen.strokeRect(X(cause.lane.start[cause.i]), cause.lane.y, Math.max(3, from - X(cause.lane.start[cause.i])), BAR);
    pen.beginPath(); pen.moveTo(from, y); pen.bezierCurveTo(from, middle, x, middle, x, lane.y - 3); pen.stroke(); pen.setLineDash([]);
    pen.beginPath(); pen.moveTo(x - 4, lane.y - 9); pen.lineTo(x, lane.y - 2); pen.lineTo(x + 4, lane.y - 9); pen.stroke();
  }

  /* the wait that an idle gap belongs to */
  function causeOf({ lane, i }) {
    if (!lane.link[i] || data.kinds[lane.kind[i]] === "wait") return null;
    const found = stalls.find(([row, at]) => lanes[row].link[at] === lane.link[i]);
    return found ? { lane: lanes[found[0]], i: found[1] } : null;
  }

  function told() {
    const [number, start] = stepAt(view.from), seen = data.steps.filter(([, a, b]) => b > view.from && a < view.to);
    const steps = seen.length > 1 ? say("steps {first} to {last}", { first: seen[0][0], last: seen[seen.length - 1][0] }) : say("step {number}", { number: seen.length ? seen[0][0] : number });
    $("range").textContent = say("{steps} · {time} in view, starting at {start} ms", { steps, time: ms(Math.max(0, view.to - view.from)), start: ((view.from - start) / 1e6).toFixed(2) });
    const brush = $("brush");
    if (!brush) return; // a recording without a GPU has no strip
    brush.setAttribute("x", (920 * Math.max(0, view.from)) / data.end);
    brush.setAttribute("width", Math.max(3, (920 * (Math.min(view.to, data.end) - Math.max(0, view.from))) / data.end));
  }

  function show(from, to) {
    const least = SMALLEST_NS, pad = data.end * 0.02, length = Math.min(Math.max(to - from, least), data.end + 2 * pad);
    const start = Math.min(Math.max(from + (to - from - length) / 2, -pad), data.end + pad - length);
    view = { from: start, to: start + length };
    redraw();
  }
  const zoom = (factor, around = (view.from + view.to) / 2) => show(around - (around - view.from) * factor, around + (view.to - around) * factor);
  const pan = (share) => { const by = (view.to - view.from) * share; show(view.from + by, view.to + by); };

  const describe = ({ lane, i }) => {
    const kind = data.kinds[lane.kind[i]], length = ms(lane.end[i] - lane.start[i]), cause = causeOf({ lane, i });
    if (kind === "wait") {
      const [what, , idle] = data.waits[lane.link[i] - 1];
      if (idle === null) return say("{what}: host blocked {length}", { what, length });
      return say("{what}: host blocked {length}, GPU idle because of it {idle}", { what, length, idle: ms(idle) });
    }
    const text = `${data.names[lane.text[i]]}, ${length}`;
    return cause ? say("{text}; cause: {cause}", { text, cause: data.waits[lane.link[i] - 1][0] }) : text;
  };

  function choose(found, speak = true) {
    chosen = found;
    const box = $("selected"), go = $("cause"), row = $("row");
    const cause = found && causeOf(found), wait = found && (cause || (data.kinds[found.lane.kind[found.i]] === "wait" ? found : null));
    const anchor = wait ? data.waits[wait.lane.link[wait.i] - 1][3] : "";
    if (speak) box.textContent = found ? describe(found) : say("Nothing selected.");
    go.hidden = !cause; row.hidden = !anchor || !$(anchor);
    if (!row.hidden) { row.href = `#${anchor}`; }
    redraw();
    return anchor;
  }

  /* the event made visible: at least a fortieth of the view, inside it */
  function reveal({ lane, i }) {
    const a = lane.start[i], b = lane.end[i], length = view.to - view.from;
    if (b - a < length / 400 || b - a > length) show((a + b) / 2 - Math.max(b - a, 2000) * 3, (a + b) / 2 + Math.max(b - a, 2000) * 3);
    else if (a < view.from || b > view.to) show((a + b - length) / 2, (a + b + length) / 2);
  }

  function walk(way) {
    if (!stalls.length) { $("selected").textContent = say("The host did not wait in this recording."); return; }
    const at = chosen ? chosen.lane.start[chosen.i] : way > 0 ? view.from - 1 : view.to + 1;
    const order = way > 0 ? stalls : [...stalls].reverse();
    visit(order.find(([row, i]) => way * (lanes[row].start[i] - at) > 0) || order[0]);
  }
  const visit = ([row, i]) => { const found = { lane: lanes[row], i }; choose(found); reveal(found); };

  /* idle gaps by their size: from the one that is chosen to the next smaller one */
  function nextGap() {
    if (!gaps.length) { $("selected").textContent = say("No idle gap is in this recording."); return; }
    const place = chosen ? gaps.findIndex(([row, i]) => lanes[row] === chosen.lane && i === chosen.i) : -1, next = (place + 1) % gaps.length;
    visit(gaps[next]);
    $("selected").textContent = say("Gap {number} of {count} by size: {gap}", { number: next + 1, count: gaps.length, gap: $("selected").textContent });
  }

  /* the wait of a row in the table: in the typical step, where it has one there */
  function openRow(anchor, focus) {
    const mine = stalls.filter(([row, i]) => data.waits[lanes[row].link[i] - 1][3] === anchor);
    if (!mine.length) return false;
    const [row, i] = mine.find(([r, k]) => lanes[r].start[k] >= home.from && lanes[r].start[k] < home.to) || mine[0];
    const found = { lane: lanes[row], i };
    choose(found);
    const [, start, end] = stepAt(found.lane.start[i]);
    show(start, end); reveal(found);
    if (focus) { $("timeline").scrollIntoView(); canvas.focus({ preventScroll: true }); }
    return true;
  }

  function under(x, y) {
    const lane = lanes.find((one) => y >= one.y - 1 && y <= one.y + BAR + 1);
    if (!lane || x < size.left) return null;
    const slack = (3 * (view.to - view.from)) / (size.width - size.left), t = T(x);
    let best = null, far = slack;
    for (let i = above(lane.start, t + slack) - 1, steps = 0; i >= 0 && steps < 400; i--, steps++) {
      const distance = t < lane.start[i] ? lane.start[i] - t : t > lane.end[i] ? t - lane.end[i] : 0;
      const wait = data.kinds[lane.kind[i]] === "wait";
      if (distance < far || (distance === far && wait)) { best = { lane, i }; far = distance; if (!distance) break; }
      if (lane.reach[i] < t - slack) break;
    }
    return best;
  }

  function listen() {
    const keys = { ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6), "0": () => show(home.from, home.to),
      a: () => show(0, data.end), n: () => walk(1), p: () => walk(-1), g: nextGap, Escape: () => choose(null), "?": () => { $("keys").open = !$("keys").open; },
      c: () => { const cause = chosen && causeOf(chosen); if (cause) { choose(cause); reveal(cause); } }, Enter: () => { if (!$("row").hidden) $("row").click(); } };
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
      event.preventDefault(); keys[event.key]();
    });
    for (const button of document.querySelectorAll("[data-key]")) button.addEventListener("click", () => keys[button.dataset.key]());
    canvas.addEventListener("wheel", (event) => {
      const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (!sideways && !event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
      event.preventDefault();
      const by = event.deltaMode === 1 ? 16 : 1;
      if (sideways) pan(((event.deltaX || event.deltaY) * by) / size.width);
      else zoom(Math.exp(Math.max(-240, Math.min(240, event.deltaY * by)) * 0.002), T(event.offsetX));
    }, { passive: false });

    const down = new Map(), tip = $("tip");
    let moved = 0;
    canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); down.set(event.pointerId, event.offsetX); moved = 0; tip.hidden = true; });
    canvas.addEventListener("pointermove", (event) => {
      if (!down.has(event.pointerId)) { hover(event); return; }
      const before = [...down.values()], was = down.get(event.pointerId), t = T(was);
      down.set(event.pointerId, event.offsetX); moved += Math.abs(event.offsetX - was);
      if (down.size === 1 && moved > 3) { const by = t - T(event.offsetX); show(view.from + by, view.to + by); }
      if (down.size === 2) { const now = [...down.values()], wide = (two) => Math.max(10, Math.abs(two[0] - two[1])); zoom(wide(before) / wide(now), T((now[0] + now[1]) / 2)); }
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (event) => {
      if (end === "pointerup" && down.size === 1 && moved <= 3) choose(under(event.offsetX, event.offsetY));
      down.delete(event.pointerId);
    });
    canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
    canvas.addEventListener("dblclick", (event) => { const found = under(event.offsetX, event.offsetY); if (found) show(2 * found.lane.start[found.i] - found.lane.end[found.i], 2 * found.lane.end[found.i] - found.lane.start[found.i]); });
    const hover = (event) => {
      const found = under(event.offsetX, event.offsetY);
      tip.hidden = !found;
      if (!found) return;
      tip.textContent = describe(found);
      tip.style.left = `${Math.max(0, Math.min(event.offsetX + 14, size.width - tip.offsetWidth - 4))}px`;
      tip.style.top = `${found.lane.y + BAR + 8}px`;
    };

    const strip = $("strip");
    const jump = (event) => { const box = strip.getBoundingClientRect(), t = (data.end * (event.clientX - box.left)) / box.width, half = (view.to - view.from) / 2; show(t - half, t + half); };
    strip?.addEventListener("pointerdown", (event) => { strip.setPointerCapture(event.pointerId); jump(event); });
    strip?.addEventListener("pointermove", (event) => { if (event.buttons) jump(event); });

    $("row").addEventListener("click", (event) => { const row = $($("row").hash.slice(1)); if (row) { event.preventDefault(); history.replaceState(null, "", $("row").hash); for (let one = row; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true; row.scrollIntoView({ block: "center" }); row.classList.add("here"); } });
    for (const link of document.querySelectorAll("[data-stall]")) link.addEventListener("click", (event) => {
      if (!openRow(link.dataset.stall, true)) return;
      event.preventDefault(); history.replaceState(null, "", `#${link.dataset.stall}`);
    });
    addEventListener("hashchange", () => openRow(location.hash.slice(1), false));
    addEventListener("resize", () => { layout(); redraw(); });
    const recolor = () => { look(); redraw(); };
    new MutationObserver(recolor).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) matchMedia(query).addEventListener("change", recolor);
  }

  document.addEventListener("DOMContentLoaded", async () => {
    if (!$("tl-timeline") || !window.DecompressionStream) return;
    data = JSON.parse($("tl-timeline").textContent);
    canvas = $("lanes"); pen = canvas.getContext("2d");
    home = view = { from: data.view[0], to: data.view[1] };
    await unpack();
    $("timeline").classList.add("live");
    look(); layout(); listen(); draw();
    if (location.hash.startsWith("#stall-")) openRow(location.hash.slice(1), false);
    canvas.dataset.ready = performance.now().toFixed(0);
  });
})();

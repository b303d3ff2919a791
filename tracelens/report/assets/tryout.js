/* Switches and sliders. Combinations were replayed when the page was made and are only looked up here; weighted totals
   are computed as schemes/ranking.py does: over the criteria judged of all, and deciding only between those that cannot be
   told apart. */
(() => {
  const read = (id) => { const block = document.getElementById(id); return block ? JSON.parse(block.textContent) : null; };
  const $ = (id) => document.getElementById(id);

  function combinations() {
    const found = read("tl-tryout"), switches = [...document.querySelectorAll("#tryout input")];
    if (!found || !switches.length) return;
    const show = () => {
      const key = switches.reduce((sum, one) => sum + (one.checked ? 2 ** Number(one.value) : 0), 0), row = found[key];
      const bar = $("then"), now = Number(bar.parentElement.querySelector(".bar-before").getAttribute("width"));
      bar.setAttribute("width", row ? row.x[0] : now);
      $("then-range").setAttribute("d", row ? `M${60 + row.x[1]} 50H${60 + row.x[2]}M${60 + row.x[1]} 45v10M${60 + row.x[2]} 45v10` : "");
      $("then-text").setAttribute("x", 60 + (row ? Math.max(row.x[0], row.x[2], 0) : now) + 10);
      $("then-text").textContent = row ? `${row.step} · ${row.gain}` : "";
      const levers = row ? row.schemes.join(" and ") : "", known = row && row.measured ? { levers, measured: row.measured } : { levers };
      const what = !levers ? "" : " " + (known.measured ? say("This is {levers}; {measured}.", known) : say("This is {levers}.", known));
      $("tried").textContent = row ? say("{step} per step (80 % range {range}), {gain}; then limited by {limit}.", row) + what
        : key ? say("This combination could not be predicted.") : say("No change: the loop as it is.");
      for (const line of document.querySelectorAll("[data-tl=combinations] tr[data-key]")) line.classList.toggle("chosen", line.dataset.key === String(key));
    };
    for (const one of switches) one.addEventListener("change", show);
    show();
  }

  function weighing() {
    const data = read("tl-scores");
    if (!data) return;
    const sliders = [...document.querySelectorAll("#scoring input[type=range]")], body = document.querySelector("#scoring tbody");
    const total = (scores, weights) => {
      const known = data.criteria, weight = known.reduce((sum, name) => sum + weights[name], 0);
      return weight ? Math.round((100 * known.reduce((sum, name) => sum + scores[name] * weights[name], 0)) / weight) / 100 : null;
    };
    const tied = new Set(data.ties.flatMap(([a, b]) => [`${a} ${b}`, `${b} ${a}`])), start = $("leader").textContent;
    const preferred = (one, other) => (other.now ?? 0) - (one.now ?? 0) || other.measured - one.measured || one.share - other.share;
    /* schemes/ranking.py, order(): of those that cannot be told from the fastest, and all between, the best total wins */
    const ranked = (all) => {
      const left = all.filter((one) => one.rank !== null).sort((a, b) => a.share - b.share || (b.now ?? 0) - (a.now ?? 0)), out = [];
      while (left.length) {
        let last = 0;
        left.forEach((one, n) => { if (tied.has(`${left[0].id} ${one.id}`)) last = n; });
        const best = left.slice(0, last + 1).reduce((a, b) => (preferred(b, a) < 0 ? b : a));
        left.splice(left.indexOf(best), 1);
        out.push(best);
      }
      return [...out, ...all.filter((one) => one.rank === null)];
    };
    const show = () => {
      const weights = { ...data.weights };
      for (const one of sliders) weights[one.dataset.criterion] = one.dataset.moved ? Number(one.value) : data.weights[one.dataset.criterion];
      const whole = Object.values(weights).reduce((sum, weight) => sum + weight, 0);
      for (const name of Object.keys(weights)) {
        const share = whole ? (100 * weights[name]) / whole : 0;
        const shown = document.querySelector(`output[data-weight=${name}]`);  // none for what nobody could score
        if (shown) shown.textContent = `${Number(share.toFixed(1))} %`;
      }
      const rows = ranked(data.schemes.map((one) => ({ ...one, now: one.rank === null ? null : total(one.scores, weights) })));
      rows.forEach((one, place) => {
        const row = body.querySelector(`tr[data-scheme="${one.id}"]`);
        body.querySelector(`[data-total="${one.id}"]`).textContent = one.now === null ? "–" : one.now.toFixed(2);
        row.querySelector(".rank").textContent = one.rank === null ? say("not ranked") : say("rank {rank}", { rank: place + 1 });
        row.classList.toggle("chosen", one.rank !== null && place === 0);
        body.append(row);
      });
      const first = rows.find((one) => one.rank !== null), moved = sliders.some((one) => one.dataset.moved);
      $("leader").textContent = !first ? say("No change pays, whatever the weights.") : moved ? say("With these weights {lever} leads.", { lever: first.id }) : start;
      $("reset").disabled = !moved;
    };
    for (const one of sliders) one.addEventListener("input", () => { one.dataset.moved = "1"; show(); });
    $("reset").addEventListener("click", () => {
      for (const one of sliders) { delete one.dataset.moved; one.value = data.weights[one.dataset.criterion]; }
      show();
    });
    show();
  }

  document.addEventListener("DOMContentLoaded", () => { combinations(); weighing(); });
})();

/* Switches and sliders. Combinations were replayed when the page was made and are only looked up here; weighted totals
   are computed as schemes/ranking.py does: over the criteria judged of all, and deciding only among near ties. */
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
      const what = row && row.schemes.length ? ` This is ${row.schemes.join(" and ")}${row.measured ? `; ${row.measured}` : ""}.` : "";
      $("tried").textContent = row ? `${row.step} per step (80 % range ${row.range}), ${row.gain}; then limited by ${row.limit}.${what}`
        : key ? "This combination could not be replayed." : "No change: the loop as it is.";
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
    const show = () => {
      const weights = { ...data.weights };
      for (const one of sliders) weights[one.dataset.criterion] = one.dataset.moved ? Number(one.value) : data.weights[one.dataset.criterion];
      const whole = Object.values(weights).reduce((sum, weight) => sum + weight, 0);
      for (const name of Object.keys(weights)) {
        const share = whole ? (100 * weights[name]) / whole : 0;
        document.querySelector(`output[data-weight=${name}]`).textContent = `${Number(share.toFixed(1))} %`;
      }
      const rows = data.schemes.map((one) => ({ ...one, now: one.judged ? total(one.scores, weights) : null }));
      const near = (one) => data.near.includes(one.id), place = (one) => one.rank ?? rows.length + 1;
      rows.sort((a, b) => near(b) - near(a) || (near(a) ? b.now - a.now : 0) || place(a) - place(b));
      let rank = 0;
      for (const one of rows) {
        const row = body.querySelector(`tr[data-scheme="${one.id}"]`);
        body.querySelector(`[data-total="${one.id}"]`).textContent = one.now === null ? "–" : one.now.toFixed(2);
        row.querySelector(".rank").textContent = one.judged ? `rank ${++rank}` : "not ranked";
        row.classList.toggle("chosen", one.judged && rank === 1);
        body.append(row);
      }
      const first = rows.find((one) => one.judged), moved = sliders.some((one) => one.dataset.moved);
      $("leader").textContent = !first ? "No scheme pays, whatever the weights." : moved ? `With these weights ${first.id} leads.` : "";
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

"use strict";
/* A sentence in the language of the page; `{name}` stands for a value. */
const say = (text, values = {}) => {
  const block = document.getElementById("tl-words"), words = block ? JSON.parse(block.textContent) : {};
  return (words[text] ?? text).replace(/\{(\w+)\}/g, (_, name) => values[name]);
};
(() => {
  const root = document.documentElement;
  root.classList.add("js");

  const stored = { get: () => { try { return localStorage.getItem("tracelens-theme"); } catch { return null; } },
                   set: (v) => { try { localStorage.setItem("tracelens-theme", v); } catch { /* private window: the choice lasts for the page */ } } };
  if (["light", "dark"].includes(stored.get())) root.dataset.theme = stored.get();

  document.addEventListener("DOMContentLoaded", () => {
    const theme = document.getElementById("theme");
    const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    const name = () => { theme.textContent = isDark() ? say("Light") : say("Dark"); theme.setAttribute("aria-label", say("{theme} colours", { theme: theme.textContent })); };
    name();
    theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; stored.set(root.dataset.theme); name(); });

    const live = document.getElementById("live");
    for (const button of document.querySelectorAll("button[data-copy]")) {
      button.addEventListener("click", async () => {
        const text = document.getElementById(button.dataset.copy).textContent;
        let done = true;
        try { await navigator.clipboard.writeText(text); } catch { done = select(button.dataset.copy); }
        const before = button.textContent;
        button.textContent = done ? say("Copied") : say("Selected");
        live.textContent = done ? say("Copied to the clipboard") : say("Selected; press Control C");
        setTimeout(() => { button.textContent = before; }, 1500);
      });
    }

    const change = document.getElementById("difftoggle");
    change?.addEventListener("click", () => {
      const hidden = document.getElementById("source").classList.toggle("nodiff");
      change.setAttribute("aria-pressed", String(!hidden));
      change.textContent = hidden ? say("Show the change") : say("Hide the change");
    });

    const download = document.getElementById("download");
    download.addEventListener("click", () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([document.getElementById("tl-data").textContent], { type: "application/json" }));
      link.download = "analysis.json";
      link.click();
      URL.revokeObjectURL(link.href);
    });
  });

  function select(id) {
    const range = document.createRange();
    range.selectNodeContents(document.getElementById(id));
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    return false;
  }

  const reveal = () => { for (let one = document.getElementById(location.hash.slice(1)); one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true; };
  addEventListener("hashchange", reveal);
  document.addEventListener("DOMContentLoaded", reveal);
})();

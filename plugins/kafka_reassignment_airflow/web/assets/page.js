// What a page does in the browser: the reader's time zone, fragments instead of reloads, ways out of Airflow's frame, copying.
(() => {
  const live = document.getElementById("live");
  const stale = document.getElementById("stale");
  const said = document.getElementById("said");
  const framed = parent !== window;
  const zone = () => {
    try { return JSON.parse(localStorage.getItem("timezone")) || undefined; } catch { return undefined; }
  };

  const format = () => {
    const options = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false, timeZoneName: "short" };
    try { return new Intl.DateTimeFormat("sv-SE", { ...options, timeZone: zone() }); } catch { return new Intl.DateTimeFormat("sv-SE", options); }
  };
  const localise = (part) => {
    const shown = format();
    for (const time of part.querySelectorAll("time[datetime]")) {
      const at = new Date(time.getAttribute("datetime"));
      const words = shown.format(at);
      time.title = `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
      time.textContent = time.hasAttribute("data-short") ? words.slice(5, 16) : words;
    }
  };

  const entitle = () => {
    if (!live || !live.dataset.title) return;
    document.title = live.dataset.title;
    if (framed) try { parent.document.title = document.title; } catch { /* another origin */ }
  };

  // Open parts are the reader's: an update leaves them as they are.
  const kept = { beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS") };
  let address = location.href;
  let failures = 0;
  const update = async () => {
    const asked = new URL(address);
    asked.searchParams.set("part", "live");
    try {
      const answer = await fetch(asked, { credentials: "same-origin", redirect: "error" });
      if (!answer.ok) throw new Error(answer.status === 401 || answer.status === 403 ? "sign in to Airflow again" : `Airflow answers ${answer.status}`);
      const text = await answer.text();
      if (asked.href !== withPart(address)) return;
      const parsed = new DOMParser().parseFromString(text, "text/html").getElementById("live");
      if (!parsed) throw new Error("sign in to Airflow again");
      localise(parsed);
      live.dataset.title = parsed.dataset.title;
      live.dataset.again = parsed.dataset.again;
      Idiomorph.morph(live, parsed.innerHTML, { morphStyle: "innerHTML", ignoreActiveValue: true, callbacks: kept });
      entitle();
      failures = 0;
      stale.hidden = true;
    } catch (error) {
      failures += 1;
      stale.textContent = `This page is not up to date: ${error.message}.`;
      stale.hidden = failures < 2;
    }
  };
  const withPart = (href) => { const url = new URL(href); url.searchParams.set("part", "live"); return url.href; };
  const again = async () => {
    const seconds = Number(live.dataset.again);
    if (seconds && document.visibilityState === "visible") await update();
    setTimeout(again, 1000 * (seconds || 60) * Math.min(6, failures + 1));
  };

  // The frame allows no pop-ups and does not let its content navigate the window; a link of the window's own page may.
  const leave = (href) => {
    if (!framed) { location.assign(href); return; }
    const link = parent.document.createElement("a");
    link.href = href;
    parent.document.body.append(link);
    link.click();
    link.remove();
  };

  const copy = async (text) => {
    try { await navigator.clipboard.writeText(text); return; } catch { /* no secure context: the old way */ }
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (!done) throw new Error("the browser does not allow it");
  };

  document.addEventListener("click", async (event) => {
    const link = event.target.closest("a[data-leave]");
    if (link && !event.ctrlKey && !event.metaKey) { event.preventDefault(); leave(link.href); return; }
    const button = event.target.closest("button[data-copy], button[data-copy-from]");
    if (!button) return;
    const words = button.textContent;
    try {
      let text = button.dataset.copy;
      if (button.dataset.copyFrom) {
        const answer = await fetch(button.dataset.copyFrom, { credentials: "same-origin" });
        if (!answer.ok) throw new Error(`Airflow answers ${answer.status}`);
        text = await answer.text();
      }
      await copy(text);
      said.textContent = button.textContent = "Copied";
    } catch (error) {
      said.textContent = button.textContent = `Not copied: ${error.message}`;
    }
    setTimeout(() => { button.textContent = words; }, 2500);
  });

  // Filters change a part of the page; the address stays one that can be opened again.
  const filtered = async (form) => {
    const url = new URL(form.action);
    for (const [name, value] of new FormData(form)) if (value) url.searchParams.set(name, value);
    address = url.href;
    history.replaceState(null, "", url);
    await update();
    said.textContent = "The list is filtered";
  };
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("form.filter")) return;
    event.preventDefault();
    filtered(event.target);
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("form.filter select")) filtered(event.target.form);
  });

  localise(document);
  if (framed) {
    const outer = parent.document.title;
    addEventListener("pagehide", () => { try { parent.document.title = outer; } catch { /* it is gone */ } });
  }
  entitle();
  if (live) setTimeout(again, 1000 * (Number(live.dataset.again) || 60));
})();

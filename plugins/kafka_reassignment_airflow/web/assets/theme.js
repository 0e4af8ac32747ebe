// Before the first paint: Airflow's switch is a class of the <html> element around the frame.
(() => {
  const root = document.documentElement;
  const outer = () => { try { return parent.document.documentElement; } catch { return root; } };
  const system = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => {
    const classes = outer().classList;
    let theme = classes.contains("dark") ? "dark" : classes.contains("light") ? "light" : "";
    if (!theme) try { theme = localStorage.getItem("theme") || ""; } catch { /* storage may be off */ }
    root.dataset.theme = theme === "dark" || theme === "light" ? theme : system.matches ? "dark" : "light";
  };
  follow();
  new MutationObserver(follow).observe(outer(), { attributes: true, attributeFilter: ["class"] });
  system.addEventListener("change", follow);
})();

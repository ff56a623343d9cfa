/* The panels of a run's page: pinned above the others, enlarged, with a y axis of their own, found by a word. What the
   user did stands in the address. */
(function () {
  "use strict";

  const SCALES = ["most", "log", ""];

  function listed(name) {
    return new URLSearchParams(location.search).getAll(name);
  }
  function toggled(name, key) {
    const keys = listed(name);
    return keys.includes(key) ? keys.filter((each) => each !== key) : keys.concat([key]);
  }

  /* The panel whose pin was pressed with a key: the page that is made anew has the focus there again. */
  let focused = "";

  const acts = {
    pin: function (key, button, isKey) {
      window.laser.write([["pin", toggled("pin", key), []]]);
      focused = isKey ? key : "";
      window.laser.again();
    },
    enlarge: function (key) {
      window.laser.write([["large", toggled("large", key), []]]);
      arrange();
    },
    y: function (key, button) {
      const scale = SCALES[(SCALES.indexOf(button.dataset.scale || "") + 1) % SCALES.length];
      button.dataset.scale = scale;
      button.textContent = scale ? "y: " + scale : "y";
      button.setAttribute("aria-pressed", scale ? "true" : "false");
      const all = {};
      for (const each of ["most", "log"]) {
        all[each] = listed("y-" + each).filter((one) => one !== key).concat(each === scale ? [key] : []);
      }
      window.laser.write(["most", "log"].map((each) => ["y-" + each, all[each], []]));
      window.dash_clientside.set_props("run-scales", { data: all });
    },
  };
  document.addEventListener("click", function (event) {
    const button = event.target.closest && event.target.closest("[data-tool]");
    if (button) acts[button.dataset.tool](button.dataset.panel, button, event.detail === 0);
  });

  /* Enlarged panels take the whole width; panels without the word that is searched are left out. */
  function arrange() {
    const search = document.getElementById("panel-search"), large = listed("large");
    if (!search) return;
    const pin = focused && document.querySelector("[data-tool=pin][data-panel='" + CSS.escape(focused) + "']");
    if (pin && document.activeElement === document.body) {
      focused = "";
      pin.focus();
    }
    const words = search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0, all = 0;
    for (const panel of document.querySelectorAll(".panels > .panel")) {
      const button = panel.querySelector("[data-tool=enlarge]");
      if (button) {
        const isLarge = large.includes(button.dataset.panel);
        set(panel, "large", isLarge);
        if (button.getAttribute("aria-pressed") !== String(isLarge)) button.setAttribute("aria-pressed", String(isLarge));
      }
      const title = panel.querySelector("h2").textContent.toLowerCase();
      const passes = words.every((word) => title.includes(word));
      set(panel, "left-out", !passes);
      all += 1;
      found += passes ? 1 : 0;
    }
    for (const section of document.querySelectorAll("details[data-section]")) {
      const panels = section.querySelectorAll(".panels > .panel");
      const isEmpty = panels.length > 0 && !section.querySelector(".panels > .panel:not(.left-out)");
      set(section, "left-out", words.length > 0 && (isEmpty || !panels.length));
    }
    const said = document.getElementById("panels-found");
    const text = words.length ? found + " of " + all + " panels" : "";
    if (said && said.textContent !== text) said.textContent = text;
  }
  function set(element, name, is) {
    if (element.classList.contains(name) !== is) element.classList.toggle(name, is);
  }
  document.addEventListener("input", function (event) {
    if (event.target.id === "panel-search") arrange();
  });

  let waiting = 0;
  new MutationObserver(function () {
    if (!waiting && document.getElementById("panel-search")) {
      waiting = setTimeout(function () { waiting = 0; arrange(); }, 100);
    }
  }).observe(document.documentElement, { childList: true, subtree: true });
})();

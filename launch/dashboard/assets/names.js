/* Names and roles of Dash's own controls, for those who hear a page instead of seeing it: Dash calls a group of radio
   buttons a list box and gives sliders no name. They are named by the label above them. */
(function () {
  "use strict";

  const PAUSE_MS = 200;

  function nameOf(control) {
    const around = control.closest(".control");
    const label = around && around.querySelector(".label");
    return label ? label.textContent : control.id;
  }

  function set(element, name, value) {
    if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  }

  /* Each option is a label with a box of its own to tick, which says by itself what it is. */
  function group(list, role, name) {
    set(list, "role", role);
    set(list, "aria-label", name);
    for (const option of list.querySelectorAll("label[role=option]")) {
      option.removeAttribute("role");
      option.removeAttribute("aria-selected");
    }
  }

  function mend() {
    for (const list of document.querySelectorAll(".dash-radioitems[id], .dash-checklist[id]")) {
      group(list, list.classList.contains("dash-radioitems") ? "radiogroup" : "group", nameOf(list));
    }
    for (const button of document.querySelectorAll("button.dash-dropdown[aria-controls]")) {
      const opened = document.getElementById(button.getAttribute("aria-controls"));
      if (!opened) continue;
      const name = "choices of " + nameOf(button);
      set(opened, "aria-label", name);
      for (const list of opened.querySelectorAll(".dash-dropdown-options")) group(list, "group", name);
      for (const field of opened.querySelectorAll("input[type=search]")) set(field, "aria-label", "search in " + name);
    }
    for (const thumb of document.querySelectorAll(".dash-slider-thumb")) set(thumb, "aria-label", nameOf(thumb));
    for (const field of document.querySelectorAll(".control textarea, .control input[type=text], .control input[type=search]")) {
      if (!field.closest(".dash-dropdown-wrapper, .dash-dropdown-content")) set(field, "aria-label", nameOf(field));
    }
    // The button takes the focus, which Dash gives to an input without a name beside it; that only catches clicks.
    for (const target of document.querySelectorAll(".dash-dropdown-focus-target")) set(target, "tabindex", "-1");
    for (const button of document.querySelectorAll("button.dash-dropdown")) set(button, "tabindex", "0");
    for (const clear of document.querySelectorAll("a.dash-dropdown-clear")) set(clear, "role", "button");
  }

  let waiting = 0;
  new MutationObserver(function () {
    if (!waiting) waiting = setTimeout(function () { waiting = 0; mend(); }, PAUSE_MS);
  }).observe(document.documentElement, { childList: true, subtree: true, attributes: true,
    attributeFilter: ["aria-selected", "aria-hidden"] });
})();

/* The address of a view. The scripts write what the user changes into it; the dashboard reads it when it makes a page.
   So a reload, the back button and a copied link lead to the same view. */
(function () {
  "use strict";

  /* Files of scripts are loaded in the order of their names, so this one makes the object that the others extend. */
  const laser = (window.laser = { callbacks: {} });
  window.dash_clientside = Object.assign({}, window.dash_clientside, { laser: laser.callbacks });
  const SOON_MS = 1500;
  let known = "", lastWritten = "", lastAt = 0;

  function current() {
    known = location.pathname + location.search;
    laser.at = Date.now();
    return { pathname: location.pathname, search: location.search, at: laser.at };
  }

  /* Links and the back button; a jump within the page, which changes the hash only, makes no new page. */
  function follow() {
    if (known !== location.pathname + location.search) window.dash_clientside.set_props("address", { data: current() });
  }
  window.addEventListener("popstate", follow);
  window.addEventListener("_dashprivate_pushstate", follow);

  /* Makes the page again, as its address now says. */
  laser.again = function () {
    window.dash_clientside.set_props("address", { data: current() });
  };

  /* A link in a table opens its page as other links do, without loading everything again. */
  laser.open = function (event, address) {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || event.button) return;
    event.preventDefault();
    history.pushState({}, "", address);
    follow();
    window.scrollTo(0, 0);
  };

  /* Enter in a row of a table opens its page, as the link in it does; in a cell with a button alone it presses this
     button, which no key reaches otherwise: AG Grid moves the focus from cell to cell. */
  laser.useEnter = function (grid) {
    grid.addEventListener("cellKeyDown", (found) => {
      const event = found.event, cell = event.target;
      if (event.key !== "Enter" || !found.data || !cell.matches(".ag-cell")) return;
      const button = cell.querySelector("a") ? null : cell.querySelector("button");
      if (button) button.click();
      else laser.open(event, found.data.href);
    });
  };

  /* Writes fields [name, value, default] into the address; what equals its default is left out. A run of changes to one
     field, as while typing, is one step of the back button; what a page writes as it opens is none. */
  laser.write = function (fields, opens) {
    const query = new URLSearchParams(location.search);
    for (const [name, value, fallback] of fields) {
      query.delete(name);
      if (value === null || value === undefined || JSON.stringify(value) === JSON.stringify(fallback)) continue;
      const items = Array.isArray(value) ? (value.length ? value : [""]) : [value];
      for (const item of items) query.append(name, typeof item === "object" ? JSON.stringify(item) : item);
    }
    const before = new URLSearchParams(location.search), after = new URLSearchParams(query);
    before.sort();
    after.sort();
    if (before.toString() === after.toString()) return;
    const names = fields.map((field) => field[0]).join(), now = Date.now();
    const goesOn = names === lastWritten && now - lastAt < SOON_MS && names !== "run";
    lastWritten = names;
    lastAt = now;
    const text = query.toString();
    history[goesOn || opens ? "replaceState" : "pushState"]({}, "", location.pathname + (text ? "?" + text : ""));
    known = location.pathname + location.search;
  };

  /* Sections that the user opens and shuts. */
  document.addEventListener("toggle", function (event) {
    const section = event.target;
    if (!section.matches || !section.matches("details[data-section]")) return;
    const all = Array.from(document.querySelectorAll("details[data-section]"));
    const named = (opens) => all.filter((each) => each.open === opens && (each.dataset.opens === "true") !== opens)
      .map((each) => each.dataset.section);
    laser.write([["open", named(true), []], ["shut", named(false), []]]);
  }, true);

  document.addEventListener("click", function (event) {
    if (event.target.id !== "copy-link") return;
    const button = event.target, words = button.textContent;
    const done = () => {
      button.textContent = "copied";
      setTimeout(() => { button.textContent = words; }, 1500);
    };
    /* A page that came over HTTP from another machine has no clipboard; there the old command works. */
    if (navigator.clipboard) return void navigator.clipboard.writeText(location.href).then(done, () => old(done));
    old(done);
  });
  function old(done) {
    const field = document.createElement("textarea");
    field.value = location.href;
    document.body.appendChild(field);
    field.select();
    if (document.execCommand("copy")) done();
    field.remove();
  }

  Object.assign(laser.callbacks, {
    start: current,
    title: function (words) {
      if (words) document.title = words + " · LASER";
    },
    /* The values of a page's controls, then the page's moment, and [name, default] of each. A page that has just been
       left, as by the back button, writes nothing any more. */
    remember: function () {
      const values = Array.from(arguments), { at, fields } = values.pop();
      if (at === laser.at) laser.write(fields.map(([name, fallback], place) => [name, values[place], fallback]));
    },
  });
})();

/* The table of runs: which rows pass its filters, are ticked, hidden and drawn. */
(function () {
  "use strict";

  const laser = window.laser;
  const NAME = "table";
  let drawn = {}, hidden = new Set(), opened = new Set();

  function grid() {
    if (!window.dash_ag_grid || !document.querySelector("#" + NAME + " .ag-root")) return null;
    let api = null;
    try { api = window.dash_ag_grid.getApi(NAME); } catch (error) { return null; /* it is not made yet */ }
    return api && !api.isDestroyed() ? api : null;
  }

  function filters(api) {
    const search = document.getElementById("search");
    return Boolean((search && search.value) || Object.keys(api.getFilterModel()).length);
  }

  /* What the comparison follows. All keys are sent only if a filter leaves some out; a sweep that is shut does not. */
  function view(api) {
    const kept = [], ticked = [], each = filters(api) ? "forEachNodeAfterFilterAndSort" : "forEachNode";
    let all = 0, allTicked = 0;
    api.forEachNode((node) => { all += 1; allTicked += node.isSelected() ? 1 : 0; });
    api[each]((node) => {
      kept.push(node.data.key);
      if (node.isSelected()) ticked.push(node.data.key);
    });
    const said = document.getElementById("kept");
    const words = kept.length < all ? kept.length + " of " + all : "";
    if (said && said.textContent !== words) said.textContent = words;
    return { ticked: ticked, kept: kept.length < all ? kept : null, out: allTicked - ticked.length };
  }

  function remember(api) {
    const runs = [], sort = [];
    api.forEachNode((node) => { if (node.isSelected()) runs.push(node.data.name); });
    for (const column of api.getColumnState()) if (column.sort) sort.push(column.colId + ":" + column.sort);
    const filter = api.getFilterModel();
    const search = document.getElementById("search");
    laser.write([["run", runs, []]]);
    const inside = [];
    api.forEachNode((node) => { if (opened.has(node.data.key)) inside.push(node.data.name); });
    laser.write([["opened", inside, []]]);
    laser.write([["sort", sort, []]]);
    laser.write([["filter", Object.keys(filter).length ? filter : null, null]]);
    laser.write([["search", search ? search.value : "", ""]]);
  }

  /* On a small screen the names have the room that the ticks, the marks and the status leave: AG Grid would let go of
     pinned columns that take too much of the table, and ticks would move behind the names. */
  const SMALL_PX = 480, LEAST_NAME_PX = 96, EDGES_PX = 20, PINNED = ["ag-Grid-SelectionColumn", "mark", "name"];
  function fit(api) {
    const room = document.getElementById(NAME).clientWidth, name = api.getColumn("name");
    if (!name || !room) return;
    const others = ["ag-Grid-SelectionColumn", "mark", "status"].map((each) => api.getColumn(each).getActualWidth());
    const left = others.reduce((sum, each) => sum - each, room - EDGES_PX), whole = name.getColDef().width;
    const width = room < SMALL_PX ? Math.min(whole, Math.max(LEAST_NAME_PX, left)) : whole;
    if ((width < whole || name.isFitted) && width !== name.getActualWidth()) {
      api.applyColumnState({ state: PINNED.map((each) => Object.assign({ colId: each, pinned: "left" },
        each === "name" ? { width: width } : {})) });
    }
    name.isFitted = width < whole;
  }

  function tell(api, at) {
    if (api.isDestroyed() || at !== laser.at) return;
    remember(api);
    window.dash_clientside.set_props("table-view", { data: view(api) });
  }

  function ready() {
    return new Promise((resolve) => {
      (function look() {
        const api = grid();
        if (api) resolve(api);
        else setTimeout(look, 30);
      })();
    });
  }

  Object.assign(laser.callbacks, {
    openTable: async function (start, sent) {
      const api = await ready();
      hidden = new Set(start.hidden);
      opened = new Set(start.opened);
      if (start.filter) api.setFilterModel(start.filter);
      if (start.sort.length) api.applyColumnState({ state: start.sort, defaultState: { sort: null } });
      if (start.search) api.setGridOption("quickFilterText", start.search);
      fit(api);
      for (const event of ["gridSizeChanged", "newColumnsLoaded"]) api.addEventListener(event, () => fit(api));
      if (opened.size) api.onFilterChanged();  // the rows were filtered before it was known which sweeps are open
      for (const event of ["selectionChanged", "filterChanged", "sortChanged"]) {
        api.addEventListener(event, () => tell(api, start.at));
      }
      laser.useEnter(api);
      /* + and - in a sweep's row show and hide its members, as its arrow does. */
      api.addEventListener("cellKeyDown", (found) => {
        const key = found.event.key;
        if (!["+", "-"].includes(key) || !found.data || found.data.kind !== "sweep") return;
        if (opened.has(found.data.key) !== (key === "+")) openSweep(found.data.key);
      });
      /* New runs; what they change is seen at most once a second. */
      let waits = null;
      api.addEventListener("rowDataUpdated", () => {
        clearTimeout(waits);
        waits = setTimeout(() => { if (!api.isDestroyed()) window.dash_clientside.set_props("table-view",
          { data: view(api) }); }, 500);
      });
      const found = view(api), plain = (each) => JSON.stringify([each.ticked.slice().sort(), each.kept, each.out]);
      if (!sent || plain(found) !== plain(sent)) window.dash_clientside.set_props("table-view", { data: found });
      return true;
    },
    search: function (text) {
      const api = grid();
      if (api) api.setGridOption("quickFilterText", text || "");
    },
    marks: function (colours, keys, at) {
      drawn = colours || {};
      hidden = new Set(keys || []);
      const api = grid();
      if (api) api.refreshCells({ columns: ["mark"], force: true });
      const names = [];
      if (api && at === laser.at) {
        api.forEachNode((node) => { if (hidden.has(node.data.key)) names.push(node.data.name); });
        laser.write([["hide", names, []]]);
      }
    },
  });

  function openSweep(key) {
    const api = grid();
    if (!opened.delete(key)) opened.add(key);
    api.onFilterChanged();
    api.refreshCells({ columns: ["name"], force: true });
    remember(api);
  }

  function toggle(key) {
    const keys = new Set(hidden);
    if (!keys.delete(key)) keys.add(key);
    window.dash_clientside.set_props("hidden", { data: Array.from(keys) });
  }

  /* A click on what a cell holds must not reach the table, which would tick the row and untick the others. */
  const pressed = (act) => (node) => {
    if (node) node.onclick = (event) => { event.stopPropagation(); act(event); };
  };

  const EYE = "M1 8c2.5-4 4.7-5 7-5s4.5 1 7 5c-2.5 4-4.7 5-7 5s-4.5-1-7-5zm7-2.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5z";
  const components = (window.dashAgGridComponentFunctions = window.dashAgGridComponentFunctions || {});
  components.Mark = function (props) {
    const key = props.data.key, isHidden = hidden.has(key);
    if (!(key in drawn) && !isHidden) return null;
    const element = React.createElement;
    const [colour, dash] = (drawn[key] || "var(--quiet) solid").split(" ");
    const dot = element("span", { className: "dot", style: { "--curve": colour }, "data-dash": dash });
    const eye = element("svg", { viewBox: "0 0 16 16", width: 15, height: 15, "aria-hidden": true },
      element("path", { d: EYE, fillRule: "evenodd", fill: "currentColor" }),
      isHidden ? element("path", { d: "M2 15L14 1", stroke: "currentColor", strokeWidth: 1.6 }) : null);
    const words = (isHidden ? "show " : "hide ") + props.data.name;
    return element("span", { className: isHidden ? "mark hidden-run" : "mark" }, dot,
      element("button", { type: "button", className: "eye", "aria-label": words, title: words,
        ref: pressed(() => toggle(key)) }, eye));
  };

  /* Numbers, by the rule of launch/formats.py, durations and ages. */
  function shown(params) {
    const value = params.value;
    if (value === null || value === undefined) return "";
    if (typeof value !== "number") return String(value);
    const size = Math.abs(value);
    if (size === 0) return "0";
    if (size < 1e-3) return value.toExponential(2).replace(/\.?0+e/, "e");
    if (size < 999.95) return String(Number(value.toPrecision(4)));
    if (size < 999999.5) return Math.round(value).toLocaleString("en-US");
    const unit = [[1e12, "T"], [1e9, "G"], [1e6, "M"]].find((each) => size >= each[0] * 0.99995);
    return Number((value / unit[0]).toPrecision(4)).toLocaleString("en-US") + unit[1];
  }
  function counted(params) {
    return typeof params.value === "number" ? params.value.toLocaleString("en-US") : "";
  }
  function ago(params) {
    if (!params.value) return "";
    const seconds = Math.max(0, Date.now() / 1000 - params.value);
    if (seconds < 5) return "now";
    if (seconds < 60) return Math.round(seconds) + " s";
    if (seconds < 3600) return Math.round(seconds / 60) + " min";
    if (seconds < 86400) return Math.round(seconds / 3600) + " h";
    return Math.round(seconds / 86400) + " d";
  }
  /* The rule of `duration` in launch/recording/progress.py. */
  function lasted(params) {
    const seconds = params.value;
    if (typeof seconds !== "number") return "";
    if (seconds < 60) return Math.round(seconds) + "s";
    const all = Math.round(seconds), two = (number) => String(number).padStart(2, "0");
    const minutes = Math.floor(all / 60), hours = Math.floor(minutes / 60);
    if (minutes < 60) return minutes + "m" + two(all % 60) + "s";
    return hours < 24 ? hours + "h" + two(minutes % 60) + "m" : Math.floor(hours / 24) + "d" + two(hours % 24) + "h";
  }
  const functions = (window.dashAgGridFunctions = window.dashAgGridFunctions || {});
  functions.shown = shown;
  functions.counted = counted;
  functions.ago = ago;
  functions.lasted = lasted;
  functions.minutes = (params) => params.data.c_duration === null ? null : params.data.c_duration / 60;
  functions.hours = (params) => params.data.age_s === null ? null : (Date.now() / 1000 - params.data.age_s) / 3600;
  setInterval(function () {
    const api = document.hidden ? null : grid();
    if (api) api.refreshCells({ columns: ["age_s"], force: true });
  }, 5000);

  /* Members stand below their sweep, which opens; a filter looks into all sweeps. */
  functions.inside = function (node) {
    const api = grid();
    return !node.data.sweep || opened.has(node.data.sweep) || node.isSelected() || Boolean(api && filters(api));
  };
  functions.together = function (params) {
    const tops = new Set(params.nodes.map((node) => node.data.key)), members = new Map(), order = [];
    for (const node of params.nodes) {
      if (!tops.has(node.data.sweep)) continue;
      if (!members.has(node.data.sweep)) members.set(node.data.sweep, []);
      members.get(node.data.sweep).push(node);
    }
    for (const node of params.nodes) {
      if (!tops.has(node.data.sweep)) order.push(node, ...(members.get(node.data.key) || []));
    }
    order.forEach((node, place) => { params.nodes[place] = node; });
  };
  functions.best = (params) => params.value === null || params.value === undefined ? "" :
    shown(params) + " at " + shown({ value: params.data.best_at });

  components.RunLink = function (props) {
    const row = props.data, element = React.createElement, api = grid();
    const text = row.label && api && !filters(api) ? row.label : props.value;
    const link = element("a", { href: row.href, title: props.value,
      ref: pressed((event) => laser.open(event, row.href)) }, text);
    if (row.sweep) return element("span", { className: "inside" }, link);
    if (row.kind !== "sweep") return link;
    const isOpen = opened.has(row.key);
    return element("span", { className: "opens" }, element("button", { type: "button", className: "fold",
      "aria-expanded": isOpen, "aria-label": "members of " + props.value, title: isOpen ? "hide the members: -" :
      "show the members: +", ref: pressed(() => openSweep(row.key)) }, isOpen ? "\u25be" : "\u25b8"), link);
  };
  components.Status = function (props) {
    return React.createElement("span", { className: "status " + String(props.value).replace(/[^a-z]/g, "") },
      props.value);
  };
})();

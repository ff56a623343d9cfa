/* Code of the pages in the browser: colours, clocks, downloads of figures, cells of tables. No text becomes markup. */
(function () {
  "use strict";

  const THEMES = ["light", "dark"];

  function applyTheme(theme) {
    document.documentElement.dataset.theme = theme;
    document.documentElement.dataset.agThemeMode = theme;
    if (document.body) document.body.dataset.agThemeMode = theme;
  }

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    laser: {
      theme: function (clicks, stored) {
        let theme = THEMES.includes(stored)
          ? stored
          : window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
        const pressed = window.dash_clientside.callback_context.triggered.some(
          (item) => item.prop_id === "theme-button.n_clicks" && item.value);
        if (pressed) theme = theme === "dark" ? "light" : "dark";
        applyTheme(theme);
        return theme;
      },
      search: function (text) {
        window.dash_ag_grid.getApi("table").setGridOption("quickFilterText", text || "");
      },
    },
  });
  applyTheme(window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

  /* Clocks: elements of class "clock", each with a store whose new value sends a request to the dashboard. This code
     runs them in place of Dash, which would go through the whole page at every tick, even one without a request. */
  const TICK_MS = 500, LOST_MS = 15000;
  /* A page may draw on the cores that train. After long drawing its curves rest: forty times as long as the tasks of
     more than 50 ms took, which browsers report, and at most 20 s. */
  const REST = 40, LONGEST_REST_MS = 20000;
  const underWay = {}, last = {};
  let busyMs = 0;
  if (window.PerformanceObserver && (PerformanceObserver.supportedEntryTypes || []).includes("longtask")) {
    new PerformanceObserver(function (tasks) {
      for (const task of tasks.getEntries()) busyMs += task.duration;
    }).observe({ type: "longtask" });
  }

  /* Starts the requests that are due; returns the pause until the next tick. Ticks are few, since each wakes the page. */
  function tick() {
    let pause = TICK_MS;
    if (!window.dash_clientside.set_props) return pause;
    const now = Date.now();
    for (const clock of document.getElementsByClassName("clock")) {
      const name = clock.id.replace(/-ticks$/, "");
      const before = (last[name] = last[name] || { at: now, busyMs: busyMs });
      const rest = clock.dataset.rests === "true" ? Math.min(LONGEST_REST_MS, REST * (busyMs - before.busyMs)) : 0;
      const interval = Number(clock.dataset.interval);
      const due = before.at + Math.max(interval, rest);
      pause = Math.min(pause, interval);
      if (clock.dataset.stopped === "true" || now < due || now - (underWay[name] || 0) < LOST_MS) continue;
      underWay[name] = now;
      last[name] = { at: now, busyMs: busyMs };
      window.dash_clientside.set_props(name, { data: { at: now, visible: visiblePanels() } });
    }
    return pause;
  }

  /* A hidden page does nothing, so that ten open tabs cost as much as one. */
  let timer;
  function run() {
    clearTimeout(timer);
    if (!document.hidden) timer = setTimeout(run, tick());
  }
  document.addEventListener("visibilitychange", run);
  run();

  /* Drawing is the main cost of an update, so only visible panels are sent and redrawn. */
  function visiblePanels() {
    const near = window.innerHeight / 3;
    return Array.from(document.querySelectorAll(".panel .dash-graph")).filter(function (graph) {
      const box = graph.getBoundingClientRect();
      return graph.id.startsWith("{") && box.bottom > -near && box.top < window.innerHeight + near;
    }).map((graph) => JSON.parse(graph.id).panel);
  }

  const fetchAsBefore = window.fetch.bind(window);
  window.fetch = function (address, options) {
    const answer = fetchAsBefore(address, options);
    if (typeof address !== "string" || !address.includes("_dash-update-component")) return answer;
    const asked = /"changedPropIds":\["([a-z-]+-clock)\.data"\]/.exec(String(options && options.body));
    const done = function (text) {
      if (asked) delete underWay[asked[1]];
      say(text);
    };
    answer.then(() => done(""), () => done("the dashboard does not answer: it was stopped, or this machine slept"));
    return answer;
  };

  function say(text) {
    const place = document.getElementById("connection");
    if (place && place.textContent !== text) place.textContent = text;
  }

  /* Tables. */
  function shown(params) {
    const value = params.value;
    if (value === null || value === undefined) return "";
    if (typeof value !== "number") return String(value);
    if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en-US");
    return String(Number(value.toPrecision(4)));
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
  const functions = (window.dashAgGridFunctions = window.dashAgGridFunctions || {});
  functions.shown = shown;
  functions.ago = ago;
  functions.hours = (params) => params.data.age_s === null ? null : (Date.now() / 1000 - params.data.age_s) / 3600;
  setInterval(function () {
    const table = document.getElementById("table");
    if (!table || document.hidden || !window.dash_ag_grid) return;
    const api = window.dash_ag_grid.getApi("table");
    if (api) api.refreshCells({ columns: ["age_s"], force: true });
  }, 5000);

  const components = (window.dashAgGridComponentFunctions = window.dashAgGridComponentFunctions || {});
  components.RunLink = function (props) {
    return React.createElement("a", { href: props.data.href, title: props.value,
      onClick: (event) => event.stopPropagation() }, props.value);
  };
  components.Status = function (props) {
    return React.createElement("span", { className: "status " + String(props.value).replace(/[^a-z]/g, "") },
      props.value);
  };

  /* Saving the content of a figure. */
  document.addEventListener("click", function (event) {
    const button = event.target.closest("[data-save]");
    if (!button) return;
    const section = button.closest(".panel");
    const plot = section && section.querySelector(".js-plotly-plot");
    if (!plot) return;
    const heading = section.querySelector("h3");
    const title = heading ? heading.textContent : "figure";
    const name = "laser-" + title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
    const kind = button.dataset.save;
    if (kind === "csv") return save(new Blob([csv(plot)], { type: "text/csv" }), name + ".csv");
    const width = Math.max(700, plot.clientWidth), height = Math.max(400, plot.clientHeight);
    const layout = Object.assign({}, plot.layout, {
      title: { text: escaped(title), font: { size: 15 } },
      margin: Object.assign({}, plot.layout.margin, { t: 70 }), width: width, height: height, autosize: false,
    });
    window.Plotly.toImage({ data: plot.data, layout: layout },
      { format: kind, width: width, height: height, scale: kind === "png" ? 2 : 1 })
      .then((address) => {
        if (kind === "png") return save(address, name + ".png");
        const text = decodeURIComponent(address.slice(address.indexOf(",") + 1));
        return save(new Blob([text], { type: "image/svg+xml" }), name + ".svg");
      });
  });

  function escaped(text) {
    return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  }

  function csv(plot) {
    const rows = ["series,x,y"];
    for (const trace of plot._fullData || []) {
      if (!trace.x || !trace.y) continue;
      for (let i = 0; i < trace.x.length; i++) rows.push([trace.name, trace.x[i], trace.y[i]].map(cell).join(","));
    }
    return rows.join("\n") + "\n";
  }

  /* Texts are quoted, and never a formula for the spreadsheet that opens the file. */
  function cell(value) {
    if (typeof value !== "string") return String(value);
    return '"' + value.replace(/^([=+\-@\t\r])/, "'$1").replace(/"/g, '""') + '"';
  }

  function save(what, name) {
    const link = document.createElement("a");
    link.download = name;
    link.href = typeof what === "string" ? what : URL.createObjectURL(what);
    document.body.appendChild(link);
    link.click();
    link.remove();
    if (typeof what !== "string") setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }
})();

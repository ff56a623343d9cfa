/* Code of all pages in the browser: colours, and clocks, which ask the dashboard for news. No text becomes markup. */
(function () {
  "use strict";

  const THEMES = ["light", "dark"];

  function applyTheme(theme) {
    document.documentElement.dataset.theme = theme;
    document.documentElement.dataset.agThemeMode = theme;
    if (document.body) document.body.dataset.agThemeMode = theme;
  }

  Object.assign(window.laser.callbacks, {
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
  });
  applyTheme(window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

  /* Clocks: elements of class "clock", each with a store whose new value sends a request to the dashboard. This code
     runs them in place of Dash, which would go through the whole page at every tick, even one without a request. */
  const TICK_MS = 500, LOST_MS = 15000;
  /* A page may draw on the cores that train. After long drawing its curves rest: forty times as long as the tasks of
     more than 50 ms took, which browsers report, and at most 20 s. */
  const REST = 40, LONGEST_REST_MS = 20000;
  const underWay = {}, unanswered = {}, last = {};
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
      return graph.id.startsWith("{") && box.height > 0 && box.bottom > -near && box.top < window.innerHeight + near;
    }).map((graph) => JSON.parse(graph.id).panel);
  }

  const fetchAsBefore = window.fetch.bind(window);
  window.fetch = function (address, options) {
    const answer = fetchAsBefore(address, options);
    if (typeof address !== "string" || !address.includes("_dash-update-component")) return answer;
    /* A clock also waits for the answers to what a click asked, or the opening of a page: Dash would drop them. */
    const clock = /"id":"([a-z-]+-clock)","property":"data"/.exec(String(options && options.body));
    if (clock) {
      underWay[clock[1]] = Date.now();
      unanswered[clock[1]] = (unanswered[clock[1]] || 0) + 1;
    }
    const done = function (text) {
      if (clock && !--unanswered[clock[1]]) delete underWay[clock[1]];
      say(text);
    };
    answer.then(() => done(""), () => done("the dashboard does not answer: it was stopped, or this machine slept"));
    return answer;
  };

  function say(text) {
    const place = document.getElementById("connection");
    if (place && place.textContent !== text) place.textContent = text;
  }
})();

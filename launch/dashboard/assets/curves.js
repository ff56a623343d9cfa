/* The lines of a sweep's members. The marks of the tables above have their colours, and a row under the pointer, or one
   whose mark was pressed, brings its line to the front. The address keeps what was pressed. */
(function () {
  "use strict";

  const PALE = 0.1, SOON_MS = 60;
  let pointed = [];

  function plot() {
    const found = document.querySelector("#sweep-curves .js-plotly-plot");
    return found && found._fullData && found._fullData.length ? found : null;
  }
  function held() {
    return new URLSearchParams(location.search).getAll("line").filter(Boolean);
  }
  const names = (mark) => JSON.parse(mark.dataset.curves);
  const isDrawn = (drawn, name) => drawn._fullData.some((trace) => trace.name === name);

  /* A band and the end of a seed belong to the line whose name they begin with. */
  function belongs(trace, name) {
    return trace.name === name || trace.name === name + " band" || String(trace.name).startsWith(name + ": ");
  }

  function opacities(drawn, wanted) {
    const chosen = wanted.filter((name) => isDrawn(drawn, name));
    return drawn.data.map((trace) => {
      const own = trace.meta === undefined ? 1 : trace.meta;
      return !chosen.length || chosen.some((name) => belongs(trace, name)) ? own : PALE * own;
    });
  }

  /* What was pressed is part of the figure, also of a saved one. What is pointed at changes the drawn lines alone, since
     Plotly would draw hundreds of them anew. */
  function front(drawn) {
    const kept = opacities(drawn, held());
    if (drawn.data.some((trace, place) => (trace.opacity === undefined ? 1 : trace.opacity) !== kept[place])) {
      window.Plotly.restyle(drawn, { opacity: kept });
    }
    const now = pointed.some((name) => isDrawn(drawn, name)) ? opacities(drawn, pointed) : kept;
    const places = new Map(drawn._fullData.map((trace, place) => ["trace" + trace.uid, place]));
    for (const line of drawn.querySelectorAll(".scatterlayer > .trace")) {
      const place = places.get(Array.from(line.classList).find((each) => places.has(each)));
      if (place !== undefined && Number(line.style.opacity) !== now[place]) line.style.opacity = now[place];
    }
  }

  /* A mark that stands for one line has its colour and its dashes; one of several lines has neither. */
  function colour(drawn) {
    const kept = held();
    for (const mark of document.querySelectorAll("[data-curves]")) {
      const lines = names(mark).map((name) => drawn._fullData.find((trace) => trace.name === name && trace.showlegend
        && trace.line)).filter(Boolean);
      const line = lines.length === 1 ? lines[0].line : { color: "", dash: "" };
      if (mark.style.getPropertyValue("--curve") !== line.color) mark.style.setProperty("--curve", line.color);
      if (mark.dataset.dash !== line.dash) mark.dataset.dash = line.dash;
      const pressed = String(names(mark).some((name) => kept.includes(name) && isDrawn(drawn, name)));
      if (mark.getAttribute("aria-pressed") !== pressed) mark.setAttribute("aria-pressed", pressed);
    }
  }

  function show() {
    const drawn = plot();
    if (!drawn) return;
    if (!drawn.hasMarks && drawn.on) {
      drawn.hasMarks = true;
      drawn.on("plotly_afterplot", soon);
    }
    front(drawn);
    colour(drawn);
  }
  let waiting = 0;
  function soon() {
    if (!waiting) waiting = setTimeout(function () { waiting = 0; show(); }, SOON_MS);
  }

  /* The pinned columns of a row are another element than the rest of it. */
  function markOf(target) {
    const row = target.closest && target.closest("#sweep-settings-table tbody tr, #members .ag-row");
    if (!row) return null;
    const whole = row.matches("tr") ? row : document.querySelector(
      "#members .ag-pinned-left-cols-container .ag-row[row-id='" + CSS.escape(row.getAttribute("row-id")) + "']");
    return whole && whole.querySelector("[data-curves]");
  }
  function point(event) {
    const mark = markOf(event.target), found = mark ? names(mark) : [];
    if (found.join("\n") === pointed.join("\n")) return;
    pointed = found;
    soon();
  }
  document.addEventListener("pointerover", point);
  document.addEventListener("focusin", point);
  document.addEventListener("click", function (event) {
    const mark = event.target.closest && event.target.closest("[data-curves]"), drawn = plot();
    if (!mark || !drawn) return;
    const own = names(mark).filter((name) => isDrawn(drawn, name)), kept = held();
    const isHeld = own.some((name) => kept.includes(name));
    window.laser.write([["line", isHeld ? kept.filter((name) => !own.includes(name)) : kept.concat(own), []]]);
    soon();
  });

  const components = (window.dashAgGridComponentFunctions = window.dashAgGridComponentFunctions || {});
  components.CurveMark = function (props) {
    const about = "keep the line of " + props.data.name + " in front";
    return React.createElement("button", { type: "button", className: "curve-mark", title: about, "aria-label": about,
      "aria-pressed": "false", "data-curves": props.value });
  };

  new MutationObserver(function () {
    if (document.getElementById("sweep-curves")) soon();
  }).observe(document.documentElement, { childList: true, subtree: true });
})();

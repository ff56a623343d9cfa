/* Brushing of parallel coordinates: dragging along an axis keeps the lines that cross it there. The address holds the
   brushes as {axis: [low, high]}, in the heights of the picture, so that a link shows the same lines. With the keyboard,
   left and right choose an axis, up and down move a brush of a quarter of its height, and 0 shows all lines. */
(function () {
  "use strict";

  const PALE = 0.07, BRUSH = 0.25;
  let chosen = 0;

  function brushes() {
    try { return JSON.parse(new URLSearchParams(location.search).get("brush")) || {}; } catch (error) { return {}; }
  }
  function keep(value) {
    window.laser.write([["brush", Object.keys(value).length ? value : null, null]]);
  }

  /* Shows the lines that pass every brush, and says how many these are. */
  function apply(plot) {
    const kept = brushes(), axes = Object.keys(kept);
    const lines = plot.data.map((trace, place) => [trace, place]).filter(([trace]) => trace.mode === "lines+markers");
    const passes = ([trace]) => axes.every((axis) => {
      const height = trace.y[axis];
      return height !== null && height !== undefined && height >= kept[axis][0] && height <= kept[axis][1];
    });
    const opacities = lines.map((line) => passes(line) ? 1 : PALE);
    const said = plot.closest(".panel").querySelector("small");
    plot.dataset.words = plot.dataset.words || said.textContent;
    const number = opacities.filter((each) => each === 1).length;
    said.textContent = axes.length ? number + " of " + lines.length + " settings kept; a double click shows all"
      : plot.dataset.words;
    if (!lines.some(([trace], place) => (trace.opacity === undefined ? 1 : trace.opacity) !== opacities[place])) return;
    window.Plotly.restyle(plot, { opacity: opacities }, lines.map(([, place]) => place));
  }

  function brushed(plot, event) {
    if (!event || !event.range) return;
    const [x0, x1] = event.range.x.slice().sort((a, b) => a - b);
    const [y0, y1] = event.range.y.slice().sort((a, b) => a - b);
    const last = plot.layout.xaxis.tickvals.length - 1;
    const axis = Math.max(0, Math.min(last, Math.round((x0 + x1) / 2)));
    keep(Object.assign(brushes(), { [axis]: [Number(y0.toFixed(4)), Number(y1.toFixed(4))] }));
    window.Plotly.relayout(plot, { selections: [] });
    window.Plotly.restyle(plot, { selectedpoints: [null] });
    apply(plot);
  }

  /* Heights of a picture's axes: 0 is the least value, 1 the greatest. */
  document.addEventListener("keydown", function (event) {
    const figure = event.target;
    if (!figure.matches || !figure.matches("#parallel .figure")) return;
    const plot = figure.querySelector(".js-plotly-plot");
    if (!plot || !plot.isBrushed) return;
    const aside = { ArrowLeft: -1, ArrowRight: 1 }[event.key], up = { ArrowDown: -BRUSH, ArrowUp: BRUSH }[event.key];
    const names = plot.layout.xaxis.ticktext, kept = brushes();
    if (event.key === "0") keep({});
    else if (aside) chosen = Math.max(0, Math.min(names.length - 1, chosen + aside));
    else if (up) {
      const low = kept[chosen] ? Math.max(0, Math.min(1 - BRUSH, kept[chosen][0] + up)) : up > 0 ? 0 : 1 - BRUSH;
      keep(Object.assign(kept, { [chosen]: [low, low + BRUSH] }));
    } else return;
    event.preventDefault();
    apply(plot);
    if (aside) say(plot, "axis " + names[chosen].replace(/<[^>]*>/g, " "));
  });

  function say(plot, text) {
    plot.closest(".panel").querySelector("small").textContent = text;
  }

  function listen(plot) {
    if (plot.isBrushed || !plot.on) return;
    plot.isBrushed = true;
    plot.on("plotly_selected", (event) => brushed(plot, event));
    plot.on("plotly_doubleclick", () => { keep({}); apply(plot); });
    plot.on("plotly_afterplot", () => apply(plot));
    apply(plot);
  }
  new MutationObserver(function () {
    const plot = document.querySelector("#parallel .js-plotly-plot");
    if (plot && plot._fullData && plot._fullData.length) listen(plot);
  }).observe(document.documentElement, { childList: true, subtree: true });
})();

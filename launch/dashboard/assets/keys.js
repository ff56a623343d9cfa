/* The keys of a figure that has the focus: + and - zoom around its middle, left and right move, 0 shows all. */
(function () {
  "use strict";

  const ZOOM = { "+": 0.5, "=": 0.5, "-": 2 }, MOVE = { ArrowLeft: -0.25, ArrowRight: 0.25 };

  document.addEventListener("keydown", function (event) {
    const figure = event.target;
    if (!figure.classList || !figure.classList.contains("figure") || event.ctrlKey || event.metaKey || event.altKey) return;
    const plot = figure.querySelector(".js-plotly-plot");
    if (!plot || !plot._fullLayout || !plot._fullLayout.xaxis || figure.closest("#parallel")) return;
    const change = event.key === "0" ? all(plot) : changed(plot._fullLayout.xaxis.range.map(Number), event.key);
    if (!change) return;
    event.preventDefault();
    window.laser.link(plot);
    window.Plotly.relayout(plot, change);
  });

  function all(plot) {
    const axes = Object.keys(plot._fullLayout).filter((name) => /^[xy]axis[0-9]*$/.test(name));
    return Object.fromEntries(axes.map((axis) => [axis + ".autorange", true]));
  }

  function changed([low, high], key) {
    const span = high - low, middle = (low + high) / 2, factor = ZOOM[key], move = MOVE[key];
    if (factor) return { "xaxis.range": [middle - span * factor / 2, middle + span * factor / 2] };
    return move ? { "xaxis.range": [low + move * span, high + move * span] } : null;
  }
})();

/* The values at the pointer, in a strip above a figure's curves. Plotly's own box would cover them, so it is hidden, and
   the strip says the same. */
(function () {
  "use strict";

  const APART_PX = 2;

  /* Plotly writes a moment's values into this layer, also where another figure of the group has the pointer. */
  const changed = new MutationObserver((changes) => {
    for (const plot of new Set(changes.map((change) => change.target.closest(".js-plotly-plot")))) if (plot) show(plot);
  });
  window.laser.sayValues = function (plot) {
    const layer = plot.querySelector(".hoverlayer");
    if (!layer || plot.sayingFrom === layer) return;
    plot.sayingFrom = layer;
    changed.observe(layer, { childList: true, subtree: true, characterData: true });
  };
  document.addEventListener("pointerover", function (found) {
    const plot = found.target.closest && found.target.closest(".js-plotly-plot");
    if (plot) window.laser.sayValues(plot);
  }, true);

  function show(plot) {
    const own = plot.querySelector(".hoverlayer .legend");
    let strip = plot.querySelector(":scope > .values");
    if (!own) {
      if (strip) strip.remove();
      return;
    }
    if (!strip) {
      strip = document.createElement("div");
      strip.className = "values";
      strip.setAttribute("aria-hidden", "true");
      plot.append(strip);
    }
    const title = own.querySelector(".legendtitletext");
    strip.replaceChildren(...(title ? [said("strong", title)] : []), ...Array.from(own.querySelectorAll(".traces"), value));
    place(plot, strip);
  }
  function said(kind, text) {
    const element = document.createElement(kind);
    element.textContent = Array.from(text.querySelectorAll("tspan.line"), (line) => line.textContent).join(" ") ||
      text.textContent;
    return element;
  }
  function value(trace) {
    const element = said("span", trace.querySelector(".legendtext"));
    const mark = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    for (const [name, text] of [["viewBox", "8 -6 24 12"], ["width", "18"], ["height", "9"]]) mark.setAttribute(name, text);
    mark.append(trace.querySelector(".layers").cloneNode(true));
    element.prepend(mark);
    return element;
  }

  /* Above the curves, over the legend, which names the same curves; below them where there is no room in the window. */
  function place(plot, strip) {
    const size = plot._fullLayout._size, controls = document.querySelector(".controls.sticky");
    const stuck = controls ? controls.getBoundingClientRect() : null;
    strip.style.left = size.l + "px";
    strip.style.top = "";
    strip.style.bottom = plot.clientHeight - size.t + APART_PX + "px";
    if (strip.getBoundingClientRect().top >= (stuck && stuck.top <= 0 ? stuck.bottom : 0)) return;
    strip.style.bottom = "";
    strip.style.top = size.t + size.h + APART_PX + "px";
  }
})();

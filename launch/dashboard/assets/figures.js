/* Figures: one crosshair and one zoom for pictures of the same runs, ranges of the others in the address, and saving
   what a figure shows. */
(function () {
  "use strict";

  /* A picture joins the others when the pointer first comes to it, or a key is pressed on it. */
  const LINKED = ".linked .js-plotly-plot", NAMED = '.panel:not([data-facet=""]) .js-plotly-plot';
  let busy = false;
  for (const event of ["pointerover", "pointerdown"]) {
    document.addEventListener(event, function (found) {
      const plot = found.target.closest && found.target.closest(NAMED);
      if (plot) window.laser.link(plot);
    }, true);
  }
  window.laser.link = function (plot) {
    if (plot.isLinked || !plot.on || !plot.matches(NAMED)) return;
    plot.isLinked = true;
    if (!plot.closest(".linked")) return void plot.on("plotly_relayout", (change) => zoomedAlone(plot, change));
    plot.on("plotly_hover", (data) => others(plot, (other) => window.Plotly.Fx.hover(other, at(other, data), "xy",
      true)));
    plot.on("plotly_unhover", () => others(plot, (other) => window.Plotly.Fx.unhover(other)));
    plot.on("plotly_relayout", (change) => zoomed(plot, change));
  };

  /* The same moment in another picture; one that shows the nearest curve only shows that of the same name. */
  function at(other, data) {
    const x = data.xvals ? data.xvals[0] : data.points[0].x;
    if (other._fullLayout.hovermode !== "closest") return { xval: x };
    const name = data.points[0].fullData.name;
    const curve = other._fullData.findIndex((trace) => trace.name === name && trace.hoverinfo !== "skip");
    if (curve < 0) return { xval: x };
    let nearest = 0;
    const places = other._fullData[curve].x;
    for (let i = 1; i < places.length; i++) {
      if (Math.abs(places[i] - x) < Math.abs(places[nearest] - x)) nearest = i;
    }
    return [{ curveNumber: curve, pointNumber: nearest }];
  }

  function others(plot, act) {
    if (busy) return;
    busy = true;
    for (const other of document.querySelectorAll(LINKED)) {
      if (other === plot || !other._fullData || !other._fullData.length || !isSeen(other)) continue;
      window.laser.sayValues(other);
      act(other);
    }
    busy = false;
  }
  function isSeen(plot) {
    const box = plot.getBoundingClientRect();
    return box.bottom > 0 && box.top < window.innerHeight;
  }

  function range(change, axis) {
    if (change[axis + ".range[0]"] !== undefined) return [change[axis + ".range[0]"], change[axis + ".range[1]"]];
    return change[axis + ".range"] || (change[axis + ".autorange"] ? null : undefined);
  }

  function zoomed(plot, change) {
    if (busy) return;
    const x = range(change, "xaxis"), y = range(change, "yaxis");
    if (x === undefined && y === undefined) return;
    const group = plot.closest(".linked");
    if (x !== undefined) {
      busy = true;
      const all = Array.from(document.querySelectorAll(LINKED)).filter((other) => other !== plot);
      Promise.all(all.map((other) => window.Plotly.relayout(other,
        x ? { "xaxis.range": x.slice() } : { "xaxis.autorange": true }))).finally(() => { busy = false; });
    }
    const axis = group.dataset.axis, known = kept("zoom");
    const before = known && known.axis === axis ? known : { axis: axis, y: {} };
    const after = { axis: axis, y: Object.assign({}, before.y) };
    const place = x === undefined ? before.x : x, key = keyOf(plot, plot._fullLayout.yaxis.type === "log" ? ["log"] : []);
    if (place) after.x = place;
    if (y) after.y[key] = y;
    if (y === null) delete after.y[key];
    keep("zoom", after.x || Object.keys(after.y).length ? after : null);
  }

  /* The ranges of a figure that has no axis in common with others; it may have several axes of y. */
  function zoomedAlone(plot, change) {
    const after = Object.assign({}, kept("ranges")), key = keyOf(plot, []), own = Object.assign({}, after[key]);
    const axes = Object.keys(plot._fullLayout).filter((name) => /^[xy]axis[0-9]*$/.test(name));
    const changed = axes.filter((axis) => range(change, axis) !== undefined);
    if (!changed.length) return;
    for (const axis of changed) {
      const found = range(change, axis), name = plot._fullLayout[axis].type === "log" ? axis + " log" : axis;
      if (found) own[name] = found;
      else delete own[name];
    }
    if (Object.keys(own).length) after[key] = own;
    else delete after[key];
    keep("ranges", Object.keys(after).length ? after : null);
  }

  /* A range belongs to what is drawn and to its scale: see `zoom_in` and `zoom_alone` in launch/dashboard/facets.py. */
  function keyOf(plot, scales) {
    return [plot.closest(".panel").dataset.facet, plot.layout.meta, ...scales].filter(Boolean).join(" ");
  }
  function kept(name) {
    try { return JSON.parse(new URLSearchParams(location.search).get(name)); } catch (error) { return null; }
  }
  function keep(name, value) {
    window.laser.write([[name, value, null]]);
    window.dash_clientside.set_props(name, { data: value });
  }
  Object.assign(window.laser.callbacks, {
    /* Another axis takes the zoom away. */
    unzoom: function (axis, value) {
      for (const group of document.querySelectorAll(".linked")) group.dataset.axis = axis;
      if (value && value.axis !== axis) keep("zoom", null);
    },
  });

  /* Plotly leaves a legend of another width where it was, over the curves; a second layout puts it above them. */
  let resizing = 0;
  window.addEventListener("resize", function () {
    clearTimeout(resizing);
    resizing = setTimeout(function () {
      for (const plot of document.querySelectorAll(".js-plotly-plot")) {
        if (plot._fullLayout && plot._fullLayout.showlegend) window.Plotly.relayout(plot, { "legend.y": 1.02 });
      }
    }, 700);
  });

  /* Saving the content of a figure. A name of its legend has a line of this height. */
  const NAME_SIZE = 11, NAME_PX = 19;
  document.addEventListener("click", function (event) {
    const button = event.target.closest("[data-save]");
    if (!button) return;
    const section = button.closest(".panel");
    const plot = section && section.querySelector(".js-plotly-plot");
    if (!plot) return;
    const heading = section.querySelector("h2");
    const title = heading ? heading.textContent : "figure";
    const name = "laser-" + title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
    const kind = button.dataset.save;
    if (kind === "csv") return save(new Blob([csv(plot)], { type: "text/csv" }), name + ".csv");
    /* A picture by itself needs a legend with room for every name: below the figure, one name a line. */
    const named = plot._fullData.filter((trace) => trace.showlegend && trace.visible === true && trace.name);
    const names = named.length, below = names > 1 ? NAME_PX * names + 20 : 0;
    const widest = Math.max(...named.map((trace) => wide(trace.name)), 0);
    const width = Math.max(700, plot.clientWidth, Math.ceil(widest) + 140), inner = Math.max(400, plot.clientHeight);
    const height = inner + below;
    const layout = Object.assign({}, plot.layout, {
      title: { text: escaped(title), font: { size: 15 } },
      showlegend: names > 1,
      /* By default a legend is at most half as high as the picture, and the rest of it has to be scrolled to. */
      legend: { orientation: "v", x: 0, y: -70 / (inner - 140), yanchor: "top", font: { size: NAME_SIZE },
        tracegroupgap: 0, maxheight: below + NAME_PX },
      margin: Object.assign({}, plot.layout.margin, { t: 60, b: 80 + below }),
      width: width, height: height, autosize: false,
    });
    window.Plotly.toImage({ data: plot.data, layout: layout },
      { format: kind, width: width, height: height, scale: kind === "png" ? 2 : 1 })
      .then((address) => {
        if (kind === "png") return save(address, name + ".png");
        const text = decodeURIComponent(address.slice(address.indexOf(",") + 1));
        return save(new Blob([text], { type: "image/svg+xml" }), name + ".svg");
      });
  });

  function wide(name) {
    const pen = document.createElement("canvas").getContext("2d");
    pen.font = NAME_SIZE + "px " + getComputedStyle(document.body).fontFamily;
    return pen.measureText(name).width;
  }

  function escaped(text) {
    return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  }

  function csv(plot) {
    const rows = ["series,x,y"];
    for (const trace of plot._fullData || []) {
      if (!trace.x || !trace.y) continue;
      if (trace.z) {
        rows[0] = "row,column,value";
        trace.z.forEach((line, row) => line.forEach((value, column) => {
          if (value !== null) rows.push([trace.y[row], trace.x[column], value].map(cell).join(","));
        }));
        continue;
      }
      for (let i = 0; i < trace.x.length; i++) {
        if (Number.isNaN(trace.x[i])) continue;  /* a gap between two pieces of a line */
        rows.push([trace.name, trace.x[i], trace.y[i]].map(cell).join(","));
      }
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

/* The table of a sweep's members: its filters and its order stand in the address. */
(function () {
  "use strict";

  const laser = window.laser;

  function grid() {
    if (!window.dash_ag_grid || !document.querySelector("#members .ag-root")) return null;
    let api = null;
    try { api = window.dash_ag_grid.getApi("members"); } catch (error) { return null; /* it is not made yet */ }
    return api && !api.isDestroyed() ? api : null;
  }

  function ready(at) {
    return new Promise((resolve) => {
      (function look() {
        const api = grid();
        if (api || at !== laser.at) resolve(api);
        else setTimeout(look, 30);
      })();
    });
  }

  Object.assign(laser.callbacks, {
    openMembers: async function (start) {
      const api = await ready(start.at);
      if (!api || start.at !== laser.at) return false;
      if (start.filter) api.setFilterModel(start.filter);
      if (start.sort.length) api.applyColumnState({ state: start.sort, defaultState: { sort: null } });
      api.addEventListener("sortChanged", function () {
        if (api.isDestroyed() || start.at !== laser.at) return;
        const sorted = api.getColumnState().filter((column) => column.sort)
          .sort((one, other) => one.sortIndex - other.sortIndex);
        laser.write([["sort", sorted.map((column) => column.colId + ":" + column.sort), start.first]]);
      });
      api.addEventListener("filterChanged", function () {
        if (api.isDestroyed() || start.at !== laser.at) return;
        const filter = api.getFilterModel();
        laser.write([["filter", Object.keys(filter).length ? filter : null, null]]);
      });
      laser.useEnter(api);
      return true;
    },
  });
})();

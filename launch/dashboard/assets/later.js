/* Parts of a page that are made once they are nearly in view: what is seen first need not wait for them. See `later` in
   launch/dashboard/pages/parts.py. */
(function () {
  "use strict";

  const AHEAD_PX = 300;
  const watcher = new IntersectionObserver(function (found) {
    for (const entry of found.filter((each) => each.isIntersecting)) {
      watcher.unobserve(entry.target);
      window.dash_clientside.set_props("near-" + entry.target.dataset.later, { data: true });
    }
  }, { rootMargin: AHEAD_PX + "px 0px" });

  /* Before the page's first figure is there, tables and figures have no height yet, and all of the page is in view. */
  const watched = new WeakSet();
  function watch() {
    if (!document.querySelector(".panel .js-plotly-plot")) return;
    for (const place of document.querySelectorAll("[data-later]")) {
      if (!watched.has(place)) watcher.observe(place);
      watched.add(place);
    }
  }
  new MutationObserver(watch).observe(document.documentElement, { childList: true, subtree: true });

  Object.assign(window.laser.callbacks, {
    make: function (isNear, content) {
      return isNear ? content : window.dash_clientside.no_update;
    },
  });
})();

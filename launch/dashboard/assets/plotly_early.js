/* The page begins plotly.js before everything else, since its script takes the longest to compile; see scripts.py. Dash's
   figures wait for `window.Plotly` if it is a promise, and would otherwise load the script once more. */
(function () {
  "use strict";

  const DEADLINE_MS = 60000;
  if (window.Plotly) return;
  window.Plotly = new Promise(function (found, failed) {
    function fail() {
      delete window.Plotly;
      failed(new Error("plotly.js did not load: load the page again"));
    }
    const deadline = setTimeout(fail, DEADLINE_MS);
    const script = document.getElementById("plotly-early");
    script.addEventListener("error", fail);
    script.addEventListener("load", function () {
      clearTimeout(deadline);
      found(window.Plotly);
    });
  });
})();

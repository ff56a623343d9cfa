/* The explanations behind "?": one at a time, shut by Escape and by a click elsewhere. */
(function () {
  "use strict";

  function shut(except) {
    for (const help of document.querySelectorAll("details.help[open]")) if (help !== except) help.open = false;
  }
  document.addEventListener("click", (event) => shut(event.target.closest && event.target.closest("details.help")));
  document.addEventListener("keydown", function (event) {
    if (event.key !== "Escape") return;
    const help = document.querySelector("details.help[open]");
    if (!help) return;
    const had = help.contains(document.activeElement);
    shut(null);
    if (had) help.querySelector("summary").focus();
  });
})();

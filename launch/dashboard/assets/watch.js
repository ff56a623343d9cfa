/* The page Watch: pictures of several steps shown one by one, and the videos of a run's evaluations. */
(function () {
  "use strict";

  let timer = 0;
  Object.assign(window.laser.callbacks, {
    film: function (data) {
      clearTimeout(timer);
      const pictures = data ? data.pictures : [];
      let place = 0;
      (function next() {
        const shown = document.getElementById("live-picture");
        if (!shown || place >= pictures.length) return;
        shown.src = pictures[place];
        place += 1;
        timer = setTimeout(next, data.ms);
      })();
    },
    /* The address names the run that the page has chosen, so that a link to it shows the same run. */
    openWatch: function (start) {
      if (start.run && start.at === window.laser.at) window.laser.write([["run", start.run, start.named]], true);
      return true;
    },
    evaluation: function (number, films) {
      const film = (films || [])[number - 1];
      return film || ["", ""];
    },
  });
})();

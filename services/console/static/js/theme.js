// Runs before the page is drawn, so that it never flashes in the wrong colours. Not a module for that reason.
"use strict";

(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const kept = () => {
    try {
      return localStorage.getItem("herdless-theme");
    } catch {
      return null; // storage is forbidden: the choice lasts as long as the page
    }
  };
  const show = (theme) => {
    document.documentElement.dataset.theme = theme;
    dispatchEvent(new Event("themechange"));
  };
  show(kept() ?? (system.matches ? "dark" : "light"));
  system.addEventListener("change", () => kept() ?? show(system.matches ? "dark" : "light"));
  addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme").addEventListener("click", () => {
      const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
      try {
        localStorage.setItem("herdless-theme", theme);
      } catch {
        // as above
      }
      show(theme);
    });
  });
})();

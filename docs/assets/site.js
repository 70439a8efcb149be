// What axe asks for beyond the theme: a name for the search, and tables that the keyboard can scroll.
document.querySelector(".md-search").setAttribute("aria-label", "Search");
new MutationObserver(() => {
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) table.tabIndex = 0;
}).observe(document.querySelector("main"), { childList: true, subtree: true });

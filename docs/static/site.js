// The current page is visible in the sidebar, which furo leaves at its beginning.
const current = document.querySelector(".sidebar-tree .current-page");
const sidebar = document.querySelector(".sidebar-scroll");
if (current && sidebar) {
  const below = current.getBoundingClientRect().bottom - sidebar.getBoundingClientRect().bottom;
  if (below > 0) sidebar.scrollTop += below + sidebar.clientHeight / 3;
}

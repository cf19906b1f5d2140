// Runs in the page around the frames; the pages inside hold no script.
function visible(frame, selector) {
  return [...frame.contentDocument.querySelectorAll(selector)]
    .filter((element) => element.getBoundingClientRect().width > 0);
}

function beyond(frame) {
  const width = frame.contentDocument.documentElement.clientWidth;
  return visible(frame, "body *")
    .filter((element) => !element.closest(".scroll *, svg *"))
    .filter((element) => {
      const place = element.getBoundingClientRect();
      return place.right > width + 1 || place.left < -1;
    })
    .map((element) => element.outerHTML.slice(0, 80));
}

function cut(frame) {
  return visible(frame, "svg text").filter((text) => {
    const own = text.getBoundingClientRect();
    const all = text.closest("svg").getBoundingClientRect();
    return own.left < all.left - 2 || own.right > all.right + 2 ||
      own.top < all.top - 2 || own.bottom > all.bottom + 2;
  }).map((text) => text.textContent);
}

function smallest(frame) {
  return Math.min(...visible(frame, "svg text").map((text) => {
    const drawing = text.closest("svg");
    const scale = drawing.getBoundingClientRect().width / (drawing.viewBox.baseVal.width || 1);
    return scale * parseFloat(frame.contentWindow.getComputedStyle(text).fontSize);
  }));
}

addEventListener("load", () => {
  const seen = [...document.querySelectorAll("iframe")].map((frame) => {
    const page = frame.contentDocument, view = frame.contentWindow, root = page.documentElement;
    return {
      name: frame.dataset.name,
      width: root.clientWidth,
      scroll_width: root.scrollWidth,
      beyond: beyond(frame),
      cut: cut(frame),
      smallest: smallest(frame),
      fetched: view.performance.getEntriesByType("resource").map((entry) => entry.name),
      title: page.title,
      ground: view.getComputedStyle(page.body).backgroundColor,
      plot: view.getComputedStyle(page.querySelector("svg text")).fill,
    };
  });
  document.getElementById("seen").textContent = JSON.stringify(seen);
});

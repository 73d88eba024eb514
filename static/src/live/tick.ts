/**
 * At most one rendering a display frame, however many frames of data arrive: after a sleep the browser hands over
 * everything it buffered at once, and only the newest is worth drawing. What each rendering costs is measured.
 */
export function startTick<Item>(render: (item: Item) => void): (item: Item) => void {
  let pending: Item | null = null;
  const draw = () => {
    if (pending === null) return;
    const item = pending;
    pending = null;
    const startedAt = performance.now();
    render(item);
    // Preact renders in a microtask after the signals changed; a macrotask later it is done.
    queueMicrotask(() => queueMicrotask(() => note(startedAt)));
  };
  return (item) => {
    const isFirst = pending === null;
    pending = item;
    if (isFirst) requestAnimationFrame(draw);
  };
}

/** Leaves the cost of a rendering where the browser's tools and the tests find it. */
function note(startedAt: number): void {
  // A page may stay open for weeks: keep the last minute.
  if (performance.getEntriesByName("tick").length >= 60) performance.clearMeasures("tick");
  performance.measure("tick", { start: startedAt, end: performance.now() });
}

/** Arrow keys on the map: left and right in order, up and down to what is nearest there. */

type Focusable = Element & { focus(): void };

export function neighbour(root: Element | null, from: Element, key: string): Focusable | null {
  const pieces = [...(root?.querySelectorAll(".piece") ?? [])] as Focusable[];
  const index = pieces.indexOf(from as Focusable);
  switch (key) {
    case "ArrowRight":
      return pieces[index + 1] ?? null;
    case "ArrowLeft":
      return pieces[index - 1] ?? null;
    case "Home":
      return pieces[0] ?? null;
    case "End":
      return pieces.at(-1) ?? null;
    case "ArrowDown":
      return nearest(pieces, from, 1);
    case "ArrowUp":
      return nearest(pieces, from, -1);
    default:
      return null;
  }
}

function nearest(pieces: readonly Focusable[], from: Element, direction: 1 | -1): Focusable | null {
  const start = from.getBoundingClientRect();
  let best: Focusable | null = null;
  let least = Number.POSITIVE_INFINITY;
  for (const piece of pieces) {
    const box = piece.getBoundingClientRect();
    const down = (box.top - start.top) * direction;
    if (down < start.height / 2) continue;
    // The next row counts first, and in it the nearest column.
    const distance = down * 4 + Math.abs(box.left + box.width / 2 - start.left - start.width / 2);
    if (distance < least) {
      least = distance;
      best = piece;
    }
  }
  return best;
}

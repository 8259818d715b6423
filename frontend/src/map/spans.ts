/**
 * How the devices of a node are drawn: cards side by side, and on a card what occupies it, to scale.
 *
 * A driver that creates MIG devices on request publishes every position, so most of a card's devices overlap and only
 * some can exist together. What is in use is drawn where it is; the rest of the card is drawn as the room that is left.
 */

export interface Spanned {
  name: string;
  state: string;
  card?: string | undefined;
  span?: readonly number[] | undefined;
  holders?: readonly number[] | undefined;
}

/** A part of a card: devices at that place, the first of which is drawn. Positions are fractions of the card. */
export interface Piece<D> {
  start: number;
  end: number;
  devices: D[];
  /** Whether it is room in which several devices are possible, rather than one device. */
  isRoom: boolean;
}

export interface Card<D> {
  name: string;
  pieces: Piece<D>[];
  devices: D[];
  /** Into how many slices or XCDs the card is divided; 1 if it is not. */
  slices: number;
}

export function cardsOf<D extends Spanned>(devices: readonly D[]): Card<D>[] {
  const byCard = new Map<string, D[]>();
  for (const device of devices) {
    const key = device.card ? `card ${device.card}` : `device ${device.name}`;
    const found = byCard.get(key);
    if (found) found.push(device);
    else byCard.set(key, [device]);
  }
  return [...byCard.values()].map((members) => {
    const first = members[0] as D;
    return { name: first.card || first.name, devices: members, ...layout(members) };
  });
}

function rangeOf(device: Spanned, slices: number): [number, number] {
  const [start, size, total] = device.span ?? [];
  if (start === undefined || size === undefined || !total) return [0, slices];
  const scale = slices / total;
  return [start * scale, (start + size) * scale];
}

function isTaken(device: Spanned): boolean {
  return (device.holders?.length ?? 0) > 0 || ["in-use", "shared", "full"].includes(device.state);
}

function layout<D extends Spanned>(devices: readonly D[]): { pieces: Piece<D>[]; slices: number } {
  const slices = Math.max(1, ...devices.map((device) => device.span?.[2] ?? 1));
  const placed = devices.map((device) => ({ device, range: rangeOf(device, slices), isTaken: isTaken(device) }));
  const overlaps = (a: readonly [number, number], b: readonly [number, number]) => a[0] < b[1] && b[0] < a[1];
  const isStatic = placed.every((one, index) =>
    placed.slice(index + 1).every((other) => !overlaps(one.range, other.range)),
  );
  const pieces: Piece<D>[] = [];
  const add = (range: readonly [number, number], members: D[], isRoom: boolean) =>
    pieces.push({ start: range[0] / slices, end: range[1] / slices, devices: members, isRoom });
  if (isStatic) {
    for (const { device, range } of placed) add(range, [device], false);
  } else {
    // Smaller devices lie on top of a whole card that is in use only by administrators.
    const taken = placed.filter((one) => one.isTaken);
    const drawn = taken.filter(
      (one) => !taken.some((other) => other !== one && other.range[0] >= one.range[0] && other.range[1] <= one.range[1]
        && other.range[1] - other.range[0] < one.range[1] - one.range[0]),
    );
    for (const { device, range } of drawn) add(range, [device], false);
    const rest = placed.filter((one) => !one.isTaken);
    for (const gap of gapsBetween(drawn.map((one) => one.range), slices)) {
      // What fits into the gap first; the whole card, if it is free; then devices that reach beyond it.
      const inside = rest.filter((one) => one.range[0] >= gap[0] && one.range[1] <= gap[1]);
      const members = inside.length ? inside : rest.filter((one) => overlaps(one.range, gap));
      const free = members.filter((one) => one.device.state === "free");
      const shown = free.length ? free : members;
      const largest = [...shown].sort((a, b) => b.range[1] - b.range[0] - (a.range[1] - a.range[0]));
      if (largest.length) add(gap, largest.map((one) => one.device), true);
    }
  }
  pieces.sort((a, b) => a.start - b.start || a.end - b.end);
  return { pieces, slices };
}

function gapsBetween(taken: readonly (readonly [number, number])[], end: number): [number, number][] {
  const gaps: [number, number][] = [];
  let position = 0;
  for (const [from, to] of [...taken].sort((a, b) => a[0] - b[0])) {
    if (from > position) gaps.push([position, from]);
    position = Math.max(position, to);
  }
  if (position < end) gaps.push([position, end]);
  return gaps;
}

/**
 * The stripes of a shared device as fractions of it: one for each holder, then what is free.
 *
 * Who holds how much is not known for each claim, so the used part is divided equally.
 */
export function stripesOf(holders: number, used: number | undefined): [number, number][] {
  if (holders === 0) return [];
  const share = Math.min(1, Math.max(0, used ?? 1)) || 1;
  return Array.from({ length: holders }, (_, index) => [(share * index) / holders, (share * (index + 1)) / holders]);
}

/** Memory in GiB of a quantity such as `40192Mi`; 0 if it is not one. */
export function gibibytes(quantity: string | undefined): number {
  const found = /^([\d.]+)\s*(Ki|Mi|Gi|Ti|k|M|G|T|)(?:B)?$/.exec(quantity ?? "");
  if (!found) return 0;
  const factor: Record<string, number> = {
    "": 2 ** -30,
    Ki: 2 ** -20,
    Mi: 2 ** -10,
    Gi: 1,
    Ti: 1024,
    k: 1e3 / 2 ** 30,
    M: 1e6 / 2 ** 30,
    G: 1e9 / 2 ** 30,
    T: 1e12 / 2 ** 30,
  };
  return Number(found[1]) * (factor[found[2] ?? ""] ?? 0);
}

/** How wide a card is drawn relative to one with 40 GiB: its area grows with the root, so that all stay readable. */
export function relativeWidth(memory: string | undefined): number {
  const size = gibibytes(memory);
  return size ? Math.min(1.8, Math.max(0.6, Math.sqrt(size / 40))) : 1;
}

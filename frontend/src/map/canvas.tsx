/** Nodes drawn on a canvas, for clusters whose devices are too many for SVG. Only what is visible is drawn. */

import { useEffect, useRef, useState } from "preact/hooks";
import { counted } from "../parts/text.ts";
import { resolvedColours } from "../shell/theme.ts";
import type { MapDevice, MapScreen } from "../types.ts";
import { pieceText } from "./describe.ts";
import { claimKey, holdersOf, type MapModel, type ShownNode, workloadKey } from "./model.ts";
import type { Card, Piece } from "./spans.ts";

const DEVICE = { width: 7, height: 13, gap: 2 };
const NODE = { gapX: 10, gapY: 9, heading: 24 };
const PER_ROW = 8;

interface Placed {
  shown: ShownNode;
  x: number;
  y: number;
  width: number;
}

interface Layout {
  nodes: Placed[];
  headings: { text: string; y: number }[];
  height: number;
}

function layoutOf(model: MapModel, width: number): Layout {
  const nodes: Placed[] = [];
  const headings: Layout["headings"] = [];
  let y = 0;
  for (const group of model.groups) {
    if (group.name) {
      headings.push({
        text: `${group.name}  ·  ${counted(group.nodes.length, "node")}  ·  ${group.free.toLocaleString("en")} of ${counted(group.devices, "device")} with room`,
        y: y + 14,
      });
      y += NODE.heading;
    }
    const most = group.nodes.reduce((found, node) => Math.max(found, node.cards.length), 1);
    const nodeWidth = Math.min(PER_ROW, most) * (DEVICE.width + DEVICE.gap) - DEVICE.gap;
    const columns = Math.max(1, Math.floor((width + NODE.gapX) / (nodeWidth + NODE.gapX)));
    const rows = Math.ceil(most / PER_ROW);
    const nodeHeight = rows * (DEVICE.height + DEVICE.gap) - DEVICE.gap;
    group.nodes.forEach((shown, index) => {
      nodes.push({
        shown,
        x: (index % columns) * (nodeWidth + NODE.gapX),
        y: y + Math.floor(index / columns) * (nodeHeight + NODE.gapY),
        width: nodeWidth,
      });
    });
    y += Math.ceil(group.nodes.length / columns) * (nodeHeight + NODE.gapY) + 14;
  }
  return { nodes, headings, height: y };
}

function cardBox(placed: Placed, index: number): { x: number; y: number } {
  return {
    x: placed.x + (index % PER_ROW) * (DEVICE.width + DEVICE.gap),
    y: placed.y + Math.floor(index / PER_ROW) * (DEVICE.height + DEVICE.gap),
  };
}

const CATEGORIES = Array.from({ length: 8 }, (_, index) => `--c${index}`);

/** The colours of the style sheet, since a canvas has none of its own. */
function coloursOf(element: Element) {
  const [none = "", free = "", edge = "", blocked = "", ink = "", inkSoft = "", accent = "", ...categories] = resolvedColours(
    element,
    ["--c-none", "--free", "--edge", "--blocked", "--ink", "--ink-2", "--accent", ...CATEGORIES],
  );
  return { categories, none, free, edge, blocked, ink, inkSoft, accent, font: getComputedStyle(element).fontFamily };
}

export interface Target {
  shown: ShownNode;
  card: Card<MapDevice>;
  piece: Piece<MapDevice>;
}

export function CanvasMap({
  map,
  model,
  theme,
  onPoint,
  onChoose,
}: {
  map: MapScreen;
  model: MapModel;
  theme: string;
  onPoint: (target: Target | null) => void;
  onChoose: (target: Target, isKey: boolean) => void;
}) {
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [pointed, setPointed] = useState<Target | null>(null);
  const [cursor, setCursor] = useState<{ node: number; card: number } | null>(null);
  const layout = useRef<Layout>({ nodes: [], headings: [], height: 0 });
  layout.current = width ? layoutOf(model, width) : layout.current;

  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  useEffect(() => {
    const draw = () => {
      if (canvas.current && frame.current) paint(canvas.current, frame.current, map, model, layout.current, pointed, cursor);
    };
    let request = requestAnimationFrame(draw);
    const later = () => {
      cancelAnimationFrame(request);
      request = requestAnimationFrame(draw);
    };
    window.addEventListener("scroll", later, { passive: true });
    window.addEventListener("resize", later);
    return () => {
      cancelAnimationFrame(request);
      window.removeEventListener("scroll", later);
      window.removeEventListener("resize", later);
    };
  }, [map, model, width, pointed, cursor, theme]);

  function targetAt(event: MouseEvent): Target | null {
    const box = frame.current?.getBoundingClientRect();
    if (!box) return null;
    const x = event.clientX - box.left;
    const y = event.clientY - box.top;
    for (const placed of layout.current.nodes) {
      if (y < placed.y || x < placed.x || x > placed.x + placed.width) continue;
      const column = Math.floor((x - placed.x) / (DEVICE.width + DEVICE.gap));
      const row = Math.floor((y - placed.y) / (DEVICE.height + DEVICE.gap));
      const card = placed.shown.cards[row * PER_ROW + column];
      if (!card || column >= PER_ROW) continue;
      const corner = cardBox(placed, row * PER_ROW + column);
      const share = (x - corner.x) / DEVICE.width;
      const piece = card.pieces.find(({ start, end }) => share >= start && share < end) ?? card.pieces[0];
      return piece ? { shown: placed.shown, card, piece } : null;
    }
    return null;
  }

  function point(target: Target | null): void {
    setPointed(target);
    onPoint(target);
  }

  function targetOf(at: { node: number; card: number }): Target | null {
    const shown = layout.current.nodes[at.node]?.shown;
    const card = shown?.cards[at.card];
    const piece = card?.pieces[0];
    return shown && card && piece ? { shown, card, piece } : null;
  }

  function move(event: KeyboardEvent): void {
    const { nodes } = layout.current;
    const at = cursor ?? { node: 0, card: 0 };
    const cards = nodes[at.node]?.shown.cards.length ?? 1;
    let next = at;
    if (event.key === "ArrowRight") next = at.card + 1 < cards ? { ...at, card: at.card + 1 } : { node: at.node + 1, card: 0 };
    else if (event.key === "ArrowLeft")
      next = at.card > 0 ? { ...at, card: at.card - 1 } : { node: at.node - 1, card: (nodes[at.node - 1]?.shown.cards.length ?? 1) - 1 };
    else if (event.key === "ArrowDown") next = { node: below(nodes, at.node, 1), card: at.card };
    else if (event.key === "ArrowUp") next = { node: below(nodes, at.node, -1), card: at.card };
    else if (event.key === "Home") next = { node: 0, card: 0 };
    else if (event.key === "End") next = { node: nodes.length - 1, card: 0 };
    else if (event.key === "Enter" || event.key === " ") {
      const target = targetOf(at);
      if (target) onChoose(target, true);
      event.preventDefault();
      return;
    } else return;
    event.preventDefault();
    next = {
      node: Math.min(nodes.length - 1, Math.max(0, next.node)),
      card: next.card,
    };
    next.card = Math.min((nodes[next.node]?.shown.cards.length ?? 1) - 1, Math.max(0, next.card));
    setCursor(next);
    const target = targetOf(next);
    point(target);
    const placed = nodes[next.node];
    const box = frame.current?.getBoundingClientRect();
    if (placed && box) {
      const top = box.top + placed.y;
      if (top < 80 || top > innerHeight - 80) window.scrollBy({ top: top - innerHeight / 2 });
    }
  }

  const described = cursor ? targetOf(cursor) : null;
  return (
    <div
      ref={frame}
      class="canvas-frame"
      tabIndex={0}
      role="application"
      aria-roledescription="map of devices"
      aria-label={`${counted(model.shown, "node")}, ${counted(model.matchingDevices, "device")}. Arrow keys move between devices, Enter shows one. The same as a table: View, Table.`}
      onKeyDown={move}
      onFocus={() => setCursor((last) => last ?? { node: 0, card: 0 })}
      onPointerMove={(event) => point(targetAt(event))}
      onPointerLeave={() => point(null)}
      onClick={(event) => {
        const target = targetAt(event);
        if (target) onChoose(target, false);
      }}
    >
      <Spacer height={layout.current.height} />
      <canvas ref={canvas} aria-hidden="true" />
      <span class="unseen" role="status">
        {described ? `${described.shown.node.name}: ${pieceText(map, described.piece)}` : ""}
      </span>
    </div>
  );
}

/** The node in the next row, or in the one before, that is nearest to the column of a node; the node if there is none. */
function below(nodes: readonly Placed[], index: number, direction: 1 | -1): number {
  const from = nodes[index];
  if (!from) return index;
  let found = index;
  let row: number | null = null;
  let least = Number.POSITIVE_INFINITY;
  for (let at = index + direction; at >= 0 && at < nodes.length; at += direction) {
    const node = nodes[at] as Placed;
    if (node.y === from.y) continue;
    row ??= node.y;
    if (node.y !== row) break;
    const distance = Math.abs(node.x - from.x);
    if (distance < least) {
      least = distance;
      found = at;
    }
  }
  return found;
}

/** Gives the frame the height of the whole map, of which the canvas covers only what is visible. */
function Spacer({ height }: { height: number }) {
  return <div class="canvas-spacer" style={{ height: `${height}px` }} />;
}

function paint(
  canvas: HTMLCanvasElement,
  frame: HTMLElement,
  map: MapScreen,
  model: MapModel,
  layout: Layout,
  pointed: Target | null,
  cursor: { node: number; card: number } | null,
): void {
  const box = frame.getBoundingClientRect();
  const top = Math.max(0, -box.top - 40);
  const height = Math.min(layout.height - top, innerHeight + 80);
  const ratio = devicePixelRatio || 1;
  const context = canvas.getContext("2d");
  if (!context || height <= 0 || box.width <= 0) return;
  const pixels = { width: Math.round(box.width * ratio), height: Math.round(height * ratio) };
  if (canvas.width !== pixels.width || canvas.height !== pixels.height) Object.assign(canvas, pixels);
  canvas.style.transform = `translateY(${top}px)`;
  canvas.style.width = `${box.width}px`;
  canvas.style.height = `${height}px`;
  context.setTransform(ratio, 0, 0, ratio, 0, -top * ratio);
  context.clearRect(0, top, box.width, height);
  const colours = coloursOf(frame);

  context.font = `600 12px ${colours.font}`;
  context.fillStyle = colours.inkSoft;
  for (const heading of layout.headings)
    if (heading.y > top - 20 && heading.y < top + height + 20) context.fillText(heading.text, 0, heading.y, box.width);

  const pointedHolders = pointed ? pointed.piece.devices.slice(0, 1).flatMap((device) => holdersOf(map, device)) : [];
  const claims = new Set(pointedHolders.map(claimKey));
  const workloads = new Set(pointedHolders.map(workloadKey));
  layout.nodes.forEach((placed, nodeIndex) => {
    if (placed.y > top + height || placed.y + 200 < top) return;
    placed.shown.cards.forEach((card, cardIndex) => {
      const { x, y } = cardBox(placed, cardIndex);
      for (const piece of card.pieces) {
        const device = piece.devices[0];
        if (!device) continue;
        const left = x + piece.start * DEVICE.width;
        const width = Math.max(1, (piece.end - piece.start) * DEVICE.width);
        const holders = piece.isRoom ? [] : holdersOf(map, device);
        const isLit = holders.some((holder) => workloads.has(workloadKey(holder)));
        const isSame = holders.some((holder) => claims.has(claimKey(holder)));
        const isOut = placed.shown.matching !== null && !piece.devices.some(({ name }) => placed.shown.matching?.has(name));
        context.globalAlpha = isOut ? 0.18 : workloads.size && !isLit ? 0.3 : 1;
        context.fillStyle = ["blocked", "tainted", "unschedulable"].includes(device.state) ? colours.blocked : colours.free;
        context.fillRect(left, y, width, DEVICE.height);
        const used = holders.length ? (device.state === "shared" ? Math.max(0.15, device.used ?? 0.5) : 1) : 0;
        if (used) {
          const colour = model.colourOf(device, holders[0]);
          context.fillStyle = (colour < 0 ? colours.none : colours.categories[colour]) ?? colours.none;
          context.fillRect(left, y + DEVICE.height * (1 - used), width, DEVICE.height * used);
          mark(context, colour, left, y + DEVICE.height * (1 - used), width, DEVICE.height * used);
        }
        if (device.taints?.length) {
          context.fillStyle = colours.ink;
          context.fillRect(left + width - 2, y, 2, 2);
        }
        if (isSame) {
          context.strokeStyle = colours.accent;
          context.lineWidth = 2;
          context.strokeRect(left - 0.5, y - 0.5, width + 1, DEVICE.height + 1);
        } else if (width >= 3) {
          context.strokeStyle = colours.edge;
          context.lineWidth = 1;
          context.strokeRect(left + 0.5, y + 0.5, width - 1, DEVICE.height - 1);
        }
      }
      if (card.pieces.length > 1) {
        // Around pieces that are too narrow for an outline of their own.
        context.strokeStyle = colours.edge;
        context.lineWidth = 1;
        context.strokeRect(x + 0.5, y + 0.5, DEVICE.width - 1, DEVICE.height - 1);
      }
      context.globalAlpha = 1;
      if (cursor && cursor.node === nodeIndex && cursor.card === cardIndex && document.activeElement === frame) {
        context.strokeStyle = colours.accent;
        context.lineWidth = 2;
        context.strokeRect(x - 2, y - 2, DEVICE.width + 4, DEVICE.height + 4);
      }
    });
  });
}

/** Marks that distinguish colours without colour: the number of the colour in dark rows and columns. */
function mark(context: CanvasRenderingContext2D, colour: number, x: number, y: number, width: number, height: number) {
  if (colour <= 0 || width < 4) return;
  context.fillStyle = "rgb(0 0 0 / 35%)";
  const isAcross = colour % 2 === 1;
  const count = Math.ceil(colour / 2);
  for (let line = 0; line < count; line += 1) {
    if (isAcross) context.fillRect(x + 1, y + 2 + line * 3, width - 2, 1);
    else context.fillRect(x + 1 + line * 1.6, y + 2, 0.8, height - 4);
  }
}

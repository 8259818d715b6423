/** Nodes drawn in SVG: cards to scale, MIG devices by slice, shares as stripes, marks for taints and more. */

import { Component } from "preact";
import type { Holder, MapDevice, MapScreen } from "../types.ts";
import { labelsOf, pieceText } from "./describe.ts";
import { litAttributes } from "./lit.ts";
import { claimKey, holdersOf, type MapModel, type ShownNode, workloadKey } from "./model.ts";
import { type Card, type Piece, relativeWidth, stripesOf } from "./spans.ts";

export type Size = "large" | "medium" | "small";

interface Measures {
  width: number;
  height: number;
  gap: number;
  perRow: number;
}

export const MEASURES: Record<Size, Measures> = {
  large: { width: 66, height: 46, gap: 6, perRow: 4 },
  medium: { width: 33, height: 28, gap: 4, perRow: 8 },
  small: { width: 15, height: 17, gap: 3, perRow: 8 },
};

export interface Drawn {
  map: MapScreen;
  model: MapModel;
  size: Size;
  categoryOf: (device: MapDevice, holder: Holder) => string;
}

interface CardsProperties {
  shown: ShownNode;
  drawn: Drawn;
  /** Changes when anything but the node changes how it is drawn. */
  epoch: string;
}

/** The cards of a node, in rows. They are drawn again only if the node changed: there may be thousands. */
export class Cards extends Component<CardsProperties> {
  override shouldComponentUpdate(next: CardsProperties): boolean {
    return (
      this.props.shown.node !== next.shown.node ||
      this.props.epoch !== next.epoch ||
      !sameSet(this.props.shown.matching, next.shown.matching)
    );
  }

  render({ shown, drawn }: CardsProperties) {
    const { width, height, gap, perRow } = MEASURES[drawn.size];
    const positions: { card: Card<MapDevice>; x: number; y: number; width: number }[] = [];
    let x = 0;
    let y = 0;
    let right = 0;
    shown.cards.forEach((card, index) => {
      if (index > 0 && index % perRow === 0) {
        x = 0;
        y += height + gap;
      }
      const cardWidth = Math.round(width * relativeWidth(memoryOf(drawn.map, card)));
      positions.push({ card, x, y, width: cardWidth });
      x += cardWidth + gap;
      right = Math.max(right, x - gap);
    });
    const total = { width: Math.max(1, right), height: y + height };
    return (
      <svg
        class={`cards cards-${drawn.size}`}
        width={total.width + 2}
        height={total.height + 2}
        viewBox={`-1 -1 ${total.width + 2} ${total.height + 2}`}
        role="group"
        aria-label={`Devices of ${shown.node.name}`}
      >
        {positions.map(({ card, x: left, y: top, width: cardWidth }) => (
          <g key={card.name} transform={`translate(${left} ${top})`}>
            <rect class="card" width={cardWidth} height={height} rx="2.5" />
            {card.pieces.map((piece, index) => (
              <PieceMark
                key={`${piece.devices[0]?.name}-${index}`}
                piece={piece}
                card={card}
                width={cardWidth}
                height={height}
                shown={shown}
                drawn={drawn}
              />
            ))}
          </g>
        ))}
        {drawn.size === "large" &&
          positions.map(({ card, x: left, y: top, width: cardWidth }) =>
            card.pieces.map((piece, index) => (
              <Label
                key={`${card.name} ${index}`}
                piece={piece}
                x={left + piece.start * cardWidth}
                y={top + height / 2 + 3.2}
                width={(piece.end - piece.start) * cardWidth}
                shown={shown}
                drawn={drawn}
              />
            )),
          )}
      </svg>
    );
  }
}

function sameSet(a: Set<string> | null, b: Set<string> | null): boolean {
  return a === b || (a !== null && b !== null && a.size === b.size && [...a].every((name) => b.has(name)));
}

/** The memory of the whole card: that of its largest device, since MIG devices may be all there is. */
function memoryOf(map: MapScreen, card: Card<MapDevice>): string | undefined {
  let largest: MapDevice | undefined;
  let size = -1;
  for (const device of card.devices) {
    const [, part = 1, total = 1] = device.span ?? [];
    if (part / total > size) {
      size = part / total;
      largest = device;
    }
  }
  const memory = map.kinds?.[largest?.kind ?? 0]?.memory;
  if (size >= 1 || !memory) return memory;
  const found = /^([\d.]+)(.*)$/.exec(memory);
  return found ? `${Number(found[1]) / size}${found[2]}` : memory;
}

function PieceMark({
  piece,
  card,
  width,
  height,
  shown,
  drawn,
}: {
  piece: Piece<MapDevice>;
  card: Card<MapDevice>;
  width: number;
  height: number;
  shown: ShownNode;
  drawn: Drawn;
}) {
  const [device] = piece.devices;
  if (!device) return null;
  const x = piece.start * width;
  const inner = Math.max(1.5, (piece.end - piece.start) * width);
  // A gap between pieces, unless they are too narrow for one.
  const gap = piece.start > 0 && inner > 4 ? 1 : 0;
  const holders = piece.isRoom ? [] : holdersOf(drawn.map, device);
  const lit = litOf(drawn, device, holders);
  const isDimmed = shown.matching !== null && !piece.devices.some(({ name }) => shown.matching?.has(name));
  const isPattern = ["blocked", "tainted", "unschedulable"].includes(device.state) && !holders.length;
  const box = { x: x + gap, y: 0, width: inner - gap, height, rx: Math.min(2.5, inner / 4) };
  const text = pieceText(drawn.map, piece);
  return (
    <g
      class={`piece${isDimmed ? " dimmed" : ""}`}
      role="button"
      tabindex={-1}
      aria-label={`${shown.node.name}: ${text}`}
      data-node={shown.node.name}
      data-device={device.name}
      {...lit}
    >
      <rect class={`fill s-${holders.length ? "held" : device.state}`} {...box} />
      {isPattern && <rect class="shade" {...box} fill={`url(#p-${device.state})`} />}
      {holders.length > 0 && <Stripes device={device} holders={holders} box={box} drawn={drawn} />}
      {piece.isRoom && card.slices > 1 && drawn.size !== "small" && (
        <path class="ticks" d={ticks(piece, card.slices, width, height)} />
      )}
      {drawn.size !== "small" && <Marks device={device} box={box} />}
      <rect class="edge" {...box} />
    </g>
  );
}

function litOf(drawn: Drawn, device: MapDevice, holders: readonly Holder[]): Record<string, string> {
  return litAttributes(
    holders.map((holder) => ({
      claim: claimKey(holder),
      workload: workloadKey(holder),
      category: drawn.categoryOf(device, holder),
    })),
  );
}

function ticks(piece: Piece<MapDevice>, slices: number, width: number, height: number): string {
  const lines: string[] = [];
  for (let slice = 1; slice < slices; slice += 1) {
    const at = slice / slices;
    if (at > piece.start + 1e-9 && at < piece.end - 1e-9) lines.push(`M${(at * width).toFixed(2)} ${height}v-4`);
  }
  return lines.join("");
}

interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
  rx: number;
}

function Stripes({ device, holders, box, drawn }: { device: MapDevice; holders: Holder[]; box: Box; drawn: Drawn }) {
  const isShared = device.state === "shared" || device.state === "full" || holders.length > 1;
  const stripes = isShared ? stripesOf(holders.length, device.used) : [[0, 1] as [number, number]];
  return (
    <>
      {stripes.map(([from, to], index) => {
        const holder = holders[index] ?? holders[0];
        const colour = drawn.model.colourOf(device, holder);
        const stripe = {
          x: box.x,
          // Shares lie one above the other, from below, as a vessel is filled.
          y: box.height * (1 - to),
          width: box.width,
          height: Math.max(1, box.height * (to - from) - (isShared && to < 1 ? 1 : 0)),
          rx: isShared ? Math.min(1, box.rx) : box.rx,
        };
        return (
          <g key={index}>
            <rect class={`fill ${colour < 0 ? "c-none" : `c${colour}`}`} {...stripe} />
            {colour > 0 && <rect class="shade" {...stripe} fill={`url(#p${colour})`} />}
          </g>
        );
      })}
    </>
  );
}

/** About the width of a character of the labels, in pixels. */
const CHARACTER = 5.4;

/** The text on a piece. It is no part of the piece, whose name says more. */
function Label({
  piece,
  x,
  y,
  width,
  shown,
  drawn,
}: {
  piece: Piece<MapDevice>;
  x: number;
  y: number;
  width: number;
  shown: ShownNode;
  drawn: Drawn;
}) {
  const [device] = piece.devices;
  if (!device || piece.isRoom) return null;
  const labels = labelsOf(drawn.map, piece);
  const room = Math.floor((width - 6) / CHARACTER);
  const [first] = labels;
  const fitting = labels.find((label) => label.length <= room) ?? (first && room >= 8 ? `${first.slice(0, room - 1)}…` : "");
  if (!fitting) return null;
  const isDimmed = shown.matching !== null && !shown.matching.has(device.name);
  return (
    <text
      class={`label${device.holders?.length ? "" : " label-free"}${isDimmed ? " dimmed" : ""}`}
      aria-hidden="true"
      x={x + width / 2}
      y={y}
      text-anchor="middle"
      {...litOf(drawn, device, holdersOf(drawn.map, device))}
    >
      {fitting}
    </text>
  );
}

function Marks({ device, box }: { device: MapDevice; box: Box }) {
  const right = box.x + box.width;
  return (
    <>
      {device.taints?.length ? <path class="mark-taint" d={`M${right} 0v8l-8-8z`} /> : null}
      {device.adminAccess && (
        <rect
          class="mark-admin"
          x={box.x + 2.5}
          y={2.5}
          width={Math.max(1, box.width - 5)}
          height={box.height - 5}
          rx="1"
        />
      )}
      {device.prepared !== undefined && box.width >= 10 && (
        <circle
          class={device.prepared ? "mark-prepared" : "mark-unprepared"}
          cx={box.x + 5}
          cy={box.height - 5}
          r="2"
        />
      )}
    </>
  );
}

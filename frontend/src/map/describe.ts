/** Devices in words: for the inspector, for screen readers, for the table. */

import { counted, listed, shortName } from "../parts/text.ts";
import type { Holder, MapDevice, MapScreen } from "../types.ts";
import { holdersOf, productOf, STATES } from "./model.ts";
import type { Piece } from "./spans.ts";

export function holderText(holder: Holder): string {
  const who = holder.pods?.length ? `pod ${listed(holder.pods, 2)}` : "no pod";
  return holder.claim ? `claim ${holder.claim} (${who})` : who;
}

export function deviceText(map: MapScreen, device: MapDevice): string {
  const holders = holdersOf(map, device);
  const parts = [
    `${device.name}`,
    productOf(map, device),
    STATES[device.state] ?? device.state,
    ...holders.slice(0, 3).map((holder) => holderText(holder)),
    holders.length > 3 ? counted(holders.length - 3, "more claim") : "",
    device.taints?.length ? `taint ${device.taints.join(", ")}` : "",
    device.adminAccess ? "admin access" : "",
    device.prepared === true ? "prepared" : device.prepared === false ? "not prepared" : "",
  ];
  return parts.filter(Boolean).join(", ");
}

/** A piece of a card in words. Room in which several devices are possible is described by them. */
export function pieceText(map: MapScreen, piece: Piece<MapDevice>): string {
  const [first] = piece.devices;
  if (!first) return "";
  if (!piece.isRoom || piece.devices.length === 1) return deviceText(map, first);
  const state = STATES[first.state] ?? first.state;
  return `${state}, ${first.card ?? ""}: room for ${listed(possibilities(map, piece), 4)}`;
}

/** The kinds of devices that are possible in a piece, with how many positions each has. */
export function possibilities(map: MapScreen, piece: Piece<MapDevice>): string[] {
  const counts = new Map<string, number>();
  for (const device of piece.devices) {
    const name = profileOf(productOf(map, device), device.name);
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [...counts].map(([name, count]) => (count > 1 ? `${name} at ${count} positions` : name));
}

/** The MIG profile or partition in a product's name, or "full GPU". */
export function profileOf(product: string, device: string): string {
  return (
    /\b(\d+g\.\d+gb(?:\+\S+)?)$/i.exec(product)?.[1] ??
    /\b((?:spx|dpx|qpx|cpx)\S*)$/i.exec(product)?.[1] ??
    (/mig|partition/i.test(device) ? device : "the full GPU")
  );
}

/** What is written on a piece, shortest last. */
export function labelsOf(map: MapScreen, piece: Piece<MapDevice>): string[] {
  const [first] = piece.devices;
  if (!first || piece.isRoom) return [];
  const holders = holdersOf(map, first);
  const profile = profileOf(productOf(map, first), "");
  const size = profile === "the full GPU" ? "" : profile;
  if (!holders.length) return size ? [size, size.split(".")[0] ?? ""] : [];
  const [holder] = holders;
  const owner = shortName(holder?.workload || holder?.pods?.[0] || holder?.claim || "");
  return [owner, ...(size ? [size, size.split(".")[0] ?? ""] : [])];
}

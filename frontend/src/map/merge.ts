/** Puts the nodes that changed into the map on the screen. */

import type { DeviceKind, Holder, MapAnswer, MapDevice, MapNode, MapScreen } from "../types.ts";
import { nodesOf } from "./layouts.ts";

/** How many holders may lie unused in the list before it is made anew. */
const UNUSED = 500;

/**
 * The map with an answer: with the changed nodes of one to `?since=`, or a new map. The indexes of each answer refer to
 * its own kinds, holders and layouts: they are renumbered; nodes that did not change stay the same values, so that they
 * need not be drawn again.
 */
export function mergeMap(before: MapScreen | null, answer: MapAnswer): MapScreen {
  const map: Partial<MapScreen> = answer.since === undefined ? {} : (before ?? {});
  const kinds = mergedKinds(map.kinds ?? [], answer.kinds ?? []);
  const numbers = new Map(kinds.map((kind, index) => [identityOf(kind), index]));
  const offset = map.holders?.length ?? 0;
  const holders = [...(map.holders ?? []), ...(answer.holders ?? [])];
  const part = nodesOf(answer.nodes ?? [], answer.layouts ?? [], before?.layouts ?? new Map(), {
    kind: (index) => numbers.get(identityOf(answer.kinds?.[index])) ?? 0,
    holder: (index) => offset + index,
  });

  const changed = new Map(part.nodes.map((node) => [node.name, node]));
  const removed = new Set(answer.removed ?? []);
  const nodes: MapNode[] = [];
  for (const node of map.nodes ?? []) {
    if (removed.has(node.name)) continue;
    const next = changed.get(node.name);
    changed.delete(node.name);
    nodes.push(next ?? node);
  }
  for (const node of changed.values()) nodes.push(node);
  if (map.nodes && changed.size) nodes.sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  const { since: _since, removed: _removed, layouts: _layouts, ...rest } = answer;
  return compacted({ ...rest, kinds, holders, nodes, layouts: part.layouts });
}

function withDevices(node: MapNode, change: (device: MapDevice) => MapDevice): MapNode {
  return node.devices?.some((device) => device.holders) ? { ...node, devices: node.devices.map(change) } : node;
}

/** The kinds at their places, with the counts of the newer answer; new ones follow. */
function mergedKinds(old: readonly DeviceKind[], newer: readonly DeviceKind[]): DeviceKind[] {
  const byIdentity = new Map(newer.map((kind) => [identityOf(kind), kind]));
  const kept = old.map((kind) => {
    const identity = identityOf(kind);
    const next = byIdentity.get(identity);
    byIdentity.delete(identity);
    return next ?? kind;
  });
  return [...kept, ...byIdentity.values()];
}

/** Without holders that no device refers to, once there are many. */
function compacted(map: MapScreen): MapScreen {
  const used = new Map<number, number>();
  const holders: Holder[] = [];
  for (const node of map.nodes ?? [])
    for (const device of node.devices ?? []) {
      if (!device.holders) continue; // most have none, and there may be a million
      for (const index of device.holders) {
        const holder = map.holders?.[index];
        if (holder && !used.has(index)) used.set(index, holders.push(holder) - 1);
      }
    }
  if ((map.holders?.length ?? 0) < holders.length + UNUSED) return map;
  const nodes = (map.nodes ?? []).map((node) =>
    withDevices(node, (device) =>
      device.holders ? { ...device, holders: device.holders.flatMap((index) => used.get(index) ?? []) } : device,
    ),
  );
  return { ...map, holders, nodes };
}

function identityOf(kind: DeviceKind | undefined): string {
  return kind ? `${kind.driver}\n${kind.product ?? ""}\n${kind.memory ?? ""}` : "";
}

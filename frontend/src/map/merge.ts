/** Puts the nodes that changed into the map on the screen. */

import type { DeviceKind, Holder, MapDevice, MapNode, MapScreen } from "../types.ts";

/** How many holders may lie unused in the list before it is made anew. */
const UNUSED = 500;

/**
 * The map with the changed nodes of an answer to `?since=`. The indexes of each answer refer to its own kinds and
 * holders: those of the changed nodes are renumbered; the other nodes stay the same values, so that they need not be
 * drawn again.
 */
export function mergeMap(map: MapScreen, part: MapScreen): MapScreen {
  if (part.since === undefined) return part;
  const kinds = mergedKinds(map.kinds ?? [], part.kinds ?? []);
  const numbers = new Map(kinds.map((kind, index) => [identityOf(kind), index]));
  const holders = [...(map.holders ?? []), ...(part.holders ?? [])];
  const offset = map.holders?.length ?? 0;
  const moved = (node: MapNode): MapNode =>
    withDevices(node, (device) => ({
      ...device,
      kind: numbers.get(identityOf(part.kinds?.[device.kind ?? 0])) ?? 0,
      ...(device.holders && { holders: device.holders.map((index) => offset + index) }),
    }));

  const changed = new Map((part.nodes ?? []).map((node) => [node.name, node]));
  const removed = new Set(part.removed ?? []);
  const nodes: MapNode[] = [];
  for (const node of map.nodes ?? []) {
    if (removed.has(node.name)) continue;
    const next = changed.get(node.name);
    changed.delete(node.name);
    nodes.push(next ? moved(next) : node);
  }
  for (const node of changed.values()) nodes.push(moved(node));
  if (changed.size) nodes.sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  const { since: _since, removed: _removed, ...rest } = part;
  return compacted({ ...rest, kinds, holders, nodes });
}

function withDevices(node: MapNode, change: (device: MapDevice) => MapDevice): MapNode {
  return node.devices ? { ...node, devices: node.devices.map(change) } : node;
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
    for (const device of node.devices ?? [])
      for (const index of device.holders ?? []) {
        const holder = map.holders?.[index];
        if (holder && !used.has(index)) used.set(index, holders.push(holder) - 1);
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

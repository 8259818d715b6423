/**
 * The devices of each node. The server describes nodes with equal hardware once, and of each node only what
 * distinguishes it; devices without a difference are the same values for all these nodes, as are whole lists of them.
 */

import type { DeviceUse, Layout, Layouts, MapDevice, MapNode, NodeAnswer, NodeLayout } from "../types.ts";

/** Makes the devices of a state when a node first has one in it. */
class DevicesByState implements Layout {
  private readonly byState = new Map<string, MapDevice[]>();

  constructor(readonly free: MapDevice[]) {
    this.byState.set("free", free);
  }

  in(state: string): MapDevice[] {
    const found = this.byState.get(state) ?? this.free.map((device) => ({ ...device, state }));
    this.byState.set(state, found);
    return found;
  }
}

/** How the numbers in an answer become those of the map. */
export interface Numbering {
  kind: (index: number) => number;
  holder: (index: number) => number;
}

/** The nodes of an answer with their devices, and the layouts with those that are new. */
export function nodesOf(
  nodes: readonly NodeAnswer[],
  layouts: readonly NodeLayout[],
  known: Layouts,
  numbering: Numbering,
): { nodes: MapNode[]; layouts: Layouts } {
  const all = new Map<string, Layout>(known);
  const found = layouts.map(({ devices }) => {
    const free = (devices ?? []).map((device) => ({ ...device, kind: numbering.kind(device.kind ?? 0), state: "free" }));
    const text = JSON.stringify(free);
    const layout: Layout = all.get(text) ?? new DevicesByState(free);
    all.set(text, layout);
    return layout;
  });
  const none = new DevicesByState([]);
  return { nodes: nodes.map((node) => nodeOf(node, found[node.layout] ?? none, numbering)), layouts: all };
}

function nodeOf(answer: NodeAnswer, layout: Layout, numbering: Numbering): MapNode {
  const { layout: _layout, states: _states, ...node } = answer;
  return { ...node, devices: devicesOf(answer, layout, numbering) };
}

function devicesOf({ states, devices: uses }: NodeAnswer, layout: Layout, numbering: Numbering): MapDevice[] {
  const differing = Object.entries(states ?? {});
  if (!differing.length && !uses?.length) return layout.free;
  const devices = layout.free.slice();
  for (const [state, positions] of differing) {
    const known = layout.in(state);
    for (const at of positions) devices[at] = known[at] as MapDevice;
  }
  for (const use of uses ?? []) devices[use.at] = usedDevice(devices[use.at] as MapDevice, use, numbering);
  return devices;
}

function usedDevice(device: MapDevice, { at: _at, holders, ...use }: DeviceUse, numbering: Numbering): MapDevice {
  return { ...device, ...use, ...(holders && { holders: holders.map(numbering.holder) }) };
}

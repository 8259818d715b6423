/** The map as it is drawn: nodes with cards, what each device is coloured by, which match the search. */

import type { Holder, MapDevice, MapNode, MapScreen, Totals } from "../types.ts";
import { asksForDevices, type DeviceFacts, deviceMatches, type Filter, type NodeFacts, nodeMatches } from "./filter.ts";
import { type Card, cardsOf } from "./spans.ts";

export type ColourBy = "namespace" | "workload" | "product" | "driver" | "state";
export type GroupBy = "none" | "product" | "node" | "rack" | "clique" | "zone";

export const COLOURS: readonly ColourBy[] = ["namespace", "workload", "product", "driver", "state"];
export const GROUPS: readonly GroupBy[] = ["product", "zone", "rack", "clique", "none"];

/** What the states of `allot free` are called in sentences, in the order in which totals are shown. */
export const STATES: Record<string, string> = {
  free: "free",
  shared: "shared, with room",
  full: "shared, full",
  "in-use": "in use",
  blocked: "blocked by others on the card",
  tainted: "tainted",
  unschedulable: "on an unschedulable node",
};

export interface Category {
  name: string;
  /** 0–7: the colour and pattern; -1: grey, for all that have none of their own. */
  index: number;
  count: number;
}

export interface ShownNode {
  node: MapNode;
  cards: Card<MapDevice>[];
  facts: NodeFacts;
  product: string;
  group: string;
  /** Devices that match the search; null: all. */
  matching: Set<string> | null;
}

export interface NodeGroup {
  name: string;
  nodes: ShownNode[];
  free: number;
  devices: number;
}

export interface MapModel {
  groups: NodeGroup[];
  shown: number;
  matchingDevices: number;
  categories: Category[];
  /** The colour of a device's holder, or of the device itself. */
  colourOf: (device: MapDevice, holder: Holder | undefined) => number;
}

/** The key under which everything of the same claim, and of the same workload or pod, lights up. */
export function claimKey(holder: Holder): string {
  return holder.claim ?? "";
}

export function workloadKey(holder: Holder): string {
  return holder.workload || holder.pods?.join(" ") || holder.claim || "";
}

export function holdersOf(map: MapScreen, device: MapDevice): Holder[] {
  return (device.holders ?? []).flatMap((index) => map.holders?.[index] ?? []);
}

export function productOf(map: MapScreen, device: MapDevice): string {
  return map.kinds?.[device.kind ?? 0]?.product ?? "";
}

export function driverOf(map: MapScreen, device: MapDevice): string {
  return device.driver ?? map.kinds?.[device.kind ?? 0]?.driver ?? "";
}

export function isFree(device: MapDevice): boolean {
  return device.state === "free" || device.state === "shared";
}

const NO_DEVICES: readonly MapDevice[] = [];
const knownCards = new WeakMap<readonly MapDevice[], Card<MapDevice>[]>();

/** The cards of a node, computed once for each list of devices: nodes without a difference share theirs. */
export function cardsFor(node: MapNode): Card<MapDevice>[] {
  const devices = node.devices ?? NO_DEVICES;
  const known = knownCards.get(devices);
  if (known) return known;
  const cards = cardsOf(devices);
  knownCards.set(devices, cards);
  return cards;
}

/** The name of a card's hardware without what distinguishes its partitions. */
function familyOf(product: string): string {
  return product.replace(/ (?:\d+g\.\d+gb(?:\+\S+)?|(?:spx|dpx|qpx|cpx)[_ -]?\S*)$/i, "");
}

const knownKinds = new WeakMap<readonly MapDevice[], Map<number, number>>();

/** How many devices of each kind a node has. */
function kindsOf(node: MapNode): Map<number, number> {
  const devices = node.devices ?? NO_DEVICES;
  const known = knownKinds.get(devices);
  if (known) return known;
  const counts = new Map<number, number>();
  for (const { kind = 0 } of devices) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  knownKinds.set(devices, counts);
  return counts;
}

/** The name that most devices of a node have. */
function mostCommon(node: MapNode, nameOf: (kind: number) => string): string {
  const counts = new Map<string, number>();
  for (const [kind, count] of kindsOf(node)) counts.set(nameOf(kind), (counts.get(nameOf(kind)) ?? 0) + count);
  return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0] ?? "";
}

function nodeFacts(node: MapNode, cards: readonly Card<MapDevice>[]): NodeFacts {
  const devices = node.devices ?? [];
  const flags = [
    ...(node.unschedulable ? ["unschedulable", typeof node.unschedulable === "string" ? node.unschedulable : "cordoned"] : []),
    ...(devices.some((device) => device.taints?.length) ? ["tainted"] : []),
    ...(devices.some((device) => device.adminAccess) ? ["admin"] : []),
  ];
  return {
    node: node.name,
    zone: node.labels?.zone ?? "",
    rack: node.labels?.rack ?? "",
    clique: node.labels?.clique ?? "",
    problem: node.problems ?? [],
    is: flags,
    free: cards.filter((card) => card.devices.some(isFree)).length,
    devices: cards.length,
    used: cards.filter((card) => card.devices.some((device) => device.holders?.length)).length,
  };
}

export function deviceFacts(map: MapScreen, device: MapDevice): DeviceFacts {
  const holders = holdersOf(map, device);
  return {
    device: device.name,
    state: device.state,
    product: productOf(map, device),
    driver: driverOf(map, device),
    pool: device.pool ?? "",
    card: device.card ?? "",
    ns: holders.map((holder) => holder.namespace ?? ""),
    claim: holders.map((holder) => holder.claim ?? ""),
    pod: holders.flatMap((holder) => holder.pods ?? []),
    workload: holders.map((holder) => holder.workload ?? ""),
    taint: device.taints ?? [],
  };
}

function categoryOf(map: MapScreen, by: ColourBy, device: MapDevice, holder: Holder | undefined): string {
  switch (by) {
    case "namespace":
      return holder?.namespace ?? "";
    case "workload":
      return holder ? workloadKey(holder) : "";
    case "product":
      return holder ? familyOf(productOf(map, device)) : "";
    case "driver":
      return holder ? driverOf(map, device) : "";
    case "state":
      return "";
  }
}

const COLOURED = 8;

export function modelOf(
  map: MapScreen,
  { filter, colourBy, groupBy }: { filter: Filter; colourBy: ColourBy; groupBy: GroupBy },
): MapModel {
  const counts = new Map<string, number>();
  for (const node of map.nodes ?? [])
    for (const device of node.devices ?? []) {
      if (!device.holders) continue;
      for (const holder of holdersOf(map, device)) {
        const name = categoryOf(map, colourBy, device, holder);
        if (name) counts.set(name, (counts.get(name) ?? 0) + 1);
      }
    }
  // The largest get colours, in the order of their names, so that a change of counts rarely changes colours.
  const largest = [...counts].sort((a, b) => b[1] - a[1]).slice(0, COLOURED);
  const indexes = new Map(largest.map(([name]) => name).sort().map((name, index) => [name, index]));
  const categories = [...counts]
    .map(([name, count]) => ({ name, count, index: indexes.get(name) ?? -1 }))
    .sort((a, b) => b.count - a.count || (a.name < b.name ? -1 : 1));

  const groups = new Map<string, NodeGroup>();
  let shown = 0;
  let matchingDevices = 0;
  const isSearch = asksForDevices(filter);
  for (const node of map.nodes ?? []) {
    const cards = cardsFor(node);
    const facts = nodeFacts(node, cards);
    if (!nodeMatches(filter, facts)) continue;
    let matching: Set<string> | null = null;
    if (isSearch) {
      const found = (node.devices ?? []).filter((device) => deviceMatches(filter, deviceFacts(map, device), facts));
      if (!found.length) continue;
      matchingDevices += found.length;
      if (found.length < (node.devices?.length ?? 0)) matching = new Set(found.map((device) => device.name));
    } else matchingDevices += node.devices?.length ?? 0;
    const product = mostCommon(node, (kind) => familyOf(map.kinds?.[kind]?.product ?? ""));
    const name = groupName(groupBy, node, product);
    const one: ShownNode = { node, cards, facts, product, group: name, matching };
    const group = groups.get(name) ?? { name, nodes: [], free: 0, devices: 0 };
    group.nodes.push(one);
    group.free += facts.free;
    group.devices += facts.devices;
    groups.set(name, group);
    shown += 1;
  }
  return {
    groups: [...groups.values()].sort((a, b) => b.devices - a.devices || (a.name < b.name ? -1 : 1)),
    shown,
    matchingDevices,
    categories,
    colourOf: (device, holder) => {
      const name = categoryOf(map, colourBy, device, holder);
      return indexes.get(name) ?? -1;
    },
  };
}

function groupName(by: GroupBy, node: MapNode, product: string): string {
  switch (by) {
    case "product":
      return product || "no devices";
    case "zone":
    case "rack":
    case "clique":
      return node.labels?.[by] || `no ${by}`;
    default:
      return "";
  }
}

/** The groupings for which at least two nodes differ, or product. */
export function possibleGroups(map: MapScreen): GroupBy[] {
  return GROUPS.filter(
    (by) => by === "none" || by === "product" || (map.nodes ?? []).some((node) => node.labels?.[by]),
  );
}

export function totalOf(totals: Totals): number {
  return Object.values(totals).reduce((sum, count) => sum + count, 0);
}


/** A map of some nodes with the totals of these nodes alone; those of the server are of the whole cluster. */
export function withOwnTotals(map: MapScreen): MapScreen {
  const totals: Totals = {};
  const counts = new Map<number, number>();
  for (const { kind = 0, state } of (map.nodes ?? []).flatMap(({ devices }) => devices ?? [])) {
    totals[state] = (totals[state] ?? 0) + 1;
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  const kinds = (map.kinds ?? []).map((kind, index) => ({ ...kind, count: counts.get(index) ?? 0 }));
  return { ...map, totals, kinds };
}

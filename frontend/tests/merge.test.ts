import assert from "node:assert/strict";
import { test } from "node:test";
import { mergeMap } from "../src/map/merge.ts";
import { holdersOf, productOf } from "../src/map/model.ts";
import type { MapScreen } from "../src/types.ts";

const CLUSTER = { name: "lab", place: "lab" as const, revision: 1 };
const MAP: MapScreen = {
  cluster: CLUSTER,
  totals: { free: 1, "in-use": 1 },
  kinds: [
    { driver: "d", product: "A", memory: "1Gi", count: 1 },
    { driver: "d", product: "B", memory: "2Gi", count: 1 },
  ],
  holders: [{ claim: "old", namespace: "ml" }],
  nodes: [
    { name: "node-1", devices: [{ name: "gpu-0", kind: 0, state: "in-use", holders: [0] }] },
    { name: "node-2", devices: [{ name: "gpu-0", kind: 1, state: "free" }] },
  ],
};

function described(map: MapScreen): string[] {
  return (map.nodes ?? []).map((node) => {
    const device = node.devices?.[0];
    return device ? `${node.name} ${productOf(map, device)} ${holdersOf(map, device).map(({ claim }) => claim)}` : node.name;
  });
}

test("changed nodes replace the old ones, with their own kinds and holders", () => {
  const merged = mergeMap(MAP, {
    cluster: { ...CLUSTER, revision: 2 },
    since: 1,
    totals: { "in-use": 2 },
    kinds: [{ driver: "d", product: "B", memory: "2Gi", count: 1 }],
    holders: [{ claim: "new", namespace: "ml" }],
    nodes: [{ name: "node-2", devices: [{ name: "gpu-0", kind: 0, state: "in-use", holders: [0] }] }],
  });
  assert.deepEqual(described(merged), ["node-1 A old", "node-2 B new"]);
  assert.equal(merged.nodes?.[0], MAP.nodes?.[0]);
  assert.deepEqual(merged.totals, { "in-use": 2 });
  assert.equal(merged.cluster.revision, 2);
});

test("new nodes are added in order, removed ones go", () => {
  const merged = mergeMap(MAP, {
    cluster: CLUSTER,
    since: 1,
    totals: {},
    kinds: [{ driver: "d", product: "C", memory: "1Gi", count: 1 }],
    removed: ["node-2"],
    nodes: [
      { name: "node-10", devices: [{ name: "gpu-0", kind: 0, state: "free" }] },
      { name: "node-3", devices: [{ name: "gpu-0", kind: 0, state: "free" }] },
    ],
  });
  assert.deepEqual(described(merged), ["node-1 A old", "node-3 C ", "node-10 C "]);
});

test("a whole answer replaces the map", () => {
  const whole = { ...MAP, nodes: [] };
  assert.equal(mergeMap(MAP, whole), whole);
});

test("holders that no device refers to do not accumulate", () => {
  let map = MAP;
  for (let revision = 2; revision < 30; revision += 1) {
    const holders = Array.from({ length: 400 }, (_, index) => ({ claim: `claim-${revision}-${index}`, namespace: "ml" }));
    map = mergeMap(map, {
      cluster: { ...CLUSTER, revision },
      since: revision - 1,
      totals: {},
      kinds: MAP.kinds ?? [],
      holders,
      nodes: [{ name: "node-1", devices: [{ name: "gpu-0", kind: 0, state: "in-use", holders: [7] }] }],
    });
  }
  assert.ok((map.holders?.length ?? 0) < 6000);
  assert.deepEqual(described(map), ["node-1 A claim-29-7", "node-2 B "]);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { mergeMap } from "../src/map/merge.ts";
import { cardsFor, holdersOf, productOf, withOwnTotals } from "../src/map/model.ts";
import type { MapAnswer, MapScreen, NodeLayout } from "../src/types.ts";

const CLUSTER = { name: "lab", place: "lab" as const, revision: 1 };
const ONE: NodeLayout[] = [{ devices: [{ name: "gpu-0", kind: 0 }] }];
const WHOLE: MapAnswer = {
  cluster: CLUSTER,
  totals: { free: 1, "in-use": 1 },
  kinds: [
    { driver: "d", product: "A", memory: "1Gi", count: 1 },
    { driver: "d", product: "B", memory: "2Gi", count: 1 },
  ],
  holders: [{ claim: "old", namespace: "ml" }],
  layouts: [...ONE, { devices: [{ name: "gpu-0", kind: 1 }] }],
  nodes: [
    { name: "node-1", layout: 0, states: { "in-use": [0] }, devices: [{ at: 0, holders: [0] }] },
    { name: "node-2", layout: 1 },
  ],
};
const MAP = mergeMap(null, WHOLE);

function described(map: MapScreen): string[] {
  return (map.nodes ?? []).map((node) => {
    const device = node.devices?.[0];
    return device ? `${node.name} ${productOf(map, device)} ${holdersOf(map, device).map(({ claim }) => claim)}` : node.name;
  });
}

test("a node has the devices of its layout, and what distinguishes them", () => {
  const map = mergeMap(null, {
    cluster: CLUSTER,
    totals: {},
    kinds: WHOLE.kinds ?? [],
    layouts: [{ devices: [{ name: "gpu-0", kind: 0, card: "c", span: [0, 1, 2] }, { name: "gpu-1", kind: 1, pool: "p" }] }],
    holders: [{ claim: "c", namespace: "ml" }],
    nodes: [
      { name: "node-1", layout: 0, labels: { zone: "z" }, states: { shared: [1] }, devices: [{ at: 1, holders: [0], used: 0.5 }] },
    ],
  });
  assert.deepEqual(map.nodes, [
    {
      name: "node-1",
      labels: { zone: "z" },
      devices: [
        { name: "gpu-0", kind: 0, card: "c", span: [0, 1, 2], state: "free" },
        { name: "gpu-1", kind: 1, pool: "p", state: "shared", holders: [0], used: 0.5 },
      ],
    },
  ]);
});

test("nodes without a difference share their devices and cards, also in later answers", () => {
  const nodes = [
    { name: "node-1", layout: 0 },
    { name: "node-2", layout: 0 },
  ];
  const map = mergeMap(null, { ...WHOLE, layouts: ONE, nodes });
  const later = mergeMap(map, { ...WHOLE, since: 1, layouts: ONE, nodes: [{ name: "node-2", layout: 0 }] });
  const [first, second] = later.nodes ?? [];
  assert.equal(first?.devices, second?.devices);
  assert.ok(first && second && cardsFor(first) === cardsFor(second));
});

test("changed nodes replace the old ones, with their own kinds and holders", () => {
  const merged = mergeMap(MAP, {
    cluster: { ...CLUSTER, revision: 2 },
    since: 1,
    totals: { "in-use": 2 },
    kinds: [{ driver: "d", product: "B", memory: "2Gi", count: 1 }],
    holders: [{ claim: "new", namespace: "ml" }],
    layouts: ONE,
    nodes: [{ name: "node-2", layout: 0, states: { "in-use": [0] }, devices: [{ at: 0, holders: [0] }] }],
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
    layouts: ONE,
    nodes: [
      { name: "node-10", layout: 0 },
      { name: "node-3", layout: 0 },
    ],
  });
  assert.deepEqual(described(merged), ["node-1 A old", "node-3 C ", "node-10 C "]);
});

test("a whole answer replaces the map", () => {
  const merged = mergeMap(MAP, { ...WHOLE, nodes: [{ name: "node-9", layout: 1 }] });
  assert.deepEqual(described(merged), ["node-9 B "]);
  assert.equal(merged.holders?.length, 1);
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
      layouts: ONE,
      nodes: [{ name: "node-1", layout: 0, states: { "in-use": [0] }, devices: [{ at: 0, holders: [7] }] }],
    });
  }
  assert.ok((map.holders?.length ?? 0) < 6000);
  assert.deepEqual(described(map), ["node-1 A claim-29-7", "node-2 B "]);
});

test("the totals of some nodes are those of their devices", () => {
  const part = mergeMap(null, {
    ...WHOLE,
    totals: { free: 12, "in-use": 9 },
    kinds: (WHOLE.kinds ?? []).map((kind) => ({ ...kind, count: 30 })),
    nodes: (WHOLE.nodes ?? []).slice(0, 1),
  });
  const { totals, kinds } = withOwnTotals(part);
  assert.deepEqual(totals, { "in-use": 1 });
  assert.deepEqual(
    kinds?.map(({ product, count }) => [product, count]),
    [
      ["A", 1],
      ["B", 0],
    ],
  );
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { cardsOf, gibibytes, relativeWidth, type Spanned, stripesOf } from "../src/map/spans.ts";

function device(name: string, span?: number[], holders: number[] = [], state = "free"): Spanned {
  return { name, state: holders.length ? "in-use" : state, card: "gpu-0", ...(span && { span }), holders };
}

function drawn(devices: Spanned[]): [number, number, string, boolean][] {
  const [card] = cardsOf(devices);
  return (card?.pieces ?? []).map(({ start, end, devices: members, isRoom }) => [start, end, members[0]?.name ?? "", isRoom]);
}

test("a device without a card is a card", () => {
  const cards = cardsOf([
    { name: "gpu-0", state: "free" },
    { name: "gpu-1", state: "free" },
  ]);
  assert.deepEqual(
    cards.map(({ name, slices }) => [name, slices]),
    [
      ["gpu-0", 1],
      ["gpu-1", 1],
    ],
  );
});

test("fixed partitions are drawn side by side, to scale", () => {
  assert.deepEqual(drawn([device("a", [0, 4, 8]), device("b", [4, 2, 8], [0]), device("c", [6, 2, 8])]), [
    [0, 0.5, "a", false],
    [0.5, 0.75, "b", false],
    [0.75, 1, "c", false],
  ]);
});

test("a free card on which MIG devices can be created is drawn as room that starts with the whole card", () => {
  assert.deepEqual(drawn([device("mig-0", [0, 1, 8]), device("full", [0, 8, 8]), device("mig-4", [4, 4, 8])]), [
    [0, 1, "full", true],
  ]);
});

test("MIG devices in use are drawn at their places, the rest as room", () => {
  const pieces = drawn([
    device("full", [0, 8, 8], [], "blocked"),
    device("3g-0", [0, 4, 8], [], "blocked"),
    device("3g-4", [4, 4, 8]),
    device("1g-0", [0, 1, 8], [0]),
    device("1g-1", [1, 1, 8]),
    device("1g-2", [2, 1, 8]),
  ]);
  assert.deepEqual(pieces, [
    [0, 0.125, "1g-0", false],
    [0.125, 1, "3g-4", true],
  ]);
});

test("room in which nothing is free shows what is blocked", () => {
  const pieces = drawn([
    device("full", [0, 8, 8], [], "blocked"),
    device("7g", [0, 7, 8], [0]),
    device("1g", [0, 1, 8], [], "blocked"),
  ]);
  assert.deepEqual(pieces, [
    [0, 0.875, "7g", false],
    [0.875, 1, "full", true],
  ]);
});

test("no piece reaches beyond its card, and none overlap", () => {
  const pieces = drawn([device("a", [0, 4, 8], [0]), device("b", [2, 4, 8]), device("c", [6, 2, 8], [1])]);
  let position = 0;
  for (const [start, end] of pieces) {
    assert.ok(start >= position && end > start && end <= 1);
    position = end;
  }
});

test("shares are stripes of the used part", () => {
  assert.deepEqual(stripesOf(2, 0.5), [
    [0, 0.25],
    [0.25, 0.5],
  ]);
  assert.deepEqual(stripesOf(0, 0), []);
  assert.deepEqual(stripesOf(1, undefined), [[0, 1]]);
});

test("memory is compared in GiB", () => {
  assert.equal(gibibytes("40960Mi"), 40);
  assert.equal(gibibytes("1Ti"), 1024);
  assert.equal(gibibytes("nonsense"), 0);
  assert.equal(relativeWidth("40Gi"), 1);
  assert.ok(relativeWidth("192Gi") > relativeWidth("80Gi"));
  assert.equal(relativeWidth(undefined), 1);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  asksForDevices,
  type DeviceFacts,
  deviceMatches,
  type NodeFacts,
  nodeMatches,
  parseFilter,
  toggled,
} from "../src/map/filter.ts";

const NODE: NodeFacts = {
  node: "dgx-1",
  zone: "eu-1a",
  rack: "r1",
  clique: "",
  problem: [],
  is: ["cordoned"],
  free: 3,
  devices: 8,
  used: 5,
};
const DEVICE: DeviceFacts = {
  device: "gpu-0",
  state: "in-use",
  product: "NVIDIA A100-SXM4-40GB",
  driver: "gpu.nvidia.com",
  pool: "dgx-1",
  card: "",
  ns: ["team-a"],
  claim: ["trainer-gpu"],
  pod: ["trainer-0"],
  workload: ["deploy/trainer"],
  taint: [],
};

function matches(search: string): boolean {
  const filter = parseFilter(search);
  assert.equal(filter.problem, "");
  return nodeMatches(filter, NODE) && (!asksForDevices(filter) || deviceMatches(filter, DEVICE, NODE));
}

test("all parts of a search must match", () => {
  assert.ok(matches("ns:team-a product:A100 free>2"));
  assert.ok(!matches("ns:team-a product:A100 free>3"));
  assert.ok(!matches("ns:team-b product:A100 free>2"));
});

test("values separated by commas are alternatives", () => {
  assert.ok(matches("ns:team-b,team-a"));
  assert.ok(!matches("ns:team-b,team-c"));
});

test("a minus excludes", () => {
  assert.ok(!matches("-ns:team-a"));
  assert.ok(matches("-state:free -is:tainted"));
  assert.ok(!matches("-trainer"));
});

test("numbers are compared", () => {
  for (const search of ["free>=3", "free<=3", "free=3", "free:3", "devices>7", "used<6"]) assert.ok(matches(search), search);
  for (const search of ["free>3", "free<3", "devices<8"]) assert.ok(!matches(search), search);
});

test("a word without a key is searched in all names", () => {
  for (const search of ["trainer", "DGX", "a100", "team-a", "nvidia"]) assert.ok(matches(search), search);
  assert.ok(!matches("mi300x"));
});

test("quotes keep spaces", () => {
  assert.ok(matches('product:"NVIDIA A100"'));
  assert.ok(!matches('product:"A100 NVIDIA"'));
});

test("keys have other spellings", () => {
  assert.ok(matches("namespace:team-a"));
  assert.ok(matches("gpu:A100"));
});

test("a mistake in a search is told, and the rest still applies", () => {
  assert.match(parseFilter("colour:red").problem, /is not known/);
  assert.match(parseFilter("free>many").problem, /number/);
  assert.match(parseFilter("ns>3").problem, /colon/);
  const filter = parseFilter("colour:red ns:team-b");
  assert.ok(!deviceMatches(filter, DEVICE, NODE));
});

test("an unfinished search hides nothing", () => {
  for (const search of ["", " ", "ns:", "-"]) assert.ok(matches(search), search);
});

test("toggling adds a value, and removes it the second time", () => {
  assert.equal(toggled("", "ns", "team-a"), "ns:team-a");
  assert.equal(toggled("free>2 ns:team-a", "ns", "team-a"), "free>2");
  assert.equal(toggled("", "product", "Tesla T4"), 'product:"Tesla T4"');
  assert.equal(toggled('x product:"Tesla T4"', "product", "Tesla T4"), "x");
});

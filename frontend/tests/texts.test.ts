import assert from "node:assert/strict";
import { test } from "node:test";
import { counted, dollars, listed } from "../src/parts/text.ts";
import { ageText } from "../src/parts/time.ts";
import { parsed, pathOf, written } from "../src/whatif/changes.ts";

test("ages are written as kubectl writes them", () => {
  const now = Date.parse("2026-01-02T00:00:00Z");
  const age = (seconds: number) => ageText(new Date(now - seconds * 1000).toISOString(), now);
  assert.equal(age(45), "45s");
  assert.equal(age(600), "10m");
  assert.equal(age(3 * 3600 + 20 * 60), "3h20m");
  assert.equal(age(30 * 3600), "30h");
  assert.equal(age(5 * 86400), "5d");
  assert.equal(age(-5), "0s");
  assert.equal(ageText(undefined, now), "");
});

test("numbers in sentences", () => {
  assert.equal(counted(1, "pod"), "1 pod");
  assert.equal(counted(1200, "pod"), "1,200 pods");
  assert.equal(listed(["a", "b", "c", "d"]), "a, b, c and 1 more");
  assert.equal(dollars("1.006"), "1.01");
  assert.equal(dollars(0.0123), "0.0123");
});

test("assumed changes survive the address", () => {
  for (const change of [
    { action: "drain", target: "node-a", value: "" },
    { action: "taint", target: "pool/gpu-0", value: "key=value:NoSchedule" },
    { action: "scale", target: "ml/deploy/web", value: "10" },
    { action: "kube-version", target: "", value: "1.37" },
    { action: "add-machines", target: "dgx-a100-40gb:2", value: "" },
  ])
    assert.deepEqual(parsed(written(change)), change);
  assert.equal(pathOf([]), "/what-if");
  assert.match(pathOf([parsed("drain:node-a")]), /^\/what-if\?change=drain%3Anode-a$/);
});

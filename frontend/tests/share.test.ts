import assert from "node:assert/strict";
import { test } from "node:test";
import { packed, unpacked } from "../src/ask/share.ts";

test("a question in a link is the question that was asked", async () => {
  for (const text of ["", "kind: Pod\n", "größe: 😀\n".repeat(2000)]) {
    const fragment = await packed(text);
    assert.match(fragment, /^[\w-]*$/);
    if (text) assert.equal(await unpacked(fragment), text);
  }
});

test("a damaged link is noticed", async () => {
  assert.equal(await unpacked("%%%"), null);
  assert.equal(await unpacked("AAAA"), null);
});

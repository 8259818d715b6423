import assert from "node:assert/strict";
import { test } from "node:test";
import { applied, editsOf, marksOf, offsetOf } from "../src/ask/replacements.ts";
import type { Finding } from "../src/types.ts";

const TEXT = "spec:\n  name: gpus\n  expression: device.attributes\n";

function finding(...replacements: [number, number, number, string][]): Finding {
  return {
    code: "C208",
    level: "error",
    message: "wrong",
    line: 2,
    column: 9,
    endLine: 2,
    endColumn: 13,
    fix: {
      text: "write it",
      replacements: replacements.map(([line, column, endColumn, text]) => ({ line, column, endLine: line, endColumn, text })),
    },
  };
}

test("positions count from one, in code points", () => {
  assert.equal(offsetOf(TEXT, 1, 1), 0);
  assert.equal(offsetOf(TEXT, 2, 3), 8);
  assert.equal(offsetOf("a: 😀x", 1, 5), 5);
  assert.equal(offsetOf(TEXT, 99, 1), TEXT.length);
  assert.equal(offsetOf("ab\ncd", 1, 99), 2);
});

test("all replacements of a fix are applied, in any order", () => {
  const edits = editsOf(TEXT, finding([3, 22, 32, "capacity"], [2, 12, 13, ""]));
  assert.equal(applied(TEXT, edits), "spec:\n  name: gpu\n  expression: device.capacity\n");
});

test("a finding without a fix changes nothing", () => {
  const { fix: _, ...bare } = finding();
  assert.deepEqual(editsOf(TEXT, bare), []);
  assert.equal(marksOf(TEXT, [bare])[0]?.fix, null);
});

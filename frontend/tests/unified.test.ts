import assert from "node:assert/strict";
import { test } from "node:test";
import { diffLines } from "../src/parts/unified.ts";

test("lines of a unified diff have kinds and numbers", () => {
  const lines = diffLines("--- a\n+++ Pod ml/trainer\n@@ -3,3 +3,4 @@\n kept\n-old\n+new\n+more\n kept\n");
  assert.deepEqual(
    lines.map(({ kind, text, before, after }) => [kind, text, before, after]),
    [
      ["place", "Pod ml/trainer", 0, 0],
      ["kept", "kept", 3, 3],
      ["removed", "old", 4, 0],
      ["added", "new", 0, 4],
      ["added", "more", 0, 5],
      ["kept", "kept", 5, 6],
    ],
  );
});

test("content that looks like markup or like a header is content", () => {
  const lines = diffLines("@@ -1 +1 @@\n-<img src=x onerror=alert(1)>\n+++ counter\n");
  assert.deepEqual(
    lines.map(({ kind, text }) => [kind, text]),
    [
      ["removed", "<img src=x onerror=alert(1)>"],
      ["added", "++ counter"],
    ],
  );
});

test("a second file has a heading of its own", () => {
  const lines = diffLines("--- a\n+++ one\n@@ -1 +1 @@\n-x\n+y\n--- b\n+++ two\n@@ -1 +1 @@\n-p\n+q\n");
  assert.deepEqual(
    lines.filter(({ kind }) => kind === "place").map(({ text }) => text),
    ["one", "two"],
  );
});

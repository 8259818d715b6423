// Runs the tests with Node's own runner. Node 18 and 20 do not read TypeScript, so esbuild bundles each test first.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const output = await mkdtemp(join(tmpdir(), "allotment-frontend-"));
const entryPoints = (await readdir(here)).filter((name) => name.endsWith(".test.ts")).map((name) => join(here, name));
await build({
  entryPoints,
  bundle: true,
  platform: "node",
  format: "esm",
  outdir: output,
  outExtension: { ".js": ".mjs" },
  logLevel: "warning",
});
const files = (await readdir(output)).filter((name) => name.endsWith(".mjs")).map((name) => join(output, name));
const { status } = spawnSync(process.execPath, ["--test", "--test-reporter=dot", ...files], { stdio: "inherit" });
await rm(output, { recursive: true });
process.exit(status ?? 1);

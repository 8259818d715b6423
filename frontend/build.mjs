// Builds the page into src/allotment/web/static: hashed names, no foreign URL, the same bytes from the same sources.
//   node build.mjs [FOLDER]
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const output = process.argv[2] ?? join(here, "../src/allotment/web/static");

const result = await build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.tsx" },
  bundle: true,
  splitting: true,
  preserveSymlinks: true,
  format: "esm",
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  minify: true,
  legalComments: "none",
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  assetNames: "[name]-[hash]",
  loader: { ".woff2": "file" },
  metafile: true,
  write: false,
  outdir: output,
  logLevel: "warning",
});

/** The package that a bundled file comes from; none for the page's own files. */
function packageOf(path) {
  const parts = path.split("node_modules/").at(-1).split("/");
  if (!path.includes("node_modules/")) return null;
  return parts[0].startsWith("@") ? `${parts[0]}/${parts[1]}` : parts[0];
}

async function licenseOf(name) {
  const folder = join(here, "node_modules", name);
  const { version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf-8"));
  const file = (await readdir(folder)).sort().find((entry) => /^licen[cs]e/i.test(entry));
  if (!file) throw new Error(`${name} has no license file`);
  const text = await readFile(join(folder, file), "utf-8");
  // The texts are for readers, not links: the check for foreign URLs then needs no exception for this file.
  return `${name} ${version} (${license})\n\n${text.trim().replace(/https?:\/\//g, "")}\n`;
}

const files = new Map(
  result.outputFiles.map((file) => [relative(output, file.path), Buffer.from(file.contents)]),
);
const named = (pattern) => [...files.keys()].find((name) => pattern.test(name));
const packages = [...new Set(Object.keys(result.metafile.inputs).map(packageOf).filter(Boolean))].sort();
const rule = `\n${"-".repeat(79)}\n\n`;
files.set(
  "LICENSES.txt",
  Buffer.from(`Third-party software in this folder\n\n${(await Promise.all(packages.map(licenseOf))).join(rule)}`),
);
const template = await readFile(join(here, "src/index.html"), "utf-8");
const html = template
  .replace("APP_CSS", `/static/${named(/^app-.*\.css$/)}`)
  .replace("APP_JS", `/static/${named(/^app-.*\.js$/)}`)
  .replace("FONT", `/static/${named(/^inter-.*\.woff2$/)}`);
files.set("index.html", Buffer.from(html));

await rm(output, { recursive: true, force: true });
await mkdir(output, { recursive: true });
for (const [name, contents] of [...files].sort(([a], [b]) => (a < b ? -1 : 1))) {
  await writeFile(join(output, name), contents);
  const digest = createHash("sha256").update(contents).digest("hex").slice(0, 12);
  console.log(`${digest}  ${String(contents.length).padStart(7)}  ${name}`);
}

// Builds each page script into one file that stands inside an SVG, and the viewer into its page, script and
// style; notes what they were built from.
import { createHash } from "node:crypto";
import { copyFileSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "../src/meantime/views/static");
const pages = readdirSync(join(here, "svg-script")).filter((name) => name.endsWith(".ts")).sort();

for (const page of pages) {
  await build({
    root: here,
    configFile: false,
    logLevel: "warn",
    assetsInclude: ["**/*.bin"],
    build: {
      target: "es2022",
      outDir: out,
      emptyOutDir: false,
      minify: true,
      lib: {
        entry: join(here, "svg-script", page),
        formats: ["iife"],
        name: "meantime",
        fileName: () => page.replace(/\.ts$/, ".js"),
      },
    },
  });
  // "]]>" would end the CDATA section in which an SVG has the script
  const built = join(out, page.replace(/\.ts$/, ".js"));
  writeFileSync(built, readFileSync(built, "utf8").replaceAll("]]>", "]] >"));
}

const viewer = ["viewer/viewer.css", "viewer/viewer.html", "viewer/viewer.js", "viewer/worker.js"];
await build({
  root: here,
  configFile: false,
  logLevel: "warn",
  build: {
    target: "es2022",
    outDir: join(out, "viewer"),
    emptyOutDir: true,
    minify: true,
    cssCodeSplit: false,
    lib: {
      entry: join(here, "viewer/main.ts"),
      formats: ["iife"],
      name: "meantime",
      fileName: () => "viewer.js",
      cssFileName: "viewer",
    },
  },
});
// only one-file pages have it
await build({
  root: here,
  configFile: false,
  logLevel: "warn",
  build: {
    target: "es2022",
    outDir: join(out, "viewer"),
    emptyOutDir: false,
    minify: true,
    lib: { entry: join(here, "viewer/embedded-worker.ts"), formats: ["iife"], name: "meantime", fileName: () => "worker.js" },
  },
});
copyFileSync(join(here, "viewer/viewer.html"), join(out, "viewer/viewer.html"));

// The same files in the same order as tests/unit/test_bundle.py.
const files = ["../src/meantime/views/static/thresholds.bin", "package.json", "package-lock.json", "tsconfig.json", "build.mjs"];
for (const folder of ["shared", "svg-script", "viewer"]) {
  for (const name of readdirSync(join(here, folder), { recursive: true })) {
    if (/\.(ts|css|html)$/.test(name)) files.push(`${folder}/${name}`);
  }
}
const hash = createHash("sha256");
for (const name of files.sort()) {
  const text = readFileSync(join(here, name));
  hash.update(`${name}\n${text.length}\n`);
  hash.update(text);
}
const built = [...pages.map((page) => page.replace(/\.ts$/, ".js")), ...viewer];
const lines = [`${hash.digest("hex")}  sources`];
for (const name of built) {
  lines.push(`${createHash("sha256").update(readFileSync(join(out, name))).digest("hex")}  ${name}`);
}
writeFileSync(join(out, "built.sha256"), lines.join("\n") + "\n");

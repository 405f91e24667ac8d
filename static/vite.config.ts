import { defineConfig } from "vite";

// Relative URLs throughout: the viewer works under any path prefix.
export default defineConfig({
  base: "./",
  build: { outDir: "../build/viewer", emptyOutDir: true, target: "es2022" },
});

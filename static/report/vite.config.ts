import { defineConfig, type Plugin } from "vite";

// One file with everything in it: the page is opened from disk, without a server or a network.
const inlined = (): Plugin => ({
  name: "inlined",
  enforce: "post",
  generateBundle(_, bundle) {
    const page = Object.values(bundle).find((file) => file.fileName.endsWith(".html"));
    if (page?.type !== "asset") throw new Error("there is no page");
    let html = String(page.source);
    for (const file of Object.values(bundle)) {
      if (file === page) continue;
      // A closing tag inside a string would end the element.
      const text = (file.type === "chunk" ? file.code : String(file.source)).replaceAll("</script", "<\\/script");
      const name = file.fileName.replace(/[.]/g, "\\.");
      const [pattern, element] =
        file.type === "chunk"
          ? [`<script[^>]*src="[^"]*${name}"[^>]*></script>`, `<script type="module">${text}</script>`]
          : [`<link[^>]*href="[^"]*${name}"[^>]*>`, `<style>${text}</style>`];
      const found = new RegExp(pattern).exec(html);
      if (!found) throw new Error(`${file.fileName} is not referenced`);
      html = html.slice(0, found.index) + element + html.slice(found.index + found[0].length);
      delete bundle[file.fileName];
    }
    page.source = html;
  },
});

export default defineConfig({
  root: "report",
  base: "./",
  plugins: [inlined()],
  build: {
    outDir: "../../build/viewer",
    emptyOutDir: false,
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: Number.MAX_SAFE_INTEGER,
    rollupOptions: { input: "report/report.html" },
  },
});

// A picture as PDF, for a page without a server: fonts embedded, text that can be searched. It knows what a figure is made of
// (api/figures/svg.c): rectangles, paths of M L z, texts and pictures.
import plain from "@fontsource/ibm-plex-sans/files/ibm-plex-sans-latin-400-normal.woff?inline";
import { readFont, through, type Font } from "./pdf-font";
import { pictureOf } from "./save";

const bytesOf = (text: string): Uint8Array => Uint8Array.from(text, (c) => c.charCodeAt(0) & 255);
const hex = (n: number): string => n.toString(16).padStart(4, "0");
const number = (v: number): string => String(+v.toFixed(3));

class Objects {
  private readonly parts: Uint8Array[] = [];

  // Number of the object; place keeps one for what comes later.
  add(dictionary: string, stream?: Uint8Array): number {
    const head = stream ? `${dictionary.slice(0, -2)}/Length ${stream.length}>>\nstream\n` : dictionary;
    const tail = bytesOf(stream ? "\nendstream" : "");
    const all = new Uint8Array(head.length + (stream?.length ?? 0) + tail.length);
    all.set(bytesOf(head));
    if (stream) all.set(stream, head.length);
    all.set(tail, all.length - tail.length);
    return this.parts.push(all);
  }

  async packed(dictionary: string, stream: Uint8Array): Promise<number> {
    return this.add(
      `${dictionary.slice(0, -2)}/Filter/FlateDecode>>`,
      await through(stream, new CompressionStream("deflate")),
    );
  }

  file(root: number): Blob {
    const chunks: Uint8Array[] = [bytesOf("%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")];
    let at = chunks[0]!.length;
    const offsets = this.parts.map((part, k) => {
      const begin = at;
      for (const chunk of [bytesOf(`${k + 1} 0 obj\n`), part, bytesOf("\nendobj\n")]) {
        chunks.push(chunk);
        at += chunk.length;
      }
      return begin;
    });
    const rows = offsets.map((offset) => `${String(offset).padStart(10, "0")} 00000 n \n`).join("");
    chunks.push(
      bytesOf(
        `xref\n0 ${offsets.length + 1}\n0000000000 65535 f \n${rows}trailer\n<</Size ${offsets.length + 1}` +
          `/Root ${root} 0 R>>\nstartxref\n${at}\n%%EOF\n`,
      ),
    );
    return new Blob(chunks as BlobPart[], { type: "application/pdf" });
  }
}

class Drawing {
  readonly used = new Map<number, string>(); // glyphs
  readonly pictures: SVGImageElement[] = [];
  private readonly out: string[] = [];

  constructor(private readonly font: Font) {}

  get content(): string {
    return this.out.join("\n");
  }

  private colour(value: string, operator: string): void {
    const n = parseInt(value.slice(1), 16);
    this.out.push(`${[n >> 16, (n >> 8) & 255, n & 255].map((v) => number(v / 255)).join(" ")} ${operator}`);
  }

  // Sets the colour of a shape and returns how to paint it: f or S.
  private paint(shape: Element): string {
    const fill = shape.getAttribute("fill")!;
    if (fill !== "none") {
      this.colour(fill, "rg");
      return "f";
    }
    this.colour(shape.getAttribute("stroke")!, "RG");
    this.out.push(`${shape.getAttribute("stroke-width")} w [${shape.getAttribute("stroke-dasharray") ?? ""}] 0 d`);
    return "S";
  }

  private path(d: string): string {
    return d.replace(/([ML])([-\d. ]+)|z/g, (_, step?: string, at?: string) =>
      step ? `${at} ${step.toLowerCase()} ` : "h ",
    );
  }

  private text(element: Element): void {
    const size = Number(element.getAttribute("font-size"));
    const glyphs = [...element.textContent].map((c) => {
      const glyph = this.font.glyphOf(c) || this.font.glyphOf("?");
      this.used.set(glyph, c);
      return glyph;
    });
    const width = (glyphs.reduce((sum, glyph) => sum + this.font.widthOf(glyph), 0) / 1000) * size;
    const anchor = element.getAttribute("text-anchor");
    const back = anchor === "middle" ? width / 2 : anchor === "end" ? width : 0;
    const turn = element.hasAttribute("transform") ? "0 -1 1 0" : "1 0 0 1";
    this.paint(element);
    this.out.push(
      `${turn} ${element.getAttribute("x")} ${element.getAttribute("y")} cm`,
      `BT /F0 ${size} Tf 1 0 0 -1 ${number(-back)} 0 Tm <${glyphs.map(hex).join("")}> Tj ET`,
    );
  }

  private picture(image: SVGImageElement): void {
    const [x, y, width, height] = ["x", "y", "width", "height"].map((name) => Number(image.getAttribute(name)));
    this.out.push(`${width} 0 0 ${-height!} ${x} ${y! + height!} cm /I${this.pictures.push(image) - 1} Do`);
  }

  private shape(element: Element): void {
    const path =
      element.tagName === "path"
        ? this.path(element.getAttribute("d")!)
        : `${["x", "y", "width", "height"].map((name) => element.getAttribute(name) ?? "0").join(" ")} re`;
    this.out.push(`${path} ${this.paint(element)}`);
  }

  walk(parent: Element): void {
    for (const element of parent.children) {
      this.out.push("q");
      if (element.tagName === "svg") {
        this.out.push(`1 0 0 1 ${element.getAttribute("x") ?? 0} ${element.getAttribute("y") ?? 0} cm`);
        this.walk(element);
      } else if (element.tagName === "text") this.text(element);
      else if (element.tagName === "image") this.picture(element as SVGImageElement);
      else if (/^(path|rect)$/.test(element.tagName)) this.shape(element);
      this.out.push("Q");
    }
  }
}

async function pictureObject(objects: Objects, image: SVGImageElement): Promise<number> {
  const loaded = new Image();
  loaded.src = pictureOf(image);
  await loaded.decode();
  const target = document.createElement("canvas");
  [target.width, target.height] = [loaded.naturalWidth, loaded.naturalHeight];
  const context = target.getContext("2d")!;
  context.fillStyle = "#ffffff"; // behind what is clear: these pictures have no transparency
  context.fillRect(0, 0, target.width, target.height);
  context.drawImage(loaded, 0, 0);
  const { data } = context.getImageData(0, 0, target.width, target.height);
  const rgb = data.filter((_, k) => k % 4 !== 3);
  return objects.packed(
    `<</Type/XObject/Subtype/Image/Width ${target.width}/Height ${target.height}/ColorSpace/DeviceRGB/BitsPerComponent 8>>`,
    new Uint8Array(rgb),
  );
}

async function fontObject(
  objects: Objects,
  font: Font,
  name: string,
  used: ReadonlyMap<number, string>,
): Promise<number> {
  const file = await objects.packed(`<</Length1 ${font.file.length}>>`, font.file);
  const descriptor = objects.add(
    `<</Type/FontDescriptor/FontName/${name}/Flags 4/FontBBox[${font.box.join(" ")}]/ItalicAngle 0` +
      `/Ascent ${font.ascent}/Descent ${font.descent}/CapHeight 698/StemV 80/FontFile2 ${file} 0 R>>`,
  );
  const widths = [...used.keys()].map((glyph) => `${glyph}[${Math.round(font.widthOf(glyph))}]`).join("");
  const below = objects.add(
    `<</Type/Font/Subtype/CIDFontType2/BaseFont/${name}/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>` +
      `/FontDescriptor ${descriptor} 0 R/CIDToGIDMap/Identity/W[${widths}]>>`,
  );
  const rows = [...used].map(
    ([glyph, c]) => `<${hex(glyph)}><${[...Array(c.length).keys()].map((k) => hex(c.charCodeAt(k))).join("")}>`,
  );
  const blocks = Array.from({ length: Math.ceil(rows.length / 100) }, (_, k) => rows.slice(100 * k, 100 * k + 100))
    .map((block) => `${block.length} beginbfchar\n${block.join("\n")}\nendbfchar`)
    .join("\n");
  const characters = await objects.packed(
    "<<>>",
    bytesOf(
      "/CIDInit/ProcSet findresource begin 12 dict begin begincmap/CMapName/X def/CMapType 2 def\n" +
        `1 begincodespacerange<0000><ffff>endcodespacerange\n${blocks}\nendcmap end end`,
    ),
  );
  return objects.add(
    `<</Type/Font/Subtype/Type0/BaseFont/${name}/Encoding/Identity-H/DescendantFonts[${below} 0 R]/ToUnicode ${characters} 0 R>>`,
  );
}

export async function pdfOf(picture: SVGSVGElement): Promise<Blob> {
  const { width, height } = picture.viewBox.baseVal;
  const font = await readFont(plain);
  const drawing = new Drawing(font);
  drawing.walk(picture);
  const objects = new Objects();
  const written = await fontObject(objects, font, "HSCOPE+IBMPlexSans", drawing.used);
  const pictures = [];
  for (const image of drawing.pictures) pictures.push(await pictureObject(objects, image));
  const content = await objects.packed("<<>>", bytesOf(`1 0 0 -1 0 ${height} cm\n${drawing.content}`));
  const pages = objects.add(`<</Type/Pages/Count 1/Kids[${content + 2} 0 R]>>`);
  objects.add(
    `<</Type/Page/Parent ${pages} 0 R/MediaBox[0 0 ${width} ${height}]/Contents ${content} 0 R/Resources<</Font<<` +
      `/F0 ${written} 0 R>>/XObject<<${pictures.map((image, k) => `/I${k} ${image} 0 R`).join("")}>>>>>>`,
  );
  return objects.file(objects.add(`<</Type/Catalog/Pages ${pages} 0 R>>`));
}

// The results of a run in the page: server/corpus/report/report_html.c says how it is written.

export interface Figure {
  value: number | null;
  spread: number | null;
  low?: number | null; // at the main threshold
  high?: number | null;
}
export interface Head {
  texts_with_high: number;
  repeated_share: Figure;
  same_sentence_share: Figure;
  mean_distance: Figure;
  focal_share: Figure;
  repeated_lift: number | null;
  same_sentence_lift: number | null;
}
export type Layer = Record<"repeated_share" | "same_sentence_share" | "mean_distance" | "unique_focal", number | null>;

// The reader's choice; layers and thresholds are indices into the report's lists.
export interface Pick {
  early: number;
  middle: number;
  layer: number;
  head: number;
  threshold: number;
}

// The part of report.json that the page and the viewer read. Axes as in docs/reference/arrays.md.
export interface Report {
  provenance: {
    date: string;
    model: { name: string; precision: string };
    options: {
      max_tokens: number;
      threshold: number;
      interventions?: unknown[];
      split_special_tokens?: boolean;
      prompt_name?: string | null;
      similarity_space?: string;
      center?: string;
      source_language?: string;
      target_language?: string;
      stack?: "encoder" | "decoder" | "cross"; // not in reports of earlier versions
    };
    input: { files: string[]; sha256: string; bytes: number; lines: number; complete: boolean };
  };
  thresholds: number[];
  layers: number[];
  heads: number;
  texts: number;
  tokens: number;
  all_distance: number[];
  distance: number[][][][];
  texts_with_high: number[][][];
  repeated_hist: number[][][][];
  repeated_same_sentence_hist: number[][][][];
  same_sentence_hist: number[][][][];
  focal_hist: number[][][][];
  unique_focal: number[][][];
  focal_share_sum: number[][][];
  attention_mass: number[][][];
  masked?: { tokens: number; accuracy: number | null; loss: number | null }; // if it was requested
  syntax?: unknown; // of texts in CoNLL-U files
  profiles_entropy?: number[][]; // not in reports of earlier versions, as the profiles below
  normalized_hist: number[][][];
  column_hist: number[][][];
  focal_ids: number[][];
  focal_counts: number[][];
  profiles_first: number[][];
  profiles_self?: number[][]; // not of cross heads, as the two below
  profiles_previous?: number[][];
  profiles_next?: number[][];
  focus_tokens: Record<string, string>;
  chance: Record<"repeated_share" | "same_sentence_share" | "mean_distance", number | null>;
  head_figures: Head[][][];
  layer_figures: Layer[][];
  findings: { holds: boolean | null; verdict: string }[];
  // Not in reports of earlier versions.
  one_text?: {
    tokens: string[];
    source_tokens?: string[]; // of cross heads: those that are attended to
    sentences: number[]; // of the tokens; -1: special
    maps: { kind: "attention" | "similarity"; layer: number; head: number | null; values: number[] }[];
    heads: { head: number; pairs: [number, number, number][] }[];
  };
  maps: MapEntry[];
  palettes: string[][]; // colours from low to high, 255 of each
  figures: Record<string, string>; // patterns of panels: server/corpus/report/report_html.c
  pick: Pick;
}

// middle, scale and ranges (all, 99 %, 95 %) as server/corpus/report/report_maps.h says.
interface MapEntry {
  name: string;
  layer: number;
  head: number | null;
  side: number;
  tokens: number; // of a pixel's edge
  palette: number;
  middle: number;
  scale: number;
  triangle: boolean;
  diagonal: boolean;
  ranges: [number, number][];
}

// One map, dense: values[i * side + j]; NaN where no text reaches.
export interface Plate {
  side: number;
  tokens: number; // of a pixel's edge
  palette: number;
  values: Float32Array;
  ranges: [number, number][];
}

// Maps and panels go by the same keys: "attention:3:5" is layer 3, head 5, by index.
export class Atlas {
  private readonly offsets = new Map<string, { entry: MapEntry; at: number }>();
  readonly end: number; // where the maps end

  constructor(
    entries: readonly MapEntry[],
    private readonly bytes: Uint8Array,
  ) {
    let at = 0;
    for (const entry of entries) {
      this.offsets.set(`${entry.name}:${entry.layer}${entry.head === null ? "" : `:${entry.head}`}`, { entry, at });
      at += entry.triangle ? (entry.side * (entry.side + (entry.diagonal ? 1 : -1))) / 2 : entry.side ** 2;
    }
    this.end = at;
  }

  plate(key: string): Plate {
    const found = this.offsets.get(key);
    if (!found) throw new Error(`the report has no map ${key}`);
    const { side, tokens, palette, middle, scale, triangle, diagonal, ranges } = found.entry;
    const values = new Float32Array(side * side);
    let at = found.at;
    for (let i = 0; i < side; i++)
      for (let j = triangle ? i + (diagonal ? 0 : 1) : 0; j < side; j++) {
        const byte = this.bytes[at++]!;
        const root = (byte - 128) / 127;
        values[i * side + j] = byte ? middle + scale * root * Math.abs(root) : NaN; // 0: no text reaches it
        if (triangle) values[j * side + i] = values[i * side + j]!;
      }
    if (triangle && !diagonal)
      for (let i = 1; i < side; i++) if (Number.isNaN(values[(i - 1) * side + i])) values[i * side + i] = NaN;
    return { side, tokens, palette, values, ranges };
  }
}

function panelsOf(bytes: Uint8Array): Map<string, string> {
  const panels = new Map<string, string>();
  const decoder = new TextDecoder();
  let at = 0;
  const line = (): string => {
    const end = bytes.indexOf(10, at);
    const text = decoder.decode(bytes.subarray(at, end));
    at = end + 1;
    return text;
  };
  while (at < bytes.length) {
    const key = line(),
      size = Number(line());
    panels.set(key, decoder.decode(bytes.subarray(at, at + size)));
    at += size;
  }
  return panels;
}

export interface Data {
  report: Report;
  atlas: Atlas;
  panels: Map<string, string>;
}

export async function unpack(base64: string): Promise<Data> {
  const packed = Uint8Array.from(atob(base64.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const size = new DataView(bytes.buffer).getUint32(0, true);
  const report = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size))) as Report;
  const atlas = new Atlas(report.maps, bytes.subarray(4 + size));
  return { report, atlas, panels: panelsOf(bytes.subarray(4 + size + atlas.end)) };
}

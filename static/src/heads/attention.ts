// Attention maps of all heads as bytes. Several layers share a request: for a long text each request is a pass.
import { partAt, type Answer } from "../app/answer";
import type { Cache } from "../app/cache";
import { perObject } from "../app/per-object";
import { attentionRequest, type Requested } from "../app/requests";
import type { Deriver } from "./derived";

const BLOCK_BYTES = 1e6; // of one request
const VISIBLE_BYTES = 16e6; // of one request for maps that are waited for together

type Blocks = Map<number, readonly number[]>; // by layer: the layers of its request

export class AttentionMaps {
  private readonly blocks = perObject<Answer, Blocks>(() => new Map());

  constructor(
    private readonly cache: Cache<Answer>,
    private readonly deriver: Deriver,
  ) {}

  // A layer's maps, one a head, and orders its profiles; null until they are here, and for long texts.
  of(overview: Answer, l: number, state: Requested): Uint8Array[] | null {
    const { layers, heads, source, pooled } = overview;
    if (pooled) return null; // a long text's whole maps are too large
    const later = [...layers.keys()].slice(l);
    const block = this.blocks(overview).get(l) ?? this.together(overview, later, BLOCK_BYTES).get(l) ?? [l];
    const numbers = block.map((k) => layers[k] ?? k);
    const { answer } = this.cache.want(attentionRequest(state, numbers));
    if (!answer) return null;
    const stack = answer.attentions as Uint8Array;
    const at = block.indexOf(l);
    const size = stack.length / answer.layers.length;
    // Cross heads have no profile: no token of the target is one of the text.
    if (!source) this.deriver.profiles(overview, l, stack.subarray(at * size, (at + 1) * size));
    return heads.map((_, h) => partAt(stack, answer, at, h));
  }

  // Divides layers that have no request yet among as few as possible.
  together(overview: Answer, layers: readonly number[], bytes = VISIBLE_BYTES): Blocks {
    const blocks = this.blocks(overview);
    const { heads, encoding, source } = overview;
    const cells = encoding.ids.length * (source ?? encoding).ids.length;
    const most = Math.max(1, Math.floor(bytes / (heads.length * cells)));
    const free = layers.filter((l) => !blocks.has(l));
    for (let from = 0; from < free.length; from += most) {
      const block = free.slice(from, from + most);
      for (const l of block) blocks.set(l, block);
    }
    return blocks;
  }
}

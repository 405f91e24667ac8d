// The method's terms, each in two sentences and a small picture.

// A small map that shows the term: the strength of each cell, 0..1, by row and column.
type Picture = (i: number, j: number) => number;

interface About {
  name: string;
  text: string; // two sentences
  picture: Picture;
  similarity?: true; // in its colour
}

export const SIDE = 7; // cells of a picture
const SENTENCE = 3; // its first tokens are one sentence
const near = (i: number, j: number): number => Math.max(0, 1 - Math.abs(i - j) / 3);
const block = (i: number, j: number): number => (i < SENTENCE === j < SENTENCE ? 0.8 : 0.15);
const alike = (i: number, j: number): number => (i === j ? 0 : i % 3 === j % 3 ? 1 : 0.2 * near(i, j));

const ABOUT = {
  head: {
    name: "Head",
    text: "A layer has several heads; each computes its own attention and its own output for every token. Layers and heads are counted from 0: 7·5 is layer 7, head 5.",
    picture: near,
  },
  attention: {
    name: "Attention A",
    text: "A row is a token that reads, a column one that is read; each row sums to 1. A strong column is a token that many others attend to.",
    picture: (i, j) => (j === 4 ? 1 : 0.3 * near(i, j)),
  },
  similarity: {
    name: "Similarity S",
    text: "The dot product of what the head writes for two tokens. Large values mean that the head treats the two tokens as alike in this context.",
    picture: alike,
    similarity: true,
  },
  normalised: {
    name: "Normalised similarity N",
    text: "Similarity divided by the head’s largest value outside the diagonal, so that 1 is the most similar pair. Values of different heads can be compared with it.",
    picture: (i, j) => alike(i, j) * (i + j > 6 ? 1 : 0.7),
    similarity: true,
  },
  tau: {
    name: "Similarity threshold τ",
    text: "A pair of tokens is high if its N reaches τ. Raise τ to keep only the most similar pairs.",
    picture: (i, j) => (alike(i, j) > 0.3 ? 1 : 0.1),
    similarity: true,
  },
  atau: {
    name: "Attention threshold τ",
    text: "A token gathers attention if its column sum reaches this fraction of the largest. Such tokens divide the text into segments.",
    picture: (_, j) => (j === 2 || j === 5 ? 1 : 0.1),
  },
  pairs: {
    name: "High pairs",
    text: "Pairs of tokens whose N reaches the threshold τ. Figures about a handful of pairs say little, so heads with fewer than the number given come last.",
    picture: (i, j) => (alike(i, j) > 0.5 ? 1 : 0.05),
    similarity: true,
  },
  lengths: {
    name: "Pairs of the longest outputs",
    text: "As many pairs as the head has high ones, those with the largest product of the lengths of its two outputs. If most high pairs are among them, lengths explain the pairs, not the outputs’ directions.",
    picture: (i, j) => (i !== j && (i % 3 === 1 || j % 3 === 1) ? (i % 3 === j % 3 ? 1 : 0.4) : 0.05),
    similarity: true,
  },
  pattern: {
    name: "Pattern",
    text: "The target of most of the head’s attention over a fixed sample text, so it is the same for every text: the previous token, separators, the same sentence and so on. A head without one strong target is mixed; one that attends evenly is broad.",
    picture: (i, j) => (j === i - 1 ? 1 : 0.08),
  },
  figure: {
    name: "Figures of a head",
    text: "Numbers that sum up a head on this text, such as its high pairs or the entropy of its attention. Sort or colour the heads by one of them to find the unusual ones.",
    picture: block,
  },
  dprime: {
    name: "d′, signal to noise",
    text: "How far the similarities of same-token or same-sentence pairs lie from those of the other pairs, in standard deviations. The viewer opens on the head with the largest d′.",
    picture: block,
    similarity: true,
  },
  entropy: {
    name: "Entropy",
    text: "How widely a row of attention, or a prediction, is spread, in nats. 0 is a single target; the logarithm of the number of targets is an even spread.",
    picture: (i, j) => (i < 4 ? (i === j ? 1 : 0) : 0.35),
  },
  arrangement: {
    name: "One map or both",
    text: "Attention and Similarity fit all heads into the window, one map each; the head under the pointer, or else the chosen one, stands beside them. Both shows two maps for each head, and its pattern.",
    picture: (i, j) => ((i + j) % 2 ? 0.15 : 0.7),
  },
  seek: {
    name: "Find heads",
    text: "Type a place (7·5, layer 3) or words of a pattern (previous, one word back). “like 7·5” orders the heads by their distance from that one.",
    picture: (i, j) => (i === 4 && j === 2 ? 1 : 0.1),
  },
  distance: {
    name: "Distance of heads, CKA",
    text: "Centred kernel alignment compares the outputs of two heads over all tokens of the text. A distance of 0 means outputs that agree up to rotation and scale.",
    picture: near,
    similarity: true,
  },
  space: {
    name: "Residual space",
    text: "The head’s output after its projection into the model’s hidden state. Similarity there is what later layers can see of it.",
    picture: alike,
    similarity: true,
  },
  centred: {
    name: "Centred similarity",
    text: "A head’s outputs share a mean, and O·O′ shows little else where it is long: almost every pair looks alike. Without the mean over the text, only pairs that differ from it in the same way stay similar.",
    picture: alike,
    similarity: true,
  },
  weighted: {
    name: "Attention weighted by norms",
    text: "Attention times the norm of the vector that is handed on. Much attention to a token whose vector is short moves little.",
    picture: (i, j) => near(i, j) * (j % 2 ? 0.3 : 1),
  },
  special: {
    name: "Special tokens",
    text: "[CLS], [SEP] and [MASK] are added by the tokenizer or stand for a gap. Hidden, they are also left out of every figure.",
    picture: (i, j) => (i % 6 && j % 6 ? 0.5 : 0.05),
  },
  pieces: {
    name: "Word pieces",
    text: "A tokenizer cuts rare words into pieces. Merged, attention to a word is the sum over its pieces, and attention from it their mean.",
    picture: (i, j) => (Math.floor(i / 2) === Math.floor(j / 2) ? 1 : 0.15),
  },
  model: {
    name: "Model",
    text: "The transformer that reads the text. “More models…” below the text lists those that are served.",
    picture: (i, j) => near(i, j) * (i % 2 ? 0.5 : 1),
  },
  segment: {
    name: "Second segment",
    text: "A text behind the first one and a separator, such as the answer to a question. Models that were trained on pairs tell the two apart.",
    picture: (i, j) => (i < 4 === j < 4 ? 0.7 : 0.1),
  },
  prompt: {
    name: "Prompt",
    text: "Words that a sentence encoder was trained to read before a text, such as “query: ”. They are part of what the model sees.",
    picture: (_, j) => (j === 0 ? 1 : 0.15),
  },
  result: {
    name: "Result",
    text: "The answer of the model’s own head: a class, labels, a part of the text or the next token. Effects follow one number of it, the logit of a class for example.",
    picture: (i, j) => (i === 0 ? (j + 1) / SIDE : 0.1),
  },
  corpus: {
    name: "Corpus run",
    text: "Statistics of all heads over a file of texts, one text a line: plain, NDJSON, a JSON array or a table. Two finished runs can be compared.",
    picture: block,
  },
  note: {
    name: "Note",
    text: "Words of yours on a head, or on one cell of its maps. Notes are kept with the story: shown again with the head, presented and saved with it.",
    picture: (i, j) => (i === 2 && j === 4 ? 1 : 0.1),
  },
  typical: {
    name: "Typical texts",
    text: "The texts of a corpus run in which a figure of the head is largest. A run keeps them if it was started with a number of typical texts a head.",
    picture: (i, j) => (i === j + 1 && (i < 3 || i > 4) ? 1 : 0.1),
  },
  segments: {
    name: "Segments",
    text: "Parts of the text between tokens that gather attention. Cohesion is the mean similarity of the tokens inside.",
    picture: block,
  },
  lens: {
    name: "Lens",
    text: "The model’s prediction if it were read after each layer instead of the last. Predictions from early layers are rough for post-norm models.",
    picture: (i, j) => (j <= i ? 0.2 + (0.8 * j) / SIDE : 0.05),
  },
  route: {
    name: "Route",
    text: "A way from a token of the text, through heads of several layers, to the token where the result is read. Its strength is the product of the fractions that each step keeps: of attention times the norm of the vector handed on, or of attention times the effect of switching the head off.",
    picture: (i, j) => (i === j ? 0.25 : (i === 5 && j === 2) || (i === 3 && j === 5) ? 1 : 0.05),
  },
  patching: {
    name: "Patching",
    text: "The pass of the text is computed again with one head’s output, or one token’s state, taken from a second text. It shows where the difference between the two results comes from: 100 % means that this part alone brings the second text’s result.",
    picture: (i, j) => (i === 4 && j > 1 && j < 5 ? 1 : 0.15),
  },
  scale: {
    name: "Scale",
    text: "The square root, as in the overview, also shows faint values. Linear colours keep the proportions; log shows four decades below the largest. Per row colours each query’s row up to its own maximum.",
    picture: (_, j) => j / SIDE,
  },
  overlay: {
    name: "Overlay",
    text: "The mask marks the tokens that gather attention; averaged regions replace similarity by its mean between them. High pairs frames every pair that reaches τ.",
    picture: (i, j) => (i === 3 || j === 3 ? 1 : 0.15),
  },
  diagonal: {
    name: "Diagonal",
    text: "A token is most similar to itself, so the paper leaves the diagonal of similarity out and keeps that of attention. On and off treat both maps alike.",
    picture: (i, j) => (i === j ? 0 : 0.5),
    similarity: true,
  },
  positions: {
    name: "Positions",
    text: "The number of each token in the text, counted from 0. It tells equal tokens apart.",
    picture: (i, j) => (j < 2 ? 0.1 : i / SIDE),
  },
  sentences: {
    name: "Sentences",
    text: "Marks where a sentence begins. Same-sentence figures count pairs between two marks.",
    picture: block,
  },
  lines: {
    name: "Lines",
    text: "Joins a token with those it attends to, in a colour for each ticked head, or the tokens of the strongest pairs. Choose a token to keep only its own lines.",
    picture: (i, j) => (i + j === 6 ? 1 : 0.05),
  },
  literal: {
    name: "[MASK] in the text",
    text: "The model predicts the token at [MASK], as it does for other special tokens that you type. Treated as ordinary text, its characters are tokenized like any others.",
    picture: (i, j) => (i === 3 ? 0.05 : j === 3 ? 1 : 0.2),
  },
  stack: {
    name: "Encoder, decoder and cross heads",
    text: "The encoder reads the text. The decoder reads or writes a target, such as a translation: each of its tokens attends to those before it, and by cross heads to the tokens of the text. Some models need the language of each.",
    picture: (i, j) => (Math.abs(2 * i - 1.6 * j) < 1.5 ? 0.9 : 0.15),
  },
  limit: {
    name: "Tokens at most",
    text: "A longer text is cut after this many tokens, and what is cut is shown in grey. The arrows below step through it, a window of so many tokens at a time. Time and memory grow with the square of the number.",
    picture: (i, j) => (i < 5 && j < 5 ? 0.7 : 0),
  },
  palette: {
    name: "Colours",
    text: "Every palette gets evenly darker or lighter with the value, so that it reads in print and without colour vision. Attention and similarity differ in each.",
    picture: (_, j) => (j + 1) / SIDE,
    similarity: true,
  },
  against: {
    name: "Compare with",
    text: "Shows two heads, texts or models beside each other, or a pass with a head switched off. The difference covers the tokens that both sides share.",
    picture: (i, j) => (i === 1 && j === 4 ? 1 : j < 3 ? 0.5 : 0.2),
  },
  effect: {
    name: "Effects",
    text: "Each head is switched off alone and the pass is computed again. The colour is the change of the prediction, of the result or of the hidden states. A dashed frame marks an effect that a gradient estimates.",
    picture: (i, j) => (i === 5 && j === 2 ? 1 : 0.15),
  },
  attribution: {
    name: "Attribution",
    text: "Each token’s contribution to the result, by the gradient of the result with respect to the token’s word vector: its product with the vector, its length, or its sum along the line from a baseline without the words. Above 0 the token raises the result, below 0 it lowers it. A gradient misses tokens where the model is saturated.",
    picture: (i, j) => (i === 3 ? (j % 3 === 1 ? 0.9 : 0.3) : 0.05),
  },
  estimate: {
    name: "Estimated effects",
    text: "One gradient gives the slope of the result for each head’s output. The slope times the output estimates the effect of switching the head off. It takes one request for all heads, but misses those that are saturated: a small change of their output changes nothing, a large one does.",
    picture: (i, j) => (i === 5 && j === 2 ? 0.7 : i === 1 && j === 4 ? 0.4 : 0.15),
  },
  state: {
    name: "Change of state",
    text: "How far a token’s hidden state moves when heads are changed, relative to its length. Choose the layer after which it is compared.",
    picture: (i) => (i === 2 ? 1 : 0.2),
  },
  chance: {
    name: "Chance",
    text: "The value that pairs drawn evenly from the text would give. A lift of 1 means that the head does no better than that.",
    picture: () => 0.3,
  },
  change: {
    name: "Changing a head",
    text: "The pass is computed again with the head’s output set to zero, to its mean, or scaled. The difference shows what the head contributes.",
    picture: (i, j) => (i === 2 && j === 3 ? 0 : 0.6),
  },
} satisfies Record<string, About>;

export type Term = keyof typeof ABOUT;
export const TERMS = Object.keys(ABOUT) as Term[];
export const aboutOf = (term: Term): About => ABOUT[term];

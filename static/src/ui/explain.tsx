// Explanations of the method's terms: behind a "?" at each control, and all together in the glossary.
import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";

// A small map that shows the term: the strength of each cell, 0..1, by row and column.
type Picture = (i: number, j: number) => number;

interface About {
  name: string;
  text: string; // two sentences
  picture: Picture;
  similarity?: true; // in its colour
}

const SIDE = 7; // cells of a picture
const SENTENCE = 3; // its first tokens are one sentence
const near = (i: number, j: number): number => Math.max(0, 1 - Math.abs(i - j) / 3);
const block = (i: number, j: number): number => (i < SENTENCE === j < SENTENCE ? 0.8 : 0.15);
const alike = (i: number, j: number): number => (i === j ? 0 : i % 3 === j % 3 ? 1 : 0.2 * near(i, j));

const TERMS = {
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
  pattern: {
    name: "Pattern",
    text: "The target of most of the head’s attention: the previous token, separators, the same sentence and so on. A head without one strong target is mixed; one that attends evenly is broad.",
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
  change: {
    name: "Changing a head",
    text: "The pass is computed again with the head’s output set to zero, to its mean, or scaled. The difference shows what the head contributes.",
    picture: (i, j) => (i === 2 && j === 3 ? 0 : 0.6),
  },
} satisfies Record<string, About>;

export type Term = keyof typeof TERMS;
const aboutOf = (term: Term): About => TERMS[term];

const CELLS = Array.from({ length: SIDE * SIDE }, (_, k) => [Math.floor(k / SIDE), k % SIDE] as const);

function Explanation({ term }: { term: Term }) {
  const { text, picture, similarity } = aboutOf(term);
  return (
    <div class="explanation">
      <svg viewBox={`0 0 ${SIDE} ${SIDE}`} aria-hidden="true" class={similarity ? "similarity" : ""}>
        {CELLS.map(([i, j]) => (
          <rect key={`${i} ${j}`} x={j} y={i} width={1} height={1} opacity={picture(i, j)} />
        ))}
      </svg>
      <p>{text}</p>
    </div>
  );
}

let places = 0;

// A control with its "?".
export function Explained({ term, children }: { term: Term | undefined; children: ComponentChildren }) {
  const [id] = useState(() => `explain-${places++}`);
  const [open, setOpen] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const sheet = useRef<HTMLDivElement>(null);
  if (!term) return <>{children}</>;
  const place = (): void => {
    if (!button.current || !sheet.current) return;
    const { left, bottom } = button.current.getBoundingClientRect();
    const { offsetWidth, offsetHeight } = sheet.current;
    sheet.current.style.left = `${Math.max(8, Math.min(left, innerWidth - offsetWidth - 8))}px`;
    sheet.current.style.top = `${Math.max(8, Math.min(bottom + 4, innerHeight - offsetHeight - 8))}px`;
  };
  const toggle = (e: Event): void => {
    setOpen((e as ToggleEvent).newState === "open");
    requestAnimationFrame(place);
  };
  return (
    <div class="explained">
      {children}
      <button type="button" class="what" popovertarget={id} aria-label={`What is: ${aboutOf(term).name}?`} ref={button}>
        ?
      </button>
      <div popover="auto" id={id} class="explain-sheet" ref={sheet} onToggle={toggle}>
        {open && (
          <>
            <h3>{aboutOf(term).name}</h3>
            <Explanation term={term} />
            <button type="button" class="link" onClick={openGlossary}>
              All terms
            </button>
          </>
        )}
      </div>
    </div>
  );
}

const GLOSSARY = "glossary";

export function openGlossary(): void {
  document.querySelector<HTMLElement>(".explain-sheet:popover-open")?.hidePopover();
  const dialog = document.getElementById(GLOSSARY) as HTMLDialogElement | null;
  if (dialog && !dialog.open) dialog.showModal();
}

export function Glossary() {
  return (
    <dialog class="help" id={GLOSSARY} aria-label="Glossary">
      <form method="dialog">
        <h2>Glossary</h2>
        <button class="icon" aria-label="Close">
          ×
        </button>
      </form>
      <dl class="glossary">
        {(Object.keys(TERMS) as Term[]).map((term) => (
          <div key={term}>
            <dt>{aboutOf(term).name}</dt>
            <dd>
              <Explanation term={term} />
            </dd>
          </div>
        ))}
      </dl>
    </dialog>
  );
}

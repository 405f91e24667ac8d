// Which head of the other model is most like this one: all of its heads by CKA over several texts, one layer a frame.
import { useRef } from "preact/hooks";
import { isLong, partAt, type Answer } from "../../app/answer";
import type { App } from "../../app/app";
import { EXAMPLES } from "../../app/examples";
import type { Requested } from "../../app/requests";
import { SHORT_ONLY } from "../../heads/pooled";
import { rankHeads } from "../../heads/between";
import { ckaOf, gramOf, meansOf, WORDS_MOST, wordsOf, type Gram } from "../../heads/match";
import { SUM, type Selection } from "../../app/selection";
import { fromHalves } from "../../heads/similarity";
import { useApp } from "../../ui/context";
import { StatusLine } from "../../ui/status";
import { StateDisclosure } from "../../ui/state-controls";
import { Barred } from "../../ui/bars";

const LISTED = 8;

interface Pair {
  text: string;
  first: Answer;
  second: Answer;
}

// The same texts in both models; null until all answers are here.
function pairsOf(app: App, other: Requested): Pair[] | null {
  const texts = [...new Set([app.state.text, ...EXAMPLES.filter(({ pair }) => !pair).map(({ text }) => text)])];
  const pairs = texts.map((text) => {
    const [first, second] = [app.state, other].map(
      (requested) => app.overview({ ...requested, text, pair: "" }).answer,
    );
    return first && second ? { text, first, second } : null;
  });
  return pairs.every((pair) => pair !== null) ? pairs : null;
}

const outputsOf = (answer: Answer, l: number, h: number): Float32Array =>
  fromHalves(partAt(answer.headOutputs as Uint16Array, answer, l, h));

// Words that both models see whole.
function sharedWords({ text, first, second }: Pair): [number[][], number[][]] {
  const [a, b] = [wordsOf(text, first.encoding), wordsOf(text, second.encoding)];
  const both = a.map((_, k) => k).filter((k) => a[k]?.length && b[k]?.length);
  return [both.map((k) => a[k] ?? []), both.map((k) => b[k] ?? [])];
}

function gram(pairs: readonly Pair[], side: 0 | 1, l: number, h: number): Gram {
  const rows = pairs.flatMap((pair) => {
    const answer = side ? pair.second : pair.first;
    return meansOf(outputsOf(answer, l, h), answer.encoding.ids.length, sharedWords(pair)[side]);
  });
  return gramOf(rows.slice(0, WORDS_MOST));
}

const hasLong = (app: App, other: Requested): boolean =>
  [app.state, other].some((requested) => isLong(app.overview(requested).answer));

function useMatches(open: boolean, of: Selection, other: Requested): { rows: number[][]; of: number } | null {
  const app = useApp();
  const known = useRef<{ key: unknown[]; own: Gram; rows: number[][] } | null>(null);
  const pairs = open && of.head !== SUM && !hasLong(app, other) ? pairsOf(app, other) : null;
  const last = pairs?.[0];
  if (!pairs || !last) return null;
  const key = [of.layer, of.head, ...pairs.flatMap(({ first, second }) => [first, second])];
  if (key.some((part, n) => part !== known.current?.key[n]))
    known.current = { key, own: gram(pairs, 0, of.layer, of.head), rows: [] };
  const state = known.current;
  if (!state) return null;
  const layers = last.second.layers.length;
  if (state.rows.length < layers) {
    state.rows.push(last.second.heads.map((_, h) => ckaOf(state.own, gram(pairs, 1, state.rows.length, h))));
    app.draw();
  }
  return { rows: state.rows, of: layers };
}

export function Match({ of, other }: { of: Selection; other: Requested }) {
  const app = useApp();
  const { matches } = app.state;
  const found = useMatches(matches, of, other);
  const known = (found?.rows ?? []).map((row) => row.map((value) => (Number.isFinite(value) ? value : null)));
  const ranked = rankHeads(known).slice(0, LISTED);
  const done = found !== null && found.rows.length === found.of;
  const long = hasLong(app, other);
  return (
    <StateDisclosure field="matches" title="Heads of the other model most like this one">
      {long && <p class="muted">{SHORT_ONLY}</p>}
      {of.head === SUM && <p class="muted">Choose one head of the first model.</p>}
      {of.head !== SUM && !long && !done && (
        <StatusLine>
          Comparing outputs over the texts… {found && `${found.rows.length} of ${found.of} layers`}
        </StatusLine>
      )}
      {done && (
        <ol class="matches">
          {ranked.map(({ l: layer, h: head, value }) => (
            <li key={`${layer} ${head}`}>
              <Barred
                name={`Layer ${layer} head ${head}`}
                value={value.toFixed(3)}
                fraction={Math.max(0, value)}
                pressed={app.state.layer2 === layer && app.state.head2 === head}
                onClick={() => app.pickSecond(layer, head)}
              />
            </li>
          ))}
        </ol>
      )}
      <p class="muted caption">
        Unbiased linear CKA of the two heads’ outputs, averaged over the pieces of each word, over this text and the
        viewer’s examples ({WORDS_MOST} words at most). 1 means the same up to rotation and scale.
      </p>
    </StateDisclosure>
  );
}

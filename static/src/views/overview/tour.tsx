// The tour of the first visit: a dialog of five steps, each of which frames the part of the page that it is about. The
// page stays usable beside it, and it can be left at any step.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { App } from "../../app/app";
import type { State } from "../../app/state";
import { soundValueOf, writeFigure, type Figure, type Known } from "../../heads/figures";
import { headsOf } from "../../heads/heads";
import { percent } from "../../maps/scale";
import { useApp } from "../../ui/context";
import { Button } from "../../ui/controls";

interface Step {
  title: string;
  text: string;
  part: string; // selects the part of the page, the first one that is on screen
  view?: State["view"]; // that has the part
  here?: Instance | null; // in the text on screen
}

interface Instance {
  words: string;
  show: Partial<State>;
}

// The head with the largest sound figure.
const best = (known: Known[][], figure: Figure, least: number) =>
  known
    .flatMap((row, layer) => row.map((one, head) => ({ layer, head, one, value: soundValueOf(one, figure, least) })))
    .reduce((top, next) => ((next.value ?? -Infinity) > (top.value ?? -Infinity) ? next : top));

function columnHere(known: Known[][]): Instance {
  const { layer, head, value } = best(known, "separator_attention", 0);
  const heads = known.flat();
  const many = heads.filter((one) => (one.separator_attention ?? 0) > 0.5).length;
  return {
    words: `Here ${many} of ${heads.length} heads put more than half of their attention on separators and sentence ends. The most is ${percent(value)}, in layer ${layer} head ${head}.`,
    show: { view: "head", layer, head, overlay: "mask", pin: [] },
  };
}

function alikeHere(known: Known[][], least: number): Instance | null {
  const { layer, head, one, value } = best(known, "repeated_share", least);
  return value === null
    ? null
    : {
        words: `Here layer ${layer} head ${head} repeats tokens most: ${writeFigure(one, "repeated_share")} high pairs.`,
        show: { view: "pairs", layer, head, pin: [] },
      };
}

function stepsOf(app: App): Step[] {
  const { answer } = app.overview();
  const known = answer?.summary ? headsOf(app).figures(answer) : null;
  return [
    {
      title: "Choose a text",
      text: "Type a text or take an example, then click Analyse. The model reads it, and every head is shown.",
      part: ".panel form > .line:first-child, .panel .file-card",
    },
    {
      title: "See all heads",
      text: "Each picture is a head. Blue is attention: rows attend to columns, so a strong column is a token that many attend to. Point at a head to see it larger, with similarity in amber: the tokens that it treats as alike.",
      part: ".thumb.chosen",
      view: "overview",
      here: known && columnHere(known),
    },
    {
      title: "Find a head",
      text: "Each head is named by its pattern. Filter by it, sort by a figure, or search: “previous” finds the heads that look one word back.",
      part: ".overview .toolbar",
      view: "overview",
      here: known && alikeHere(known, app.state.least),
    },
    {
      title: "Read a head",
      text: "Click a picture for its maps, token by token. Its section has the same head over the text, and its pairs of tokens.",
      part: ".top nav button:nth-of-type(2)",
      here: {
        words: "The framed head separates words best.",
        show: { view: "head", ...app.selection(answer), pin: [] },
      },
    },
    {
      title: "Change the model",
      text: "Experiment switches heads off and shows what the model then predicts. Compare sets a head beside another head, text or model. A “?” explains the controls beside it; the one at the top lists the keys and the glossary.",
      part: ".top nav button:nth-of-type(3)",
      here: { words: "Try it with a word that is masked.", show: { view: "experiment" } },
    },
  ];
}

const stage = (): HTMLElement | null => document.getElementById("stage");

const partOf = (step: Step | undefined): Element | undefined =>
  step && [...document.querySelectorAll(step.part)].find((part) => part.checkVisibility());

export function Tour({ onLeave }: { onLeave: () => void }) {
  const app = useApp();
  const [at, setAt] = useState(0);
  const steps = stepsOf(app);
  const step = steps[at];
  const dialog = useRef<HTMLElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    dialog.current?.focus();
    return () => {
      if (before instanceof HTMLElement && before !== document.body) before.focus();
      else stage()?.focus({ preventScroll: true }); // it begins below the bar, and the page stays where it is
    };
  }, []);
  useEffect(() => {
    if (step?.view && app.state.view !== step.view) app.go(step.view);
    partOf(step)?.scrollIntoView({ block: "nearest" });
  }, [at]);
  // The part may be drawn after the step, or anew.
  useLayoutEffect(() => {
    const part = partOf(step);
    part?.setAttribute("data-toured", "");
    return () => part?.removeAttribute("data-toured");
  });
  if (!step) return null;
  const { title, text, here } = step;
  const last = at + 1 === steps.length;
  return (
    <section
      class="tour"
      role="dialog"
      aria-labelledby="tour-title"
      aria-describedby="tour-text"
      tabIndex={-1}
      ref={dialog}
      onKeyDown={(e) => e.key === "Escape" && onLeave()}
    >
      <h2 id="tour-title">
        <span class="hidden">Tour: </span>
        {title} <small class="muted">{`${at + 1} of ${steps.length}`}</small>
      </h2>
      <p id="tour-text">{text}</p>
      {here && (
        <p class="muted">
          {here.words}{" "}
          <Button class="link" onClick={() => app.set(here.show, true)}>
            Show
          </Button>
        </p>
      )}
      <div class="submit" role="toolbar" aria-label="Steps of the tour">
        <Button class="primary" onClick={() => (last ? onLeave() : setAt(at + 1))}>
          {last ? "Done" : "Next"}
        </Button>
        <Button disabled={at === 0} onClick={() => setAt(at - 1)}>
          Back
        </Button>
        <Button class="link" onClick={onLeave}>
          Leave the tour
        </Button>
      </div>
    </section>
  );
}

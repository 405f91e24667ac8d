// The sections in the bar above, and the parts of the one on screen, below its title.
import { embedded } from "../app/embed";
import { isOfHeadSpace } from "../app/measures";
import { titleOf } from "../app/selection";
import { stackNote } from "../app/stacks";
import { SECTIONS, type Section, type View } from "../app/state";
import { isOfOneHead, nameOfView, partsOf, sectionOf } from "../app/views";
import { FIGURES, patternsOf, valueOf, writeFigure, type Figure } from "../heads/figures";
import { headsOf } from "../heads/heads";
import { useApp } from "./context";
import { Button } from "./controls";

// The part that each section was left at.
const left = new Map<Section, View>();

export function Sections() {
  const app = useApp();
  const { view } = app.state;
  const current = sectionOf(view);
  left.set(current, view);
  return (
    <nav aria-label="Sections">
      {(Object.keys(SECTIONS) as Section[]).map((section) => {
        const alone = partsOf(section).length === 1;
        return (
          <Button
            key={section}
            aria-current={section === current ? (alone ? "page" : "true") : undefined}
            onClick={() => app.go(left.get(section) ?? SECTIONS[section][0])}
          >
            {section}
          </Button>
        );
      })}
    </nav>
  );
}

// Nothing in a section of one part, and in a frame.
export function Parts() {
  const app = useApp();
  const { view } = app.state;
  const section = sectionOf(view);
  if (embedded || partsOf(section).length === 1) return null;
  return (
    <div class="parts">
      {isOfOneHead(view) && <HeadTitle />}
      <nav aria-label={`Parts of ${section}`}>
        <div class="joined" role="toolbar" aria-label={`Parts of ${section}`}>
          {partsOf(section).map((part) => (
            <Button key={part} aria-current={part === view ? "page" : undefined} onClick={() => app.go(part)}>
              {nameOfView(part)}
            </Button>
          ))}
        </div>
      </nav>
      {isOfOneHead(view) && <MainFigures />}
    </div>
  );
}

const MAIN = ["mean_distance", "same_sentence_share", "snr_dprime"] as const; // of pairs
const OF_ATTENTION = ["attention_entropy", "separator_attention"] as const;

// The figures of the head on screen that say most, above its maps. All of them stand below.
function MainFigures() {
  const app = useApp();
  const { answer } = app.overview();
  if (!answer) return null;
  const { layer, head } = app.selection(answer);
  const known = headsOf(app).figures(answer)[layer]?.[head];
  // Pairs of other measures are counted from the maps on screen.
  const names: readonly Figure[] = isOfHeadSpace(app.state) ? [...MAIN, ...OF_ATTENTION] : OF_ATTENTION;
  const shown = known ? names.filter((name) => valueOf(known, name) !== null) : [];
  if (!known || shown.length === 0) return null;
  return (
    <p class="main-figures muted" aria-label="Head at a glance" role="group">
      {shown.map((name) => (
        <span key={name} title={FIGURES[name].title}>
          {FIGURES[name].short} <strong>{writeFigure(known, name)}</strong>
        </span>
      ))}
    </p>
  );
}

// The head on screen: its place, and its pattern.
function HeadTitle() {
  const app = useApp();
  const { answer } = app.overview();
  if (!answer) return null;
  const selection = app.selection(answer);
  const known = headsOf(app).figures(answer)[selection.layer]?.[selection.head];
  const pattern = known && patternsOf(known);
  return (
    <h2>
      {titleOf(selection) + stackNote(app.state)}
      {pattern && <span class="muted"> · {pattern}</span>}
    </h2>
  );
}

// Starts the viewer: draws the frame, and the view that the state names.
import "./fields";
import { render as renderTree, type VNode } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";
import { models } from "./app/api";
import { App } from "./app/app";
import { embedded } from "./app/embed";
import { CHECKSUM, missingIn } from "./app/missing";
import { tokensRequest } from "./app/requests";
import { quotedTexts, stackNote } from "./app/stacks";
import { VIEWS, type View } from "./app/state";
import { keep, kept } from "./app/storage";
import { watchTheme } from "./app/theme";
import { isOfOneHead, isOfText, nameOfView } from "./app/views";
import { FocusKeeper } from "./focus";
import { titleOf } from "./app/selection";
import { headsOf } from "./heads/heads";
import { bindKeys } from "./keys";
import { missingOf } from "./opened/files";
import { NotOfFile, OpenDialog, takeDropped } from "./opened/open-file";
import { ExportMenu } from "./saving/menu";
import { withdraw } from "./saving/offer";
import { StoryMenu } from "./story/menu";
import { Readout, TopBar } from "./ui/chrome";
import { AppContext, useApp } from "./ui/context";
import { Adopt } from "./ui/controls";
import { Glossary, Help, openHelp } from "./ui/help";
import { Panel } from "./ui/panel";
import { Parts } from "./ui/sections";
import { TokenGate } from "./ui/token-gate";
import { bindToolbars } from "./ui/toolbars";
import { COMPONENTS, entranceOf } from "./view-table";
import { Tour } from "./views/overview/tour";
import "./styles.css";

// Each view is a tree of its own, which stays as it is while another one is shown.
const roots = Object.fromEntries(VIEWS.map((view) => [view, document.createElement("div")])) as unknown as Record<
  View,
  HTMLElement
>;

const linked = location.hash.length > 1; // who follows a link wants what it shows
const TOUR_SEEN = "headscope-tour-seen";

function Missing() {
  const app = useApp();
  const answer = isOfText(app.state.view) ? app.overview().answer : null;
  const missing = answer ? missingIn(app.state, app.address.unread, answer) : "";
  // Links name the checksum of the weights that they show.
  useLayoutEffect(() => {
    if (answer && app.state.model && !app.state.sha) app.commit({ sha: answer.sha256.slice(0, CHECKSUM) });
  });
  return (
    <p class="notice" role="status" hidden={!missing}>
      {missing}
    </p>
  );
}

const QUOTED = 120, // characters of the text on paper
  TITLED = 60; // and in the title

// Names what is shown: in the title of the document, and on paper.
function Named() {
  const app = useApp();
  const { view } = app.state;
  const ofText = isOfText(view);
  const { answer } = app.overview();
  const title = isOfOneHead(view) && answer ? titleOf(app.selection(answer)) : "";
  const head = title && `${title}${stackNote(app.state)} · `;
  const quoted = (most: number): string => quotedTexts(tokensRequest(app.state), most);
  useLayoutEffect(() => {
    document.title = `${ofText ? `${head}${quoted(TITLED)} · ` : ""}${nameOfView(view)} · headscope`;
  });
  return ofText ? <p class="printed">{`headscope · ${app.modelName()} · ${head}${quoted(QUOTED)}`}</p> : null;
}

function Frame() {
  const app = useApp();
  const [toured, setToured] = useState(!embedded && !linked && kept("localStorage", TOUR_SEEN) === null);
  const leaveTour = (): void => {
    setToured(false);
    keep("localStorage", TOUR_SEEN, "1");
  };
  const takeTour = (): void => {
    setToured(true);
    app.go("overview");
  };
  const skip = (e: Event): void => {
    e.preventDefault();
    document.getElementById("stage")?.focus();
  };
  return (
    <>
      <a class="skip" href="#stage" onClick={skip}>
        Skip to the view
      </a>
      <TopBar menu={[<StoryMenu key="story" />, <ExportMenu key="export" />]} onHelp={openHelp} />
      <main>
        <h1 class="hidden">headscope: how transformers pay attention</h1>
        <Panel />
        <Parts />
        <div class="stage" id="stage" tabIndex={-1}>
          <TokenGate />
          <Named />
          <Missing />
          {toured && isOfText(app.state.view) && <Tour onLeave={leaveTour} />}
          <Adopt element={roots[app.state.view]} />
        </div>
      </main>
      <Readout />
      <Help onTour={takeTour} />
      <Glossary />
      <OpenDialog />
    </>
  );
}

const page = document.getElementById("app") ?? document.body;
const focus = new FocusKeeper((root) => entranceOf(app.state.view, root));
let shown: HTMLElement | null = null;

function render(): void {
  const { view } = app.state;
  const root = roots[view];
  const stage = document.getElementById("stage");
  const lost = shown !== null && shown !== root && stage !== null && focus.leave(shown, stage);
  const View = missingOf(app.state) ? NotOfFile : COMPONENTS[view];
  const within = (tree: VNode) => <AppContext.Provider value={app}>{tree}</AppContext.Provider>;
  withdraw(); // until the view offers something
  if (shown !== root) app.announce(""); // the line is of the view before
  renderTree(within(<Frame />), page);
  renderTree(within(<View />), root);
  shown = root;
  if (lost) focus.enter(root, stage);
  focus.follow(root);
}

// A file dropped where none is taken would replace the page. Files of arrays are taken everywhere.
function dropFile(e: DragEvent): void {
  if (e.defaultPrevented || !e.dataTransfer?.types.includes("Files")) return;
  e.preventDefault();
  e.dataTransfer.dropEffect = "copy";
  if (e.type === "drop" && !takeDropped(e))
    app.announce("Attention arrays (.npz, .safetensors) can be dropped here, a file of texts in Corpus", true);
}

const app = new App(render);
headsOf(app); // its worker starts early
document.documentElement.classList.toggle("embedded", embedded);
watchTheme(app);
for (const kind of ["dragover", "drop"] as const) addEventListener(kind, (e) => dropFile(e));
bindKeys(app);
bindToolbars();
// The text is analysed without waiting for the first frame or the list of models.
if (isOfText(app.state.view)) app.overview();
models()
  .then((list) => app.learn(list))
  .catch(() => {}) // a view that needs the list reports why it is missing
  .finally(app.draw);
app.draw();

// A dialog with the keys; "?" opens it.
import { Button } from "./controls";
import { closeDialog, Dialog, openDialog } from "./dialog";
import { Explanation, GLOSSARY, openGlossary } from "./explain";
import { aboutOf, TERMS } from "./terms";
import { keepToken, token } from "../app/token";

const KEYS: Record<string, Record<string, string>> = {
  Everywhere: {
    "1 – 8": "the sections and their parts",
    "[  ]": "previous, next head",
    "{  }": "previous, next layer",
    "<  >": "previous, next window of a long text",
    "/": "to the text",
    O: "open a file of attention arrays",
    "Ctrl ↵": "analyse (in the text)",
    "Ctrl Z": "undo the last step",
    "?": "this list",
  },
  "Rows of controls": {
    Tab: "to the next row, or a field in it",
    "← →  Home End": "along the row",
    "↑ ↓": "choose another value",
  },
  Heads: { "← → ↑ ↓": "move through the heads", "Home End": "ends of the row", "↵": "open the head" },
  Maps: {
    "← → ↑ ↓": "move the cross-hair",
    "Shift + arrows": "ten cells",
    Esc: "release the pinned cell; then back to all heads",
    "+ − 0": "zoom, whole map",
    wheel: "zoom, once the map is clicked",
    drag: "move a zoomed map",
  },
  Text: { "← →": "previous, next token", Space: "select the token", Esc: "select none" },
  Experiment: {
    "← → ↑ ↓": "move through the heads",
    "↵": "change the head, or the layer",
    "Shift ↵": "show the head’s maps",
  },
  Pairs: { "↑ ↓": "pair above, below", "↵": "show it on the map" },
};

const ID = "help";

export const openHelp = (): void => openDialog(ID);
export const isHelpOpen = (): boolean => document.querySelector("dialog.help[open]") !== null;

function forgetToken(): void {
  keepToken("");
  location.reload();
}

export function Help({ onTour }: { onTour: () => void }) {
  return (
    <Dialog id={ID} label="Keys and help" title="Keys">
      <div class="keys">
        {Object.entries(KEYS).map(([title, keys]) => (
          <section key={title}>
            <h3>{title}</h3>
            <dl>
              {Object.entries(keys).map(([key, does]) => (
                <div key={key}>
                  <dt>
                    <kbd>{key}</kbd>
                  </dt>
                  <dd>{does}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <p class="muted">
        Method:{" "}
        <a href="https://arxiv.org/abs/2512.21956" rel="noreferrer">
          arXiv 2512.21956
        </a>
        {" · The service: "}
        <a href="openapi.json">OpenAPI</a>
      </p>
      <Button
        onClick={() => {
          closeDialog(ID);
          openGlossary();
        }}
      >
        Glossary
      </Button>{" "}
      <Button
        onClick={() => {
          closeDialog(ID);
          onTour();
        }}
      >
        Take the tour
      </Button>
      {token() !== "" && <Button onClick={forgetToken}>Forget the token</Button>}
    </Dialog>
  );
}

export function Glossary() {
  return (
    <Dialog id={GLOSSARY} label="Glossary">
      <dl class="glossary">
        {TERMS.map((term) => (
          <div key={term}>
            <dt>{aboutOf(term).name}</dt>
            <dd>
              <Explanation term={term} />
            </dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

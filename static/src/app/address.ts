// The state and the browser's history. Every change of state goes through set().
import { firstPage, formatState, parseState, type State } from "./state";

const WRITE_MS = 150; // browsers refuse a new address for every step of a slider
const ADDRESS_MAX = 1_500_000; // no browser takes a longer one: such a text cannot be shared as a link

const given = (): ReturnType<typeof parseState> =>
  location.hash.length > 1 ? parseState(location.hash) : { state: firstPage(), unread: [] };

export class Address {
  state: State;
  unread: readonly string[]; // names of fields that could not be read
  private timer = 0;
  private last = ""; // the fields of the last merged step

  constructor(private readonly changed: () => void) {
    ({ state: this.state, unread: this.unread } = given());
    addEventListener("popstate", () => this.reload());
    addEventListener("hashchange", () => this.reload());
  }

  private reload(): void {
    ({ state: this.state, unread: this.unread } = given());
    this.changed();
  }

  // Changes fields. A step (another view, head or text) adds an entry to the browser's history. Merged steps that change
  // the same fields in a row, as typing does, share an entry.
  set(patch: Partial<State>, how: boolean | "merge" = false): void {
    const fields = how === "merge" ? Object.keys(patch).join() : "";
    const step = how !== false && (fields === "" || fields !== this.last);
    if (how !== false) this.last = fields;
    if (step) this.write("replaceState");
    this.unread = this.unread.filter((name) => !(name in patch));
    this.state = { ...this.state, ...patch };
    if (step) this.write("pushState");
    else this.timer ||= setTimeout(() => this.write("replaceState"), WRITE_MS);
    this.changed();
  }

  private write(how: "pushState" | "replaceState"): void {
    clearTimeout(this.timer);
    this.timer = 0;
    const address = `#${formatState(this.state)}`;
    if (address.length > ADDRESS_MAX || address === (location.hash || "#")) return;
    const state = { steps: this.steps + (how === "pushState" ? 1 : 0) };
    history[how](state, "", address);
  }

  // The steps of this page that can be undone.
  private get steps(): number {
    return (history.state as { steps?: number } | null)?.steps ?? 0;
  }

  undo(): void {
    this.last = "";
    if (this.steps > 0) history.back();
  }

  // The page's address with the state of now.
  href(): string {
    this.write("replaceState");
    return location.href;
  }
}

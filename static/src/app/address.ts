// The state and the browser's history. Every change of state goes through set().
import { asProblem } from "./api";
import { linkIn, readLink } from "./links";
import { formatState, parseState, type State } from "./state";

const WRITE_MS = 150; // browsers refuse a new address for every step of a slider
const ADDRESS_MAX = 1_500_000; // no browser takes a longer one: such a text cannot be shared as a link

export class Address {
  state: State;
  unread: readonly string[]; // names of fields that could not be read
  problem = ""; // of a short link that could not be followed
  following: Promise<void> | null; // until the view of a short link is here
  private timer = 0;
  private last = ""; // the fields of the last merged step

  constructor(private readonly changed: () => void) {
    ({ state: this.state, unread: this.unread } = parseState(location.hash));
    this.following = this.follow();
    addEventListener("popstate", () => this.reload());
    addEventListener("hashchange", () => this.reload());
  }

  private read(): void {
    ({ state: this.state, unread: this.unread } = parseState(location.hash));
    this.problem = "";
  }

  private reload(): void {
    this.read();
    this.following = this.follow();
    if (this.following) void this.following.then(this.changed);
    else this.changed();
  }

  // Puts the view of a short link in its place. The short form stays in the address while the server wants a token.
  private follow(): Promise<void> | null {
    const id = linkIn(location.hash);
    if (!id) return null;
    return readLink(id).then(
      (state) => {
        history.replaceState(history.state, "", `#${state}`);
        this.read();
        this.following = null;
      },
      (error: unknown) => {
        const { message, status } = asProblem(error);
        this.problem = message;
        if (status !== 401) this.following = null;
      },
    );
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
    if (this.following) return;
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

// Takes a token if the server asks for one, in place of the views' errors.
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { embedded } from "../app/embed";
import { isRefused, keepToken, onRefusal, token } from "../app/token";
import { useApp } from "./context";
import { Field } from "./controls";

const WRONG = "The server does not accept this token.";
const WANTED = "This server wants a token.";

export function TokenGate() {
  const app = useApp();
  const input = useRef<HTMLInputElement>(null);
  const refused = isRefused();
  const wrong = token() !== "";
  useEffect(() => onRefusal(app.draw), [app]);
  useLayoutEffect(() => {
    if (!refused) return;
    input.current?.focus();
    app.announce(wrong ? WRONG : WANTED, true);
  }, [app, refused, wrong]);
  if (!refused) return null;
  // The address holds the state, so a fresh page asks for everything again.
  const use = (e: Event): void => {
    e.preventDefault();
    keepToken(input.current?.value.trim() ?? "");
    app.address.href();
    location.reload();
  };
  return (
    <form class="notice gate" aria-label="The server’s token" onSubmit={use}>
      <h2>{WANTED.slice(0, -1)}</h2>
      {embedded ? (
        <p>A frame of another page does not ask for it. Open headscope in a tab of its own.</p>
      ) : (
        <>
          <p>Ask the server’s operator for one. It is kept until this tab is closed and sent to this server only.</p>
          <Field label="Token">
            <input
              type="password"
              autocomplete="off"
              id="token"
              required
              ref={input}
              aria-describedby="error-token"
              aria-invalid={wrong ? "true" : undefined}
            />
          </Field>
          <p class="error" id="error-token" hidden={!wrong}>
            {WRONG}
          </p>
          <button type="submit" class="primary">
            Use this token
          </button>
        </>
      )}
    </form>
  );
}

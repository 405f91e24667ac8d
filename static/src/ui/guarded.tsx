// A field with the place for a problem below it.
import type { ComponentChildren } from "preact";

interface FieldProblem {
  name: string;
  text: string;
}

const idOf = (name: string): string => `error-${name}`;

// The attributes that connect an input with the problem below it.
export const guardOf = (name: string, problem: FieldProblem | null) => ({
  "aria-describedby": idOf(name),
  "aria-invalid": problem?.name === name ? ("true" as const) : undefined,
});

export function Guarded(props: { name: string; problem: FieldProblem | null; children: ComponentChildren }) {
  const { name, problem, children } = props;
  const wrong = problem?.name === name;
  return (
    <div>
      {children}
      <p class="error" id={idOf(name)} hidden={!wrong} role={wrong ? "alert" : undefined}>
        {wrong && problem.text}
      </p>
    </div>
  );
}

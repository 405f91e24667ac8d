// The controls of forms and toolbars. The state decides what they show; a change is reported and drawn with the rest.
import type { ButtonHTMLAttributes, ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Choice } from "../app/fields";
import { Explained, type Term } from "./explain";

interface Labelled {
  label: string;
  title?: string;
  help?: Term; // none: explained beside it
}

let groups = 0; // useId() repeats itself among trees that are drawn again from their root

// Exclusive choices side by side, as radio buttons so that arrows and screen readers work.
export function Segmented<T extends string>(
  props: Labelled & { value: T; choices: readonly Choice<T>[]; onChange: (value: T) => void },
) {
  const [name] = useState(() => `choice-${groups++}`);
  return (
    <Explained term={props.help}>
      <fieldset class="segmented" title={props.title}>
        <legend>{props.label}</legend>
        <div>
          {props.choices.map(({ value, label, title }) => (
            <label key={value} title={title}>
              <input
                type="radio"
                name={name}
                value={value}
                checked={value === props.value}
                onChange={() => props.onChange(value)}
              />
              <span>{label}</span>
            </label>
          ))}
        </div>
      </fieldset>
    </Explained>
  );
}

export function Field(props: Labelled & { children: ComponentChildren; class?: string }) {
  return (
    <Explained term={props.help}>
      <label class={`field ${props.class ?? ""}`} title={props.title}>
        <span>{props.label}</span>
        {props.children}
      </label>
    </Explained>
  );
}

export function Select<T extends string | number>(
  props: Labelled & {
    value: T;
    options: readonly (readonly [value: T, name: string])[];
    onChange: (value: T) => void;
  },
) {
  const choose = (at: number): void => {
    const option = props.options[at];
    if (option) props.onChange(option[0]);
  };
  return (
    <Field label={props.label} title={props.title} help={props.help}>
      <select value={props.value} onChange={(e) => choose(e.currentTarget.selectedIndex)}>
        <Options of={props.options} />
      </select>
    </Field>
  );
}

export const Options = ({ of }: { of: readonly (readonly [value: string | number, name: string])[] }) =>
  of.map(([value, name]) => (
    <option key={value} value={value}>
      {name}
    </option>
  ));

export function Toggle(props: Labelled & { on: boolean; onChange: (on: boolean) => void }) {
  return (
    <Explained term={props.help}>
      <label class="toggle" title={props.title}>
        <input type="checkbox" checked={props.on} onChange={(e) => props.onChange(e.currentTarget.checked)} />
        <span>{props.label}</span>
      </label>
    </Explained>
  );
}

// A button that submits no form.
export const Button = (props: ButtonHTMLAttributes<HTMLButtonElement>) => <button type="button" {...props} />;

// Ctrl+Enter submits the form of a text.
export const isSubmit = (e: KeyboardEvent): boolean => e.key === "Enter" && (e.ctrlKey || e.metaKey);

// A slider from 0.05 to 1 with its value beside its name.
export function Slider(props: Labelled & { value: number; onChange: (value: number) => void }) {
  return (
    <Explained term={props.help}>
      <label class="slider" title={props.title}>
        <span>{props.label}</span>
        <output>{props.value.toFixed(2)}</output>
        <input
          type="range"
          min={0.05}
          max={1}
          step={0.01}
          aria-label={props.label}
          value={props.value}
          onInput={(e) => props.onChange(Number(e.currentTarget.value))}
        />
      </label>
    </Explained>
  );
}

interface TextProps {
  value: string;
  onInput: (e: { currentTarget: HTMLInputElement }) => void;
  type: "search" | "number";
  min?: number;
  max?: number;
  step?: number;
  placeholder?: string;
  title?: string;
  "aria-label"?: string;
}

// An input whose text follows the state, except while someone types in it.
export function Input({ value, ...props }: TextProps) {
  const ref = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => {
    if (ref.current && document.activeElement !== ref.current) ref.current.value = value;
  });
  return <input {...(props as object)} ref={ref} />;
}

// A part that its title opens and closes. The state decides whether it is open: the browser's own toggle comes a task
// after the click, and a drawing between the two would close it again.
export function Disclosure(props: { title: string; open: boolean; onToggle: () => void; children: ComponentChildren }) {
  const toggle = (e: Event): void => {
    e.preventDefault();
    props.onToggle();
  };
  return (
    <details class="disclosure" open={props.open}>
      <summary onClick={toggle}>{props.title}</summary>
      {props.open && props.children}
    </details>
  );
}

// Names and values in a row. `exact`: false while better ones are on their way.
export function Facts(props: { of: readonly Fact[]; exact?: boolean }) {
  return (
    <div role="group" aria-label="Figures" aria-busy={props.exact === false}>
      <dl class="facts">
        {props.of.map(({ name, value, title, help }) => (
          <div key={name} title={title}>
            <dt>
              <Explained term={help}>{name}</Explained>
            </dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}
export interface Fact {
  name: string;
  value: string;
  title?: string;
  help?: Term;
}

// A part below a view that is made once it is opened.
export function Alternative({ title, children }: { title: string; children: ComponentChildren }) {
  const [open, setOpen] = useState(false);
  return (
    <details class="alternative" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>{title}</summary>
      {open && children}
    </details>
  );
}

// An element made elsewhere, a canvas for example, at its place in the tree.
export function Adopt({ element }: { element: HTMLElement }) {
  const place = useRef<HTMLSpanElement>(null);
  useLayoutEffect(() => place.current?.replaceChildren(element), [element]);
  return <span class="adopted" ref={place} />;
}
